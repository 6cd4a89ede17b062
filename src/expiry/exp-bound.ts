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
import { type AssessedLifetime, assessLifetime, type ExpiryPolicy, lifetimeUntil } from './lifetime.ts';

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
  /** Whether the token stated how long it lives, be it a last moment. */
  readonly isStated: boolean;
  /** Whether `exp` bounds nothing, because the service's time is another machine's. */
  readonly isExpIgnored: boolean;
}

/** How long a token in its last moment is held. */
const LAST_MOMENT_MS = 1_000;

/**
 * The lifetime of a token: what the policy states, but no longer than its `exp` allows. A service that caches an owner's token
 * returns it with the whole seconds left: 0 in the last one. So the second of `exp` is a last moment, and so is a stated 0 or less
 * once the owner's tokens state how long they live.
 *
 * @param wasStated {@link Life.isStated} of the owner's last token.
 * @param tookMs milliseconds since its request.
 */
export function lifeOf(policy: ExpiryPolicy, issued: IssuedToken, wasStated: boolean, tookMs: number): Life {
  const { problem, lifetimeMs, refreshAfterMs } = assessLifetime(policy.lifetimeMs(issued));
  const byExpMs = msUntilExp(issued);
  const leftMs = byExpMs !== undefined && overridesExp(policy, issued, lifetimeMs) ? undefined : byExpMs;
  if (leftMs === 0 || (problem === 'not_positive' && wasStated)) {
    // Counts from the arrival: counted from the request, the token would have ended by then.
    const mostMs = lifetimeUntil(tookMs + LAST_MOMENT_MS);
    return { lifetimeMs: Math.min(lifetimeMs, mostMs), isStated: true, isExpIgnored: false };
  }
  const boundMs = leftMs === undefined ? lifetimeMs : Math.min(lifetimeMs, lifetimeUntil(leftMs));
  return { lifetimeMs: boundMs, refreshAfterMs, problem, isStated: !problem, isExpIgnored: leftMs === Infinity };
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
