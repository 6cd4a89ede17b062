/**
 * How long a JWT lives by its own `exp`, as the service's clock counts it. A service may issue the same JWT until it ends, so
 * `exp` − `iat` is its whole lifetime, not what is left of it:
 *
 * | `serviceTimeMs` | what is left |
 * |---|---|
 * | lies between `iat` and `exp`, or before `exp` if there is no `iat` | `exp` − `serviceTimeMs` |
 * | lies elsewhere: it is another machine's clock, such as a gateway's | unbounded |
 * | is unknown, or the token has no `exp` | undefined |
 *
 * Claims and the `Date` header have whole seconds, so each comparison allows for one, and what is left counts from the end of the
 * second that the service stated.
 *
 * Policies that override what a token says are exempt: `fixedLifetime()`, and an `Infinity` of any policy.
 */

import type { IssuedToken } from '../token-source.ts';
import { jwtTimes } from './jwt-times.ts';
import {
  type AssessedLifetime,
  assessLifetime,
  DEFAULT_LIFETIME_MS,
  type ExpiryPolicy,
  lifetimeUntil,
} from './lifetime.ts';

const SECOND_MS = 1_000;

/**
 * Milliseconds from the response until the token's `exp`: 0 in its last second, `Infinity` if the service's time cannot be that
 * of the issuer, undefined if nothing is known. Pure.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4 RFC 7519 §4.1.4, exp}
 */
export function msUntilExp({ token, serviceTimeMs }: IssuedToken): number | undefined {
  if (serviceTimeMs === undefined) return undefined;
  const { issuedAtMs = -Infinity, expiresAtMs } = jwtTimes(token) ?? {};
  if (expiresAtMs === undefined) return undefined;
  const latestMs = Math.floor(serviceTimeMs / SECOND_MS + 1) * SECOND_MS;
  if (latestMs < issuedAtMs || serviceTimeMs >= expiresAtMs + SECOND_MS) return Infinity;
  return Math.max(0, expiresAtMs - (serviceTimeMs % SECOND_MS === 0 ? latestMs : serviceTimeMs));
}

/** The lifetime of a token by everything known about it. */
export interface Life extends AssessedLifetime {
  /** How many times in a row the owner's token was in its last moment; undefined if none has ever stated how long it lives. */
  readonly lastMoments: number | undefined;
  /** Whether `exp` bounds nothing, because the service's time is another machine's. */
  readonly isExpIgnored: boolean;
}

/** How long a token in its last moment is held. Twice as long each time in a row, up to {@link DEFAULT_LIFETIME_MS}. */
const LAST_MOMENT_MS = 10;

/**
 * The lifetime of a token: what the policy states, but no longer than its `exp` allows. A service that caches an owner's token
 * returns it with the whole seconds left: 0 in the last one. So once an owner has had a positive lifetime, a stated 0 or less
 * is a last moment, and so is the second of `exp`: the token is held only briefly.
 *
 * @param before last moments in a row so far.
 * @param tookMs milliseconds since its request.
 */
export function lifeOf(policy: ExpiryPolicy, issued: IssuedToken, before: number | undefined, tookMs: number): Life {
  const stated = assessLifetime(policy.lifetimeMs(issued));
  const { problem, lifetimeMs } = stated;
  const leftMs = overridesExp(policy, issued, lifetimeMs) ? undefined : msUntilExp(issued);
  if (leftMs === 0 || (problem === 'not_positive' && before !== undefined)) {
    // Counts from the arrival: counted from the request, the token would have ended by then. After a slow answer it has ended.
    const fromMs = tookMs <= SECOND_MS ? tookMs : 0;
    const momentMs = lifetimeUntil(fromMs + LAST_MOMENT_MS * 2 ** (before ?? 0));
    const lastMoments = (before ?? 0) + 1;
    return { lifetimeMs: Math.min(momentMs, lifetimeMs, DEFAULT_LIFETIME_MS), lastMoments, isExpIgnored: false };
  }
  return {
    ...stated,
    lifetimeMs: Math.min(lifetimeMs, lifetimeUntil(leftMs ?? Infinity)),
    lastMoments: problem && before === undefined ? undefined : 0,
    isExpIgnored: leftMs === Infinity,
  };
}

const OVERRIDES_EXP = Symbol('overrides exp');

/** A symbol, so that a copy of the policy has it too. */
type Exempt = ExpiryPolicy & { readonly [OVERRIDES_EXP]?: (issued: IssuedToken) => boolean };

/** The policy, marked as exempt for the tokens for which the function returns true. */
export function exempt(policy: ExpiryPolicy, from: (issued: IssuedToken) => boolean = () => true): ExpiryPolicy {
  return Object.assign(policy, { [OVERRIDES_EXP]: from } satisfies Omit<Exempt, 'lifetimeMs'>);
}

/** Whether the lifetime that a policy gives this token holds even beyond the token's `exp`. */
export function overridesExp(policy: ExpiryPolicy, issued: IssuedToken, lifetimeMs: number): boolean {
  return lifetimeMs === Infinity || (policy as Exempt)[OVERRIDES_EXP]?.(issued) === true;
}
