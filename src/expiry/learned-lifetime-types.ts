/** The public types of the policy that learns. */

import type { IssuedToken } from '../token-source.ts';
import type { ExpiryPolicy, TokenAge } from './lifetime.ts';

/**
 * Options of `learnedLifetime`.
 *
 * @example
 * ```ts
 * const options: LearnedLifetimeOptions = { guessMs: 600_000, minMs: 60_000, maxMs: 86_400_000 };
 * ```
 */
export interface LearnedLifetimeOptions {
  /** Lifetime to start with in milliseconds, from `minMs` to `maxMs`. Default: 300,000, or the nearer bound. */
  guessMs?: number | undefined;
  /** Lower bound of all stated lifetimes in milliseconds, 1,000 or more. Default: 1,000. */
  minMs?: number | undefined;
  /** Upper bound of all stated lifetimes in milliseconds, up to ten years. Default: thirty days. */
  maxMs?: number | undefined;
  /** Share of the calls that may have to be repeated for the sake of learning, 0 to 0.05. Default: 0.003. */
  exploration?: number | undefined;
  /** What `snapshot()` returned in an earlier run. Default: none. */
  snapshot?: LearnedLifetimeSnapshot | undefined;
}

/**
 * What was learned: plain data without secrets, about two kilobytes as JSON.
 *
 * @example
 * ```ts
 * const snapshot: LearnedLifetimeSnapshot = learnedLifetime().snapshot();
 * const next = learnedLifetime({ snapshot: JSON.parse(JSON.stringify(snapshot)) }); // after a restart
 * ```
 */
export interface LearnedLifetimeSnapshot {
  /** Version of this format. */
  readonly version: 1;
  /** The estimated lifetime in milliseconds. */
  readonly estimateMs: number;
  /** Calls that may still be repeated for the sake of learning, 0 to 16. */
  readonly credit: number;
  /** Log-likelihood of each candidate lifetime. */
  readonly scores: readonly number[];
}

/**
 * What {@link LearnedLifetime.stats} returns.
 *
 * @example
 * ```ts
 * const { estimateMs, confidence }: LearnedLifetimeStats = learnedLifetime().stats();
 * console.log(estimateMs); // → 300000
 * ```
 */
export interface LearnedLifetimeStats {
  /** The lifetime of all tokens except explorers, in milliseconds. */
  readonly estimateMs: number;
  /** The shortest and the longest lifetime in milliseconds that are consistent with the evidence. */
  readonly betweenMs: readonly [number, number];
  /** From 0 to 1: the likelihood of the estimate and its neighbours, relative to all lifetimes. */
  readonly confidence: number;
  /** What the estimate is based on: counts since the policy was made. */
  readonly evidence: {
    /** Acceptances at an age that was new for their token. */
    readonly survivals: number;
    /** Rejections that counted, fully or in part. */
    readonly endings: number;
    /** Rejections that say nothing about the lifetime: of a token that was never accepted, or was rejected before. */
    readonly ignored: number;
    /** Tokens whose stated lifetime was longer than the estimate. */
    readonly explorers: number;
  };
}

/**
 * An {@link ExpiryPolicy} that learns; see `learnedLifetime`.
 *
 * @example
 * ```ts
 * const expiry: LearnedLifetime = learnedLifetime({ guessMs: 600_000 });
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, expiry });
 * ```
 */
export interface LearnedLifetime extends ExpiryPolicy {
  /** The lifetime to assume for this token: the estimate, or a longer one for an explorer. */
  lifetimeMs(issued: IssuedToken): number;
  /** A call with a token of this age succeeded. */
  accepted(age: TokenAge): void;
  /** A token of this age was rejected. */
  rejected(age: TokenAge): void;
  /** What was learned so far. */
  stats(): LearnedLifetimeStats;
  /** For `options.snapshot` after a restart. */
  snapshot(): LearnedLifetimeSnapshot;
}
