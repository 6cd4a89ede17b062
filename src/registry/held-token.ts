/** From what a source granted to the token that is held: checked, named, and given its instants on both clocks. */

import type { Instant } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { jwtTimes } from '../expiry/jwt-times.ts';
import {
  assessLifetime,
  type ExpiryPolicy,
  type LifetimeProblem,
  planLife,
  type TokenAge,
} from '../expiry/lifetime.ts';
import { AccessToken, type IssuedToken, problemOfIssued, schemeOf } from '../token.ts';
import type { Fingerprints } from './fingerprints.ts';
import type { HeldToken, Slot } from './slot.ts';

/** What a registry holds tokens by. */
export interface HoldingRules {
  readonly policy: ExpiryPolicy;
  readonly refreshWindow: readonly [number, number];
  readonly random: () => number;
  readonly fingerprints: Fingerprints;
}

/** A grant that has been checked, with the moment from which its lifetime counts. */
export type DatedToken = IssuedToken & { readonly requestedAtMs: number };

/** Of a token that came again, a rest of its life shorter than this share is not worth another refresh. */
const LEAST_REST_SHARE = 0.05;

/** What the wall clock seems to be set back by through reading the two clocks at different moments. */
const MOST_SAMPLING_ERROR_MS = 20;

/**
 * Checks a grant and dates it. Without a date of the source's (or with one that has not come yet: another clock, or one
 * that was set back) its lifetime counts from the moment before the request was sent, by whichever clock says longer ago.
 * A date that was taken before the clock was set back is set back with it.
 *
 * @throws OwnerTokenError `invalid_response`
 */
export function dateIssued(grant: IssuedToken, sent: Instant, now: Instant): DatedToken {
  const problem = problemOfIssued(grant);
  if (problem) throw new OwnerTokenError('invalid_response', `the token source gave no usable token: ${problem}`);
  const stated = grant.requestedAtMs;
  const elapsedMs = now.monotonicMs - sent.monotonicMs;
  if (stated === undefined || stated > now.wallMs) {
    return { ...grant, requestedAtMs: Math.min(sent.wallMs, now.wallMs - elapsedMs) };
  }
  const setBackMs = elapsedMs - (now.wallMs - sent.wallMs);
  return { ...grant, requestedAtMs: setBackMs > MOST_SAMPLING_ERROR_MS ? stated - setBackMs : stated };
}

/** The lifetime that counts for a grant, and what is wrong with the one that was stated. */
export function lifetimeOf(policy: ExpiryPolicy, grant: DatedToken): { lifetimeMs: number; problem?: LifetimeProblem } {
  return assessLifetime(policy.lifetimeMs(grant));
}

/**
 * Makes the token to hold of a grant.
 *
 * @param previous the token held until now: if the very same comes again it has not become younger, and keeps its end.
 * @throws OwnerTokenError `invalid_response` when it is past its end already.
 */
export function heldTokenFrom(
  rules: HoldingRules,
  grant: DatedToken,
  lifetimeMs: number,
  previous: HeldToken | undefined,
  now: Instant,
): HeldToken {
  const { requestedAtMs } = grant;
  const planned = planLife({ requestedAtMs, lifetimeMs, refreshWindow: rules.refreshWindow, random: rules.random });
  const cameAgain = previous?.token.value === grant.token ? previous.token : undefined;
  const life = cameAgain ? withoutExtending(planned, requestedAtMs, cameAgain.expiresAtMs) : planned;
  if (now.wallMs >= life.expiresAtMs || hasPassedOwnExp(grant, lifetimeMs, now)) {
    throw new OwnerTokenError('invalid_response', 'the token was past its end on arrival: check both clocks');
  }
  const token = new AccessToken({
    value: grant.token,
    tokenType: schemeOf(grant.tokenType),
    fingerprint: rules.fingerprints.ofToken(grant.token),
    issuedAtMs: requestedAtMs,
    ...life,
  });
  const toMonotonicMs = now.monotonicMs - now.wallMs;
  const longestMs = cameAgain && previous ? previous.expiresAtMonotonicMs : Number.POSITIVE_INFINITY;
  const expiresAtMonotonicMs = Math.min(life.expiresAtMs + toMonotonicMs, longestMs);
  return {
    token,
    served: Promise.resolve(token),
    issuedAtMonotonicMs: requestedAtMs + toMonotonicMs,
    refreshAtMonotonicMs: Math.min(life.refreshAtMs + toMonotonicMs, expiresAtMonotonicMs),
    expiresAtMonotonicMs,
  };
}

/** A plan cut to an end that stands, its refresh point moved in proportion; none where hardly any life is left. */
function withoutExtending(
  planned: { refreshAtMs: number; expiresAtMs: number },
  requestedAtMs: number,
  endMs: number,
): { refreshAtMs: number; expiresAtMs: number } {
  if (planned.expiresAtMs <= endMs) return planned;
  const rest = (endMs - requestedAtMs) / (planned.expiresAtMs - requestedAtMs);
  const refreshAtMs = rest < LEAST_REST_SHARE ? endMs : requestedAtMs + (planned.refreshAtMs - requestedAtMs) * rest;
  return { refreshAtMs, expiresAtMs: endMs };
}

/** Whether a JWT says that it has ended. Who keeps tokens until they are rejected does not want to know. */
function hasPassedOwnExp(grant: IssuedToken, lifetimeMs: number, now: Instant): boolean {
  if (lifetimeMs === Number.POSITIVE_INFINITY) return false;
  const endMs = jwtTimes(grant.token)?.expiresAtMs;
  return endMs !== undefined && now.wallMs >= endMs;
}

/** How old a token of this owner is: by the monotonic clock while it is held, by the wall clock after. */
export function ageOf(slot: Slot, token: AccessToken, now: Instant): TokenAge {
  const { held } = slot;
  const ageMs = held?.token === token ? now.monotonicMs - held.issuedAtMonotonicMs : now.wallMs - token.issuedAtMs;
  return { owner: slot.owner, token: token.fingerprint, ageMs: Math.max(0, ageMs) };
}
