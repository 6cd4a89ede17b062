/**
 * Token lifetimes. An {@link ExpiryPolicy} states a lifetime; {@link assessLifetime} replaces an unusable value with
 * the default; {@link planLife} turns the result into the two instants that a token carries. Lifetimes count from just
 * before the request was sent, so a slow response never extends them.
 */

import { properties } from '../own-property.ts';
import type { IssuedToken } from '../token-source.ts';

/**
 * A lifetime together with a hint when to refresh.
 *
 * @example
 * ```ts
 * const endless: StatedLifetime = { lifetimeMs: Number.POSITIVE_INFINITY, refreshAfterMs: 6 * 3_600_000 };
 * const expiry: ExpiryPolicy = { lifetimeMs: () => endless };
 * ```
 */
export interface StatedLifetime {
  /** As a policy's number: milliseconds, `Infinity` for until rejected. */
  readonly lifetimeMs: number;
  /**
   * The latest refresh point in milliseconds, counted like the lifetime. It only ever moves a refresh forward: the
   * window in which the refresh point is drawn closes at the hint instead, and is shortened in proportion. Ignored
   * unless it is at least 1,000 and less than the lifetime.
   */
  readonly refreshAfterMs?: number | undefined;
}

/**
 * States how long a token lives, and may learn from which tokens are accepted and rejected.
 *
 * @example
 * ```ts
 * const byHeader: ExpiryPolicy = {
 *   lifetimeMs: ({ response }) => (response?.kind === 'short' ? 60_000 : 3_600_000),
 * };
 * ```
 */
export interface ExpiryPolicy {
  /**
   * The lifetime of the issued token in milliseconds, counted from `requestedAtMs`, which the registry always sets; with
   * a hint when to refresh, if there is one. `undefined` means unknown; `Infinity` means until rejected. Called more
   * than once for the same token when a source stores tokens, so it must give the same result.
   */
  lifetimeMs(issued: IssuedToken): number | StatedLifetime | undefined;
  /** A call with a token of this age succeeded. */
  accepted?(age: TokenAge): void;
  /** A token of this age was rejected. */
  rejected?(age: TokenAge): void;
}

/**
 * The age of one token. Owner and token are identified by their fingerprints.
 *
 * @example
 * ```ts
 * const ages: TokenAge[] = [];
 * const expiry: ExpiryPolicy = { ...fixedLifetime(60_000), rejected: (age) => void ages.push(age) };
 * ```
 */
export interface TokenAge {
  /** Digest that identifies the owner, even where `ownerLabel` is set. */
  readonly owner: string;
  /** Fingerprint of the token. */
  readonly token: string;
  /** Milliseconds since the token was requested. */
  readonly ageMs: number;
}

/** Used when no policy knows the lifetime: short enough to be safe, long enough not to hammer the endpoint. */
export const DEFAULT_LIFETIME_MS = 300_000;

/** Ten years of 365 days. A longer lifetime is a mistake, such as a timestamp given as a duration. */
export const MAX_LIFETIME_MS = 10 * 365 * 86_400_000;

/** Why a stated lifetime cannot be used. */
export type LifetimeProblem = 'absent' | 'unreadable' | 'not_positive' | 'absurd';

/** The shortest refresh hint: a shorter one would cost a request on nearly every call. */
const MIN_REFRESH_AFTER_MS = 1000;

/** What the registry makes of a policy's statement. */
export interface AssessedLifetime extends StatedLifetime {
  /** Why {@link DEFAULT_LIFETIME_MS} is used instead of what was stated. */
  readonly problem?: LifetimeProblem | undefined;
}

/**
 * The lifetime to use. A positive number up to ten years is used as stated, and so is exactly `Infinity`, which only a
 * policy can state. Anything else is a problem and is replaced by {@link DEFAULT_LIFETIME_MS}, without a hint.
 */
export function assessLifetime(stated: unknown): AssessedLifetime {
  const isObject = typeof stated === 'object' && stated !== null;
  const { lifetimeMs, refreshAfterMs }: UncheckedLifetime = isObject
    ? properties(stated, PARTS)
    : { lifetimeMs: stated, refreshAfterMs: undefined };
  if (lifetimeMs === undefined) return unusable('absent');
  if (typeof lifetimeMs !== 'number' || Number.isNaN(lifetimeMs)) return unusable('unreadable');
  if (lifetimeMs <= 0) return unusable('not_positive');
  if (lifetimeMs > MAX_LIFETIME_MS && lifetimeMs !== Infinity) return unusable('absurd');
  const hasHint = typeof refreshAfterMs === 'number' && refreshAfterMs >= MIN_REFRESH_AFTER_MS;
  return { lifetimeMs, refreshAfterMs: hasHint && refreshAfterMs < lifetimeMs ? refreshAfterMs : undefined };
}

const PARTS = ['lifetimeMs', 'refreshAfterMs'] as const satisfies (keyof StatedLifetime)[];
type UncheckedLifetime = Partial<Record<keyof StatedLifetime, unknown>>;

const unusable = (problem: LifetimeProblem) => ({
  lifetimeMs: DEFAULT_LIFETIME_MS,
  refreshAfterMs: undefined,
  problem,
});

/**
 * Safety margin before expiry: a share of the lifetime, so that even a five-second token is reused, but at most 10 s.
 */
const MARGIN_SHARE = 0.05;
const MAX_MARGIN_MS = 10_000;

/** When a registry stops serving a token: its end, less the margin. */
export function endOf(requestedAtMs: number, lifetimeMs: number): number {
  return requestedAtMs + lifetimeMs - Math.min(lifetimeMs * MARGIN_SHARE, MAX_MARGIN_MS);
}

/** The lifetime whose end, less the margin, comes after this many milliseconds. */
export function lifetimeUntil(endMs: number): number {
  return Math.min(endMs / (1 - MARGIN_SHARE), endMs + MAX_MARGIN_MS);
}

/**
 * Turns a lifetime into the instants that a token carries; for an infinite lifetime without a hint, both are infinite.
 * The refresh point is drawn once per token: if it were drawn on each read, the earliest draw would win and the jitter
 * would disappear.
 */
export function planLife(life: {
  requestedAtMs: number;
  lifetimeMs: number;
  refreshAfterMs?: number | undefined;
  /** Shares of the lifetime, over 0, between which the refresh point is drawn. */
  refreshWindow: readonly [number, number];
  random: () => number;
}): { refreshAtMs: number; expiresAtMs: number } {
  const { requestedAtMs, lifetimeMs, refreshAfterMs = Infinity, refreshWindow } = life;
  const [opens, closes] = refreshWindow;
  const share = opens + (closes - opens) * life.random();
  const expiresAtMs = endOf(requestedAtMs, lifetimeMs);
  // The lifetime whose window closes at the hint, if that is shorter.
  const hintedMs = Math.min(lifetimeMs, refreshAfterMs / closes);
  return { refreshAtMs: Math.min(requestedAtMs + hintedMs * share, expiresAtMs), expiresAtMs };
}
