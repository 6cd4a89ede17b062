/** What the token service does: building blocks of settings. */

import type { Service } from './service.ts';
import { type Answer, isWithin, MIN, type Request, type Rule, SEC, type Span } from './setting.ts';

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

/** Applies a rule, of the token service or of the API, between two times only. */
export const during =
  <Asked extends { readonly atMs: number }, Said>(
    span: Span,
    rule: (asked: Asked, service: Service) => Said | undefined,
  ) =>
  (asked: Asked, service: Service): Said | undefined =>
    isWithin(span, asked.atMs) ? rule(asked, service) : undefined;

/** Everybody gets this answer, because the service is down: it wants no request. */
export const outage =
  (answer: Answer): Rule =>
  () => ({ ...answer, unwanted: 'outage' });

/** Owners of one group get this answer instead of tokens. */
export const deadKeys =
  (group: string, answer: Answer): Rule =>
  (request) =>
    request.group.name === group ? { ...answer, unwanted: 'dead' } : undefined;

/** Behind a load balancer each request meets one of so many nodes, whoever sends it. */
export const nodes =
  (count: number, answerOf: (node: number, atMs: number) => Answer | undefined): Rule =>
  ({ atMs }, service) =>
    answerOf(Math.floor(service.random() * count), atMs);

/** One node after another is out of order for a while. */
export const rolling = (
  count: number,
  { fromMs, downMs, apartMs }: { readonly fromMs: number; readonly downMs: number; readonly apartMs: number },
  answer: Answer,
): Rule =>
  nodes(count, (node, atMs) => {
    const sinceMs = atMs - fromMs - node * apartMs;
    return sinceMs >= 0 && sinceMs < downMs ? answer : undefined;
  });

/** An outage that is over only for so many answers, and then returns, several times. From the end of the span on all is well. */
export function relapses(
  [fromMs, toMs]: Span,
  again: { readonly downMs: number; readonly answers: number; readonly againMs: number; readonly times: number },
  answer: Answer,
): Rule {
  let downUntilMs = fromMs + again.downMs;
  let left = again.answers;
  let times = again.times;
  return during([fromMs, toMs], (request, service) => {
    if (request.atMs >= downUntilMs) {
      if (times === 0 || left-- > 0) return undefined;
      times--;
      left = again.answers;
      downUntilMs = request.atMs + again.againMs;
    }
    return outage(answer)(request, service);
  });
}

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
  /** How many are given at once. Default: those of a second. */
  readonly burst?: number;
}): Rule {
  const { perSecond, status = 429, retryAfterS, burst } = limit;
  const rateAt = typeof perSecond === 'function' ? perSecond : () => perSecond;
  let left = burst ?? rateAt(0);
  let sinceMs = 0;
  return ({ atMs }) => {
    const rate = rateAt(atMs);
    left = Math.min(burst ?? rate, left + ((atMs - sinceMs) * rate) / SEC);
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

/** At most `count` requests in any second, then 429. */
export function perSecond(count: number): Rule {
  const granted: number[] = [];
  return ({ atMs }) => {
    while ((granted[0] ?? atMs) <= atMs - SEC) granted.shift();
    if (granted.length >= count) return overLimit();
    granted.push(atMs);
    return undefined;
  };
}

const overLimit = (status = 429): Answer => ({ ...refusal(status), ms: 5, unwanted: 'limit' });

/** Refuses while more than so many requests came within the window, refused ones included: a client that goes on asking stays out. */
export function blockedWhileAsking(most: number, windowMs: number): Rule {
  const came: number[] = [];
  return ({ atMs }) => {
    while ((came[0] ?? atMs) <= atMs - windowMs) came.shift();
    came.push(atMs);
    return came.length > most ? overLimit() : undefined;
  };
}

/** A client that sends more than so many requests in a second is refused for a while. */
export function penaltyBox(most: number, banMs: number): Rule {
  const came: number[] = [];
  let bannedUntilMs = 0;
  return ({ atMs }) => {
    if (atMs < bannedUntilMs) return overLimit();
    while ((came[0] ?? atMs) <= atMs - SEC) came.shift();
    came.push(atMs);
    if (came.length <= most) return undefined;
    came.length = 0;
    bannedUntilMs = atMs + banMs;
    return overLimit();
  };
}

/** Does so many requests a second and refuses a share of them beyond that, whoever sends them. */
export function shedding(capacity: number, status: number): Rule {
  let perSecond = 0;
  let sinceMs = 0;
  return ({ atMs }, service) => {
    perSecond = perSecond * Math.exp((sinceMs - atMs) / SEC) + 1;
    sinceMs = atMs;
    return service.random() < 1 - capacity / perSecond ? overLimit(status) : undefined;
  };
}

/** A latency that grows with how many requests run at once beyond so many, in this power. */
export const collapsing =
  (baseMs: number, beyond: number, power: number) =>
  (_request: Request, { inFlight }: Service): number =>
    baseMs * Math.max(1, inFlight / beyond) ** power;

/** Latencies around a median: a third of them are more than 2.7 times as long or short. */
export const logNormal =
  (medianMs: number, mostMs: number) =>
  (_request: Request, { random }: Service): number => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    return Math.min(mostMs, medianMs * Math.exp(normal));
  };

/** Latencies between these, a different one for each owner: as many below the geometric mean as above. */
export const spread =
  (leastMs: number, mostMs: number) =>
  ({ number }: Request): number =>
    leastMs * (mostMs / leastMs) ** (((number * 7_919) % 1_000) / 1_000);

/** At most so many requests at once. */
export const parallelLimit =
  (most: number, status: number): Rule =>
  (_request, service) =>
    service.inFlight >= most ? overLimit(status) : undefined;

/** An owner's newest token is issued again until it is this old. */
export const sameUntil =
  (ageMs: number): Rule =>
  ({ owner, atMs }, { tokens }) => {
    const token = tokens.newest.get(owner);
    return token && atMs - token.issuedMs < ageMs ? { token } : undefined;
  };
