/** How services refuse in production. */

import {
  cutShort,
  failed,
  hangs,
  htmlPage,
  loginPage,
  noSuchHost,
  noToken,
  oauthError,
  refusal,
  refusedConnection,
  reset,
} from '../../world/rules.ts';
import type { Answer } from '../../world/setting.ts';

type NamedAnswer = readonly [name: string, answer: Answer];

/** What a key that does not work gets. */
export const DEAD: readonly NamedAnswer[] = [
  ['404', refusal(404)],
  ['403', refusal(403)],
  ['401', refusal(401)],
  ['500', failed],
  ['503', refusal(503)],
  ['429', refusal(429)],
  ['429, Retry-After 120', refusal(429, 120)],
  ['503, Retry-After 600', refusal(503, 600)],
  ['invalid_grant', oauthError(400, 'invalid_grant')],
  ['invalid_client', oauthError(401, 'invalid_client')],
  ['invalid_request', oauthError(400, 'invalid_request')],
  ['unauthorized_client', oauthError(400, 'unauthorized_client')],
  ['invalid_scope', oauthError(400, 'invalid_scope')],
  ['405', refusal(405)],
  ['403 HTML', htmlPage(403)],
  ['a login page', loginPage],
  ['200 without a token', noToken],
  ['half an answer', cutShort],
  ['a reset', reset],
  ['no answer', hangs],
];

/** What a request gets by bad luck. */
export const LONE: readonly NamedAnswer[] = [
  ['500', failed],
  ['502', htmlPage(502)],
  ['503', refusal(503)],
  ['503, Retry-After 2', refusal(503, 2)],
  ['429', refusal(429)],
  ['429, Retry-After 1', refusal(429, 1)],
  ['invalid_client', oauthError(401, 'invalid_client')],
  ['403 HTML', htmlPage(403)],
  ['half an answer', cutShort],
  ['a reset', reset],
  ['a reset after the token was issued', { ...reset, issues: true }],
  ['a refused connection', refusedConnection],
  ['no answer', hangs],
];

/** What everybody gets while the service is down. */
export const DOWN: readonly NamedAnswer[] = [
  ['503', refusal(503)],
  ['500', failed],
  ['502 HTML', htmlPage(502)],
  ['429', refusal(429)],
  ['invalid_client', oauthError(401, 'invalid_client')],
  ['401', refusal(401)],
  ['403 HTML', htmlPage(403)],
  ['a login page', loginPage],
  ['refused connections', refusedConnection],
  ['resets', reset],
  ['unknown host', noSuchHost],
  ['no answer', hangs],
];
