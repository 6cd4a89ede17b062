/** Calls use their token: an API that does not accept it answers 401, and the caller rejects it and asks for another. */

import { deadKeys, failed, reset, sometimes } from '../rules.ts';
import { MIN, type Scene, SEC } from '../scene.ts';
import { dead, newcomers, tenants } from './groups.ts';

export const tokenUseScenes: readonly Scene[] = [
  {
    name: 'each new token revokes the one before, beside 100 dead keys (500)',
    minutes: 20,
    tokenLifeS: 300,
    tenants: [tenants(200, { everyMs: 15 * SEC }), dead(100), newcomers(0.5)],
    rules: () => [deadKeys('dead', failed)],
    accepts: ({ isNewest }) => isNewest,
  },
  {
    name: 'each new token revokes the one before, and one answer in fifty is lost',
    minutes: 15,
    tokenLifeS: 120,
    tenants: [tenants(200, { everyMs: 15 * SEC })],
    rules: () => [sometimes(0.02, { ...reset, issues: true })],
    accepts: ({ isNewest }) => isNewest,
  },
  {
    name: 'the service forgets all its tokens at once',
    minutes: 12,
    tenants: [tenants(500, { everyMs: 10 * SEC }), newcomers(1)],
    accepts: ({ issuedMs }, atMs) => issuedMs >= 6 * MIN || atMs < 6 * MIN,
  },
  {
    name: 'tokens of 10 s, beside 10 dead keys',
    minutes: 5,
    tokenLifeS: 10,
    tenants: [tenants(100, { everyMs: 2 * SEC }), dead(10, { everyMs: SEC })],
    rules: () => [deadKeys('dead', failed)],
    accepts: ({ issuedMs }, atMs) => atMs < issuedMs + 10 * SEC,
  },
];
