/** How the scripted service answers: building blocks of scenes. */

import { type Answer, MIN, type Request, type Rule, SEC, type Span } from './scene.ts';
import type { Service } from './service.ts';

/** A refusal, with `Retry-After` if given. */
export const refusal = (status: number, retryAfterS?: number, body = ''): Answer => ({
  ms: 15,
  status,
  body,
  ...(retryAfterS !== undefined && { headers: { 'retry-after': String(Math.ceil(retryAfterS)) } }),
});

/** An OAuth error response. */
export const oauthError = (status: number, error: string): Answer =>
  refusal(status, undefined, JSON.stringify({ error }));

/** A page of a proxy, a firewall or a load balancer in front of the service. */
export const htmlPage = (status: number): Answer => ({
  ms: 15,
  status,
  headers: { 'content-type': 'text/html' },
  body: '<!doctype html><title>Something went wrong</title>',
});

export const hangs: Answer = { ms: Number.POSITIVE_INFINITY };
export const refusedConnection: Answer = { ms: 2, error: 'ECONNREFUSED' };
export const reset: Answer = { ms: 40, error: 'ECONNRESET' };
export const noSuchHost: Answer = { ms: 5, error: 'ENOTFOUND' };
export const failed: Answer = { ...refusal(500), ms: 20 };
export const noToken: Answer = { ms: 20, status: 200, body: '{"success":false}' };
export const cutShort: Answer = { ms: 80, status: 200, body: '{"access_token":"tok' };
export const loginPage: Answer = { ms: 20, status: 302, headers: { location: 'https://sso.example/login' } };

/** Applies a rule between two times only. */
export const during =
  ([fromMs, toMs]: Span, rule: Rule): Rule =>
  (request, service) =>
    request.atMs >= fromMs && request.atMs < toMs ? rule(request, service) : undefined;

/** Everybody gets this answer, because the service is down: it wants no request. */
export const outage =
  (answer: Answer): Rule =>
  () => ({ ...answer, unwanted: 'outage' });

/** Owners of one group get this answer instead of tokens. */
export const deadKeys =
  (group: string, answer: Answer): Rule =>
  (request) =>
    request.group.name === group ? { ...answer, unwanted: 'dead' } : undefined;

/** A share of all requests gets this answer, whoever sends them. The service does not mind being asked. */
export const sometimes =
  (share: number, answer: Answer): Rule =>
  (_request, service) =>
    service.random() < share ? answer : undefined;

/** A token bucket. */
export function quota(limit: {
  readonly perSecond: number | ((atMs: number) => number);
  readonly status?: number;
  readonly retryAfterS?: number;
}): Rule {
  const { perSecond, status = 429, retryAfterS } = limit;
  const rateAt = typeof perSecond === 'function' ? perSecond : () => perSecond;
  let left = rateAt(0);
  let sinceMs = 0;
  return ({ atMs }) => {
    const rate = rateAt(atMs);
    left = Math.min(rate, left + ((atMs - sinceMs) * rate) / SEC);
    sinceMs = atMs;
    if (left < 1) return { ...refusal(status, retryAfterS), unwanted: 'limit' };
    left--;
    return undefined;
  };
}

/** So many requests in each window, then 429 with `Retry-After` up to its end. */
export function windowQuota({ count, windowMs = MIN }: { readonly count: number; readonly windowMs?: number }): Rule {
  let window = -1;
  let used = 0;
  return ({ atMs }) => {
    const current = Math.floor(atMs / windowMs);
    if (current !== window) used = 0;
    window = current;
    if (++used <= count) return undefined;
    return { ...refusal(429, (windowMs - (atMs % windowMs)) / SEC), unwanted: 'limit' };
  };
}

/** So many requests in any second, then 429. */
export function perSecond(count: number): Rule {
  const granted: number[] = [];
  return ({ atMs }) => {
    while ((granted[0] ?? atMs) <= atMs - SEC) granted.shift();
    if (granted.length >= count) return { ...refusal(429), ms: 5, unwanted: 'limit' };
    granted.push(atMs);
    return undefined;
  };
}

/** A latency that grows with how many requests run at once beyond so many, in this power. */
export const collapsing =
  (baseMs: number, beyond: number, power: number) =>
  (_request: Request, { inFlight }: Service): number =>
    baseMs * Math.max(1, inFlight / beyond) ** power;

/** Latencies between these, a different one for each owner: as many below the geometric mean as above. */
export const spread =
  (leastMs: number, mostMs: number) =>
  ({ number }: Request): number =>
    leastMs * (mostMs / leastMs) ** (((number * 7_919) % 1_000) / 1_000);

/** At most so many requests at once. */
export const parallelLimit =
  (most: number, status: number): Rule =>
  (_request, service) =>
    service.inFlight >= most ? { ...refusal(status), ms: 5, unwanted: 'limit' } : undefined;
