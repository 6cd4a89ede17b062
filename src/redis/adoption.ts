/**
 * From a shared token to a grant by which this replica's registry comes to an expiry no later than the truth that was
 * sealed with it. Pure. The registry asks its own policy, so the grant has to be one of which the policy says so:
 *
 * - as it was first obtained, its age taken from this replica's clock: right for policies that read the answer, a
 *   JWT's `exp` − `iat`, or nothing;
 * - dated back by what the policy gives more than the replica did that obtained it;
 * - with the sealed lifetime as `expires_in`: for a JWT without `iat`, whose end the policy finds on a clock that may
 *   be minutes off.
 *
 * When no form will do, the token is not for this replica.
 */

import { jwtTimes } from '../expiry/jwt-times.ts';
import { planLife } from '../expiry/lifetime.ts';
import type { IssuedToken } from '../token.ts';
import type { SharedToken } from './sealing.ts';

export interface AdoptionFacts {
  readonly shared: SharedToken;
  /** How old the token is by the server's time. */
  readonly ageMs: number;
  /** This replica's wall clock just before it asked: the age counts from there, never from later. */
  readonly askedAtMs: number;
  /** What this replica's policy makes of a grant. */
  lifetimeMs(grant: IssuedToken): number;
}

/** Undefined: over for this replica, or never to be dated right. */
export function adoptedGrant(facts: AdoptionFacts): IssuedToken | undefined {
  const { shared, ageMs, askedAtMs } = facts;
  // A server whose time went back cannot tell the age of what it stored before.
  if (!(ageMs >= 0)) return undefined;
  const { token, tokenType, response, lifetimeMs } = shared;
  const requestedAtMs = Math.floor(askedAtMs - ageMs);
  const asObtained: IssuedToken = {
    token,
    requestedAtMs,
    ...(tokenType !== undefined && { tokenType }),
    ...(response && { response }),
  };
  const excessMs = facts.lifetimeMs(asObtained) - lifetimeMs;
  const datedBack = { ...asObtained, requestedAtMs: Math.floor(requestedAtMs - excessMs) };
  const stated = { ...asObtained, response: { ...response, expires_in: lifetimeMs / 1000 } };
  const fits = (grant: IssuedToken) => expiryOf(grant, facts) <= requestedAtMs + lifetimeMs;
  const grant = [asObtained, datedBack, stated].find((form) => Number.isFinite(form.requestedAtMs) && fits(form));
  if (!grant || expiryOf(grant, facts) <= askedAtMs) return undefined;
  // A registry refuses a JWT that is over by its own word, unless its policy keeps tokens until they are rejected.
  const saysItEnds = facts.lifetimeMs(grant) === Infinity ? undefined : jwtTimes(token)?.expiresAtMs;
  return saysItEnds !== undefined && saysItEnds <= askedAtMs ? undefined : grant;
}

function expiryOf(grant: IssuedToken, facts: AdoptionFacts): number {
  return expiresAtMs(grant.requestedAtMs ?? 0, facts.lifetimeMs(grant));
}

/** When a registry stops serving a token, its margin taken off. */
export function expiresAtMs(requestedAtMs: number, lifetimeMs: number): number {
  return planLife({ requestedAtMs, lifetimeMs, refreshWindow: [1, 1], random: () => 0 }).expiresAtMs;
}
