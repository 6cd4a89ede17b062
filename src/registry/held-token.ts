/** Turns an issued token into one to hold: validates it, dates it, and plans its life. */

import { elapsedMs, type Instant, MAX_READING_ERROR_MS } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { jwtTimes } from '../expiry/jwt-times.ts';
import { planLife, type StatedLifetime } from '../expiry/lifetime.ts';
import { AccessToken, type AccessTokenFields, type IssuedToken, readIssued, schemeOf } from '../token.ts';
import type { RegistrySettings } from './options.ts';
import { type HeldToken, heldForMs, type Slot } from './slot.ts';

/** A validated token, and the time from which its lifetime counts. */
export type DatedToken = IssuedToken & { readonly requestedAtMs: number };

type Life = Pick<AccessToken, 'refreshAtMs' | 'expiresAtMs'>;

/** A re-issued token with less than this share of its life left is not refreshed again. */
const MIN_REST_SHARE = 0.05;

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
  const tookMs = elapsedMs(sent, now);
  if (stated === undefined || stated > now.wallMs) return { ...issued, requestedAtMs: now.wallMs - tookMs };
  const setBackMs = tookMs - (now.wallMs - sent.wallMs);
  return { ...issued, requestedAtMs: setBackMs > MAX_READING_ERROR_MS ? stated - setBackMs : stated };
}

/**
 * Creates the token to hold.
 *
 * @param slot if it holds the same token already, the token keeps its expiry.
 * @param fingerprint of the token if it is known already, or else what computes it on first use.
 * @throws OwnerTokenError `invalid_response` if the token has already expired.
 */
export function heldTokenFrom(
  { refreshWindow, random }: Pick<RegistrySettings, 'refreshWindow' | 'random'>,
  issued: DatedToken,
  { lifetimeMs, refreshAfterMs }: StatedLifetime,
  slot: Pick<Slot, 'held' | 'aheadMs'>,
  now: Instant,
  fingerprint: AccessTokenFields['fingerprint'],
): HeldToken {
  const { requestedAtMs } = issued;
  const planned = planLife({ requestedAtMs, lifetimeMs, refreshAfterMs, refreshWindow, random });
  const { aheadMs } = now;
  const endMs = slot.held?.value === issued.token ? slot.held.expiresAtMs + slot.aheadMs - aheadMs : Infinity;
  const { refreshAtMs, expiresAtMs } =
    planned.expiresAtMs <= endMs ? planned : shortened(planned, requestedAtMs, endMs);
  // Rounded down, which is safe, because a token keeps whole milliseconds in less memory.
  const life = { refreshAtMs: Math.floor(refreshAtMs), expiresAtMs: Math.floor(expiresAtMs) };
  if (now.timelineMs - aheadMs >= life.expiresAtMs || hasPassedOwnExp(issued, lifetimeMs, now)) {
    throw new OwnerTokenError('invalid_response', 'the token had expired on arrival: check the clocks on both sides');
  }
  const token = new AccessToken({
    value: issued.token,
    tokenType: schemeOf(issued.tokenType),
    fingerprint,
    issuedAtMs: requestedAtMs,
    ...life,
  });
  return { token, aheadMs };
}

/** Limits a plan to the existing expiry and scales the refresh point. Plans no refresh if hardly any life is left. */
function shortened(planned: Life, requestedAtMs: number, endMs: number): Life {
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

/** A token's age: on the timeline while it is held, by the wall clock after. */
export function ageMsOf(slot: Slot, token: AccessToken, now: Instant): number {
  return Math.max(0, slot.held === token ? heldForMs(slot, token, now) : now.wallMs - token.issuedAtMs);
}
