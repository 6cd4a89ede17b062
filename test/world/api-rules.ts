/** What the API does, and what else happens to tokens: building blocks of settings. */

import type { Service } from './service.ts';
import { type ApiRule, HOUR, isWithin, MIN, type Span } from './setting.ts';

/** Applies a rule for `lastsMs` of each `everyMs`. */
export const periodically =
  (everyMs: number, lastsMs: number, rule: ApiRule): ApiRule =>
  (call, service) =>
    call.atMs % everyMs < lastsMs ? rule(call, service) : undefined;

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
  (isRefused: (number: number) => boolean): ApiRule =>
  ({ number }) =>
    isRefused(number) ? 401 : undefined;

/** All tokens are revoked at this time. */
export const revokeAll =
  (revokedMs: number): ApiRule =>
  ({ token, atMs }) =>
    atMs >= revokedMs && token.issuedMs < revokedMs ? 401 : undefined;

/** Tokens that were issued between two times are refused for good: the service signed them with a wrong key. */
export const refuseIssued =
  (span: Span): ApiRule =>
  ({ token }) =>
    isWithin(span, token.issuedMs) ? 401 : undefined;

/** A share of the calls reach a replica that learns of a token only after a while. */
export const replicaBehind =
  (share: number, behindMs: number): ApiRule =>
  ({ token, atMs }, { random }) =>
    random() < share && atMs < token.issuedMs + behindMs ? 401 : undefined;

/** A share of the calls reach a replica whose clock is ahead. */
export const replicaAhead =
  (share: number, aheadMs: number): ApiRule =>
  (call, service) =>
    service.random() < share && !service.isAlive(call, aheadMs) ? 401 : undefined;

/** From the second minute on, revokes the newest token of one owner after another. */
export const revokeOneEach =
  (everyMs: number) =>
  ({ clock, tokens }: Service): void => {
    let turn = 0;
    const next = (atMs: number) =>
      clock.at(atMs, () => {
        const newest = [...tokens.newest.values()];
        const token = newest[turn++ % newest.length];
        if (token) token.revoked = true;
        if (atMs < HOUR) next(atMs + everyMs);
      });
    next(2 * MIN);
  };

/** From the first minute on, another process gets tokens for the same owners, each of them this often. */
export const issueElsewhereEvery =
  (everyMs: number) =>
  (service: Service): void => {
    const { clock, tokens, random } = service;
    const next = (atMs: number) =>
      clock.at(atMs, () => {
        for (const owner of tokens.newest.keys()) clock.at(atMs + random() * everyMs, () => service.issue(owner));
        if (atMs < HOUR) next(atMs + everyMs);
      });
    next(MIN);
  };
