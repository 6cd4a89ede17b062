/**
 * Libraries that you might choose instead, each behind the same small adapter, written as its docs suggest:
 *
 * - `name`, and `packages` whose versions the tables state;
 * - `open({ tokenUrl, clientId, clientSecret })` loads the library and resolves to `getToken(accessKey)`; `renew(accessKey, token)`, which is what
 *   its docs do after a 401 with that token; `printed()`, the objects that an application holds and may print; `close()`;
 * - `own`: which parts are the adapter's own code, because the library has none: the token `request`, the `cache`, or the
 *   access `keys`; `shares`: `open` takes an ioredis client, to share tokens in Redis.
 */

import { readFileSync } from 'node:fs';
import { asyncCacheDedupe } from './async-cache-dedupe.mjs';
import { badgateway } from './badgateway.mjs';
import { bentocache } from './bentocache.mjs';
import { cockatiel } from './cockatiel.mjs';
import { googleAuth } from './google-auth.mjs';
import { lruCache } from './lru-cache.mjs';
import { msalNode } from './msal-node.mjs';
import { octokit } from './octokit.mjs';
import { openidClient } from './openid-client.mjs';
import { pMemoizePeer } from './p-memoize.mjs';
import { simpleOauth2 } from './simple-oauth2.mjs';

export const peers = [
  ...[badgateway, msalNode, octokit, googleAuth, openidClient, simpleOauth2],
  ...[cockatiel, asyncCacheDedupe, bentocache, lruCache, pMemoizePeer],
];

/** The installed version of a peer's package. */
export function versionOf({ packages: [name] }) {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).version;
}
