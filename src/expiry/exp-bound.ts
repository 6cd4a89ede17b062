/**
 * How long a JWT lives by its own `exp`, as the service's clock counts it. A service may issue the same JWT until it ends, so
 * `exp` − `iat` says how long the token lives in all, and not how much of that is left:
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
 * Policies that the user sets against what a token says are exempt: `fixedLifetime()`, and an `Infinity` of any policy.
 */

import type { IssuedToken } from '../token-source.ts';
import { jwtTimes } from './jwt-times.ts';
import type { ExpiryPolicy } from './lifetime.ts';

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

const OVERRIDES_EXP = Symbol('overrides exp');

/** A symbol, so that a copy of the policy has it too. */
type Exempt = ExpiryPolicy & { readonly [OVERRIDES_EXP]?: (issued: IssuedToken) => boolean };

/** The policy, marked as exempt for the tokens of which the function says so. */
export function exempt(policy: ExpiryPolicy, from: (issued: IssuedToken) => boolean = () => true): ExpiryPolicy {
  return Object.assign(policy, { [OVERRIDES_EXP]: from } satisfies Omit<Exempt, 'lifetimeMs'>);
}

/** Whether the lifetime that a policy gives this token holds even beyond the token's `exp`. */
export function overridesExp(policy: ExpiryPolicy, issued: IssuedToken, lifetimeMs: number): boolean {
  return lifetimeMs === Infinity || (policy as Exempt)[OVERRIDES_EXP]?.(issued) === true;
}
