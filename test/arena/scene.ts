/** A setting of the world in which the registry is compared with others, and which calls count there. */

import type { Setting, Span } from '../world/setting.ts';

export interface Scene extends Setting {
  readonly name: string;
  /** When the client's process stands still. */
  readonly standstills?: readonly Span[];
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
