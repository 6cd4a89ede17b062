/** What a world is made of, as data: who calls, and what the token service and the API do. */

import type { Service } from './service.ts';
import type { Token } from './tokens.ts';

export const SEC = 1_000;
export const MIN = 60 * SEC;
export const HOUR = 60 * MIN;

export interface Setting {
  readonly minutes: number;
  readonly tenants: readonly TenantGroup[];
  /** Made anew for each run. The first rule that answers a request decides; if none does, it gets a token. */
  readonly rules?: () => readonly Rule[];
  /** How long a token takes, give or take a fifth. Default: 80. */
  readonly latencyMs?: number | ((request: Request, service: Service) => number);
  /** The lifetime that the token service states, and the real one if it is another. Default: 3,600. */
  readonly tokenLifeS?: number;
  readonly trueLifeS?: number;
  /** A new token revokes the owner's one before. */
  readonly revokesPrevious?: true;
  /** The service returns an owner's token until it ends, with the whole seconds that are left. */
  readonly repeatsTokens?: true;
  /** How far the service's clock is ahead of the client's. Tokens are JWTs then, answers have a `Date`, and `Retry-After` is one. */
  readonly clockAheadMs?: number;
  /** The share of reads of the client secret that throw. */
  readonly secretFails?: number;
  /**
   * Calls present their token to an API, whose rules are made anew for each run. The first rule that answers a call decides;
   * if none does, a token that is alive is accepted.
   */
  readonly api?: () => readonly ApiRule[];
  /** The API accepts a token only this long after it was issued. */
  readonly validAfterMs?: number;
  readonly apiClockAheadMs?: number;
  /** How long a 401 of the API takes. */
  readonly refusalMs?: number;
}

/** Milliseconds from the start: from the first on, and before the second. */
export type Span = readonly [fromMs: number, toMs: number];

export const isWithin = ([fromMs, toMs]: Span, ms: number) => ms >= fromMs && ms < toMs;

/** Owners with the same call pattern. An owner's access key is the group's name, a dash and a number. */
export interface TenantGroup {
  readonly name: string;
  /** So many owners, each of which calls every `everyMs` on average, at random. */
  readonly count?: number;
  readonly everyMs?: number;
  /** Each calls again after half to one and a half times as long. */
  readonly isEven?: true;
  /** All call once within this time first, in the order of their numbers. */
  readonly burstMs?: number;
  /** Instead of `count`: newcomers, so many a second, each of whom calls once. */
  readonly perSecond?: number;
  /** When they call. */
  readonly fromMs?: number;
  readonly untilMs?: number;
  readonly pattern?: (ms: number) => boolean;
  /** When their calls do not count, because nobody could serve them. */
  readonly ill?: boolean;
  readonly illFromMs?: number;
  readonly illUntilMs?: number;
}

/** A request for a token, as the service sees it. */
export interface Request {
  readonly owner: string;
  readonly group: TenantGroup;
  readonly number: number;
  readonly atMs: number;
}

export type Rule = (request: Request, service: Service) => Answer | undefined;

/** How the service answers a request instead of giving a new token. */
export interface Answer {
  readonly status?: number;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The connection fails, with this code. */
  readonly error?: string;
  /** How long it takes. Default: the latency; `Infinity`: no answer. */
  readonly ms?: number;
  /** A token is issued, but does not arrive. */
  readonly issues?: boolean;
  /** This token is issued again. */
  readonly token?: Token;
  /**
   * The service did not want this request, because it is down (`outage`) or its limit is used up (`limit`); or it wants one
   * request for this owner every 10 s at most, or one each `Retry-After` (`dead`).
   */
  readonly unwanted?: Unwanted;
}

export type Unwanted = 'outage' | 'limit' | 'dead';

/** A call of the API. */
export interface ApiCall {
  readonly owner: string;
  readonly number: number;
  readonly route: string;
  readonly atMs: number;
  readonly token: Token;
}

/** How the API answers a call: with this status. */
export type ApiRule = (call: ApiCall, service: Service) => number | undefined;
