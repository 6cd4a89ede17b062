/** Turns an issued token into a held one: validates it, dates it, and computes its times on both clocks. */

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
import { AccessToken, type IssuedToken, readIssued, schemeOf } from '../token.ts';
import type { RegistrySettings } from './options.ts';
import type { HeldToken, Slot } from './slot.ts';

/** A validated token, and the time from which its lifetime counts. */
export type DatedToken = IssuedToken & { readonly requestedAtMs: number };

/** A re-issued token with less than this share of its life left is not refreshed again. */
const MIN_REST_SHARE = 0.05;

/** How far the clocks may seem to drift apart only because they are not read at the same moment. */
const MAX_SAMPLING_ERROR_MS = 20;

/**
 * Validates and dates what a source returned. If the source gives no date, or one in the future (another clock, or one
 * that was set back since), the lifetime counts from just before the request, by the clock that gives the earlier time.
 * If the wall clock was set back during the request, the source's date is set back with it.
 *
 * @throws OwnerTokenError `invalid_response`
 */
export function dateIssued(returned: IssuedToken, sent: Instant, now: Instant): DatedToken {
  const issued = readIssued(returned);
  if ('problem' in issued) {
    throw new OwnerTokenError('invalid_response', `the token source returned no usable token: ${issued.problem}`);
  }
  const stated = issued.requestedAtMs;
  const elapsedMs = now.monotonicMs - sent.monotonicMs;
  if (stated === undefined || stated > now.wallMs) {
    return { ...issued, requestedAtMs: Math.min(sent.wallMs, now.wallMs - elapsedMs) };
  }
  const setBackMs = elapsedMs - (now.wallMs - sent.wallMs);
  return { ...issued, requestedAtMs: setBackMs > MAX_SAMPLING_ERROR_MS ? stated - setBackMs : stated };
}

/** The lifetime to use for a token, and why the stated one cannot be used. */
export function lifetimeOf(
  policy: ExpiryPolicy,
  issued: DatedToken,
): { lifetimeMs: number; problem?: LifetimeProblem } {
  return assessLifetime(policy.lifetimeMs(issued));
}

/**
 * Creates the held token.
 *
 * @param previous the token held until now. If the same token is issued again, it keeps its expiry.
 * @throws OwnerTokenError `invalid_response` if the token has already expired.
 */
export function heldTokenFrom(
  settings: Pick<RegistrySettings, 'refreshWindow' | 'random' | 'fingerprints'>,
  issued: DatedToken,
  lifetimeMs: number,
  previous: HeldToken | undefined,
  now: Instant,
): HeldToken {
  const { requestedAtMs } = issued;
  const { refreshWindow, random, fingerprints } = settings;
  const planned = planLife({ requestedAtMs, lifetimeMs, refreshWindow, random });
  const reissued = previous?.token.value === issued.token ? previous.token : undefined;
  const life = reissued ? withoutExtending(planned, requestedAtMs, reissued.expiresAtMs) : planned;
  if (now.wallMs >= life.expiresAtMs || hasPassedOwnExp(issued, lifetimeMs, now)) {
    throw new OwnerTokenError('invalid_response', 'the token had expired on arrival: check the clocks on both sides');
  }
  const token = new AccessToken({
    value: issued.token,
    tokenType: schemeOf(issued.tokenType),
    fingerprint: fingerprints.ofToken(issued.token),
    issuedAtMs: requestedAtMs,
    ...life,
  });
  const toMonotonicMs = now.monotonicMs - now.wallMs;
  const longestMs = reissued && previous ? previous.expiresAtMonotonicMs : Number.POSITIVE_INFINITY;
  const expiresAtMonotonicMs = Math.min(life.expiresAtMs + toMonotonicMs, longestMs);
  return {
    token,
    served: Promise.resolve(token),
    issuedAtMonotonicMs: requestedAtMs + toMonotonicMs,
    refreshAtMonotonicMs: Math.min(life.refreshAtMs + toMonotonicMs, expiresAtMonotonicMs),
    expiresAtMonotonicMs,
  };
}

/** Limits a plan to the existing expiry and scales the refresh point. Plans no refresh if hardly any life is left. */
function withoutExtending(
  planned: { refreshAtMs: number; expiresAtMs: number },
  requestedAtMs: number,
  endMs: number,
): { refreshAtMs: number; expiresAtMs: number } {
  if (planned.expiresAtMs <= endMs) return planned;
  const rest = (endMs - requestedAtMs) / (planned.expiresAtMs - requestedAtMs);
  const refreshAtMs = rest < MIN_REST_SHARE ? endMs : requestedAtMs + (planned.refreshAtMs - requestedAtMs) * rest;
  return { refreshAtMs, expiresAtMs: endMs };
}

/** Whether a JWT's own `exp` has passed. Ignored for tokens kept until they are rejected. */
function hasPassedOwnExp(issued: IssuedToken, lifetimeMs: number, now: Instant): boolean {
  if (lifetimeMs === Number.POSITIVE_INFINITY) return false;
  const endMs = jwtTimes(issued.token)?.expiresAtMs;
  return endMs !== undefined && now.wallMs >= endMs;
}

/** A token's age: by the monotonic clock while it is held, by the wall clock after. */
export function ageOf(slot: Slot, token: AccessToken, now: Instant): TokenAge {
  const { held } = slot;
  const ageMs = held?.token === token ? now.monotonicMs - held.issuedAtMonotonicMs : now.wallMs - token.issuedAtMs;
  return { owner: slot.digest, token: token.fingerprint, ageMs: Math.max(0, ageMs) };
}
