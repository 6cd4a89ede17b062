/** One tenant of 300 is out of order, and its backend polls each second or more often. Nobody else may notice. */

import { deadKeys, hangs, htmlPage, loginPage, oauthError, refusal } from '../../world/rules.ts';
import { type Answer, SEC } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { dead, newcomers, tenants } from './groups.ts';

const oneTenant = (what: string, answer: Answer): Scene => ({
  name: `one tenant: ${what}`,
  minutes: 15,
  tenants: [tenants(300), newcomers(1), dead(1, { everyMs: SEC })],
  rules: () => [deadKeys('dead', answer)],
});

export const oneTenantScenes: readonly Scene[] = [
  oneTenant('429', refusal(429)),
  oneTenant('429, Retry-After 60', refusal(429, 60)),
  oneTenant('429, Retry-After 3600', refusal(429, 3_600)),
  oneTenant('invalid_request', oauthError(400, 'invalid_request')),
  oneTenant('unauthorized_client', oauthError(400, 'unauthorized_client')),
  oneTenant('405', refusal(405)),
  oneTenant('redirect to a login page', loginPage),
  oneTenant('invalid_grant', oauthError(400, 'invalid_grant')),
  oneTenant('invalid_client', oauthError(401, 'invalid_client')),
  oneTenant('403 with a page of HTML', htmlPage(403)),
  {
    ...oneTenant('hangs, called 100 times a second', hangs),
    minutes: 3,
    tenants: [tenants(300), newcomers(3), dead(1, { everyMs: 10 })],
  },
];
