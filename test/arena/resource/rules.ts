/** What the API and the token service may do: building blocks of scenes. */

import { HOUR, MIN, SEC, type Span } from '../scene.ts';
import type { ApiRule, TokenRule } from './scene.ts';
import type { Services } from './services.ts';

/** Applies a rule between two times only. */
export const during =
  <Request extends { readonly atMs: number }, Answer>(
    [fromMs, toMs]: Span,
    rule: (request: Request, services: Services) => Answer | undefined,
  ) =>
  (request: Request, services: Services): Answer | undefined =>
    request.atMs >= fromMs && request.atMs < toMs ? rule(request, services) : undefined;

/** Applies a rule for `lastsMs` of each `everyMs`. */
export const again =
  (everyMs: number, lastsMs: number, rule: ApiRule): ApiRule =>
  (call, services) =>
    call.atMs % everyMs < lastsMs ? rule(call, services) : undefined;

/** The API refuses everybody. */
export const refuseAll: ApiRule = () => 401;

/** The API refuses a share of the calls, for example those that reach a node with stale keys. */
export const refuseShare =
  (share: number): ApiRule =>
  (_call, { random }) =>
    random() < share ? 401 : undefined;

/** Some routes refuse every token. */
export const refuseRoute =
  (refused: string): ApiRule =>
  ({ route }) =>
    route === refused ? 401 : undefined;

/** The API refuses some owners, whatever their token. */
export const refuseOwners =
  (isRefused: (owner: number) => boolean): ApiRule =>
  ({ owner }) =>
    isRefused(owner) ? 401 : undefined;

/** All tokens are revoked at this time. */
export const revokeAll =
  (revokedMs: number): ApiRule =>
  ({ token, atMs }) =>
    token && atMs >= revokedMs && token.issuedMs < revokedMs ? 401 : undefined;

/** Tokens that were issued between two times are refused for good: the service signed them with a wrong key. */
export const refuseIssued =
  ([fromMs, toMs]: Span): ApiRule =>
  ({ token }) =>
    token && token.issuedMs >= fromMs && token.issuedMs < toMs ? 401 : undefined;

/** A share of the calls reach a replica that learns of a token only after a while. */
export const replicaBehind =
  (share: number, behindMs: number): ApiRule =>
  ({ token, atMs }, { random }) =>
    token && random() < share && atMs < token.issuedMs + behindMs ? 401 : undefined;

/** A share of the calls reach a replica whose clock is ahead. */
export const replicaAhead =
  (share: number, aheadMs: number): ApiRule =>
  (call, services) =>
    services.random() < share && !services.isAlive(call, aheadMs) ? 401 : undefined;

/** The token service is down. */
export const down: TokenRule = () => ({ status: 503, ms: 20 });

/** The token service takes this long. */
export const slow =
  (ms: number): TokenRule =>
  () => ({ ms });

/** The token service allows so many requests a second, and answers 429 to more. */
export function quota(perSecond: number): TokenRule {
  let left = perSecond;
  let sinceMs = 0;
  return ({ atMs }) => {
    left = Math.min(perSecond, left + ((atMs - sinceMs) * perSecond) / SEC);
    sinceMs = atMs;
    if (left < 1) return { status: 429, ms: 15 };
    left--;
    return undefined;
  };
}

/** The token service issues an owner's newest token again until that is this old. */
export const sameUntil =
  (ageMs: number): TokenRule =>
  ({ owner, atMs }, { newest }) => {
    const token = newest.get(owner);
    return token && atMs - token.issuedMs < ageMs ? { token } : undefined;
  };

/** From the second minute on, revokes the newest token of one owner after another. */
export const revokeOneEach =
  (everyMs: number) =>
  ({ time, newest }: Services): void => {
    let turn = 0;
    const next = (atMs: number) =>
      time.at(atMs, () => {
        const tokens = [...newest.values()];
        const token = tokens[turn++ % tokens.length];
        if (token) token.revoked = true;
        if (atMs < HOUR) next(atMs + everyMs);
      });
    next(2 * MIN);
  };

/** From the first minute on, another process gets tokens for the same owners, each of them this often. */
export const elsewhereEach =
  (everyMs: number) =>
  (services: Services): void => {
    const { time, newest, random } = services;
    const next = (atMs: number) =>
      time.at(atMs, () => {
        for (const owner of newest.keys()) time.at(atMs + random() * everyMs, () => services.issue(owner));
        if (atMs < HOUR) next(atMs + everyMs);
      });
    next(MIN);
  };
