/** What a scene is made of: who calls, how the service answers, and which calls count. */

import type { Service } from './service.ts';

export const SEC = 1_000;
export const MIN = 60 * SEC;
export const HOUR = 60 * MIN;

export interface Scene {
  readonly name: string;
  readonly minutes: number;
  readonly tenants: readonly TenantGroup[];
  /** Made anew for each run. The first rule that answers a request decides; if none does, it gets a token. */
  readonly rules?: () => readonly Rule[];
  /** How long a token takes, give or take a fifth. Default: 80. */
  readonly latencyMs?: number | ((request: Request, service: Service) => number);
  /** Default: 3,600. */
  readonly tokenLifeS?: number;
  /** Calls present their token to an API that accepts it or not. One that does not answers 401, and the caller rejects. */
  readonly accepts?: (token: Issued, atMs: number, random: () => number) => boolean;
  /** How far the service's clock is ahead of the client's. Tokens are JWTs then, answers have a `Date`, and `Retry-After` is one. */
  readonly clockAheadMs?: number;
  /** The service returns an owner's token until it ends, with the whole seconds that are left. */
  readonly repeatsTokens?: true;
  /** When the client's process stands still. */
  readonly standstills?: readonly Span[];
  /** The share of reads of the client secret that throw. */
  readonly secretFails?: number;
  /** The most requests at once that the subject is set to, where it can be set; baselines: 32 if it is not. */
  readonly concurrency?: number;
  /** The most owners whose tokens are kept, for subject and baselines. Default: 100,000. */
  readonly maxOwners?: number;
  /** So many clients of the same kind share the service; calls go to them in turn. Default: 1. */
  readonly replicas?: number;
  /** All keys of a group are warmed up then, by the first client; one that cannot warm up gets a call for each. */
  readonly warmUp?: { readonly atMs: number; readonly group: string };
  /** A call that is served later than this is late. Default: 2,000. */
  readonly lateMs?: number;
  /**
   * Times in which no call counts, because a client that respects the service may fail there: 30 s after a full outage (it
   * may ask that rarely), and while a `Retry-After` for everybody is in force.
   */
  readonly uncounted?: readonly Span[];
  /** The API refuses good tokens, so that luck decides more: refreshing ahead meets a moment at which the API refuses more often. */
  readonly refusesGoodTokens?: true;
  /** Where the service's limits are exceeded: the percentage of counted calls that a client that knows them could serve. */
  readonly ideal?: number;
  /** When the fault is over: a minute later every owner is to be served again. */
  readonly endsMs?: number;
  /**
   * The share of the requests that may exceed a limit. Compared with nobody: plain gives up after one refusal, and so exceeds it
   * by little.
   */
  readonly mostOverLimit?: number;
  /** Everything fails for five minutes or more: then a tenth of the requests of the plain baseline must do. */
  readonly longOutage?: boolean;
  /** The share of the plain baseline's requests in an outage that must do. Default: all, or a tenth in a long outage. */
  readonly mostInOutage?: number;
  /** The percentage of calls to be served in time where no baseline is a measure, because its 32 at once are too few. */
  readonly least?: number;
  /** How many percentage points fewer than with a baseline may be served, because the service tells healthy tenants to wait. */
  readonly slackPoints?: number;
  /** Nobody waits for the calls that do not count, so that they may take long to fail. */
  readonly batchMayWait?: true;
  /** Played and shown, but not judged: nobody knows yet what is right, or it is a known loss. */
  readonly informative?: true;
}

/** From, up to and without; milliseconds from the start. */
export type Span = readonly [fromMs: number, toMs: number];

/** Owners that call alike. An owner's access key is the group's name, a dash and a number. */
export interface TenantGroup {
  readonly name: string;
  /** So many owners, each of which calls every `everyMs` on average, at random. */
  readonly count?: number;
  readonly everyMs?: number;
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

/** How the service answers a request instead of giving a token. */
export interface Answer {
  readonly status?: number;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The connection fails, with this code. */
  readonly error?: string;
  /** How long it takes. Default: the latency of the scene; `Infinity`: no answer. */
  readonly ms?: number;
  /** A token is issued, but does not arrive. */
  readonly issues?: boolean;
  /**
   * The service did not want this request, because it is down (`outage`) or its limit is used up (`limit`); or it wants one
   * request for this owner every 10 s at most, or one each `Retry-After` (`dead`).
   */
  readonly unwanted?: Unwanted;
}

export type Unwanted = 'outage' | 'limit' | 'dead';

/** A token that the service issued. */
export interface Issued {
  readonly owner: string;
  readonly issuedMs: number;
  /** Whether it is the last one issued to this owner. */
  readonly isNewest: boolean;
}
