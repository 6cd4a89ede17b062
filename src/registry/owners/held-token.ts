/** What an answer of the source becomes: it is validated and dated, its lifetime is read, and the token to hold is planned. */

import { elapsedMs, type Instant, MAX_READING_ERROR_MS } from '../../clock.ts';
import { EXPIRED_ON_ARRIVAL } from '../../errors/inconclusive.ts';
import { OwnerTokenError } from '../../errors/owner-token-error.ts';
import { type Life, lifeOf } from '../../expiry/exp-bound.ts';
import { jwtTimes } from '../../expiry/jwt-times.ts';
import { planLife, type StatedLifetime } from '../../expiry/lifetime.ts';
import { property } from '../../own-property.ts';
import type { Diagnostics } from '../../reporting/diagnostics.ts';
import { AccessToken, type TokenFields } from '../../token.ts';
import { type IssuedToken, readIssued } from '../../token-source.ts';
import { isRegistered, schemeOf } from '../../token-type.ts';
import type { RegistrySettings } from '../options.ts';
import type { HeldToken, Slot } from './slot.ts';

/** Smaller differences between two clocks are ordinary and harmless. */
const MIN_CLOCK_DIFFERENCE_MS = 30_000;

/** A re-issued token with less than this share of its life left is not refreshed again. */
const MIN_SHARE_LEFT = 0.05;

/** An issued token, and the time from which its lifetime counts. */
export type DatedToken = IssuedToken & { readonly requestedAtMs: number };

type Plan = Pick<AccessToken, 'refreshAtMs' | 'expiresAtMs'>;

/**
 * The token to hold.
 *
 * @throws OwnerTokenError `invalid_response`
 */
export function heldFrom(
  settings: RegistrySettings,
  diagnostics: Diagnostics,
  { slot, sent }: { readonly slot: Slot; readonly sent: Instant },
  returned: IssuedToken,
  now: Instant,
): HeldToken {
  const read = readIssued(returned);
  if (read.token === undefined) {
    throw new OwnerTokenError('invalid_response', `the token source returned no usable token: ${read.problem}`);
  }
  const issued = dateIssued(read, sent, now);
  if (!isRegistered(issued.tokenType)) diagnostics.emit('scheme.unknown', () => ({ owner: slot.owner }));
  const { serviceTimeMs = now.wallMs, requestedAtMs } = issued;
  // The service answered between the two times.
  const differenceMs = Math.round(serviceTimeMs - Math.min(Math.max(serviceTimeMs, requestedAtMs), now.wallMs));
  if (Math.abs(differenceMs) >= MIN_CLOCK_DIFFERENCE_MS) diagnostics.emit('clock.differs', () => ({ differenceMs }));
  const life = lifeIn(settings, slot, issued, now);
  const { problem: kind, lifetimeMs: assumedMs, isExpIgnored } = life;
  if (kind) diagnostics.emit('lifetime.unknown', () => ({ owner: slot.owner, kind, assumedMs }));
  if (isExpIgnored) diagnostics.emit('exp.ignored', () => ({ owner: slot.owner }));
  return heldTokenFrom(settings, issued, life, slot, now);
}

/** The life of an issued token by the registry's policy. */
export function lifeIn({ expiry }: RegistrySettings, { history }: Slot, issued: DatedToken, now: Instant): Life {
  return lifeOf(expiry, issued, history.isStated, now.wallMs - issued.requestedAtMs);
}

/**
 * Dates what a source returned. If the source gives no date, or one in the future (another clock, or one
 * that was set back since), the lifetime counts from just before the request, by the clock that gives the earlier time.
 * If the wall clock was set back during the request, the source's date is set back with it.
 */
export function dateIssued(issued: IssuedToken, sent: Instant, now: Instant): DatedToken {
  const stated = issued.requestedAtMs;
  const tookMs = elapsedMs(sent, now);
  if (stated === undefined || stated > now.wallMs) return { ...issued, requestedAtMs: now.wallMs - tookMs };
  const setBackMs = tookMs - (now.wallMs - sent.wallMs);
  const isSetBack = setBackMs > MAX_READING_ERROR_MS;
  return isSetBack ? { ...issued, requestedAtMs: stated - setBackMs } : (issued as DatedToken);
}

type HeldSettings = Pick<RegistrySettings, 'refreshWindow' | 'random' | 'fingerprints' | 'responseFields'>;

/**
 * Creates the token to hold.
 *
 * @param slot if it holds the same token already, the token keeps its expiry.
 * @throws OwnerTokenError `invalid_response` if the token has already expired.
 */
export function heldTokenFrom(
  { refreshWindow, random, fingerprints, responseFields }: HeldSettings,
  issued: DatedToken,
  { lifetimeMs, refreshAfterMs, isStated }: StatedLifetime & Pick<HeldToken, 'isStated'>,
  slot: Pick<Slot, 'held' | 'offsetMs'>,
  now: Instant,
): HeldToken {
  const { requestedAtMs } = issued;
  const hasEnded = hasPassedOwnExp(issued, lifetimeMs, now);
  const planned = planLife({ requestedAtMs, lifetimeMs, refreshAfterMs, refreshWindow, random });
  const { offsetMs } = now;
  const endMs = slot.held?.value === issued.token ? slot.held.expiresAtMs + slot.offsetMs - offsetMs : Infinity;
  const life = planned.expiresAtMs <= endMs ? planned : shortened(planned, requestedAtMs, endMs);
  // Rounded down, which is safe, because a token keeps whole milliseconds in less memory.
  const refreshAtMs = Math.floor(life.refreshAtMs);
  const expiresAtMs = Math.floor(life.expiresAtMs);
  if (hasEnded || now.timelineMs - offsetMs >= expiresAtMs) {
    const cause = { code: EXPIRED_ON_ARRIVAL };
    throw new OwnerTokenError('invalid_response', 'the token had already expired when it arrived', { cause });
  }
  const { token: value, tokenType } = issued;
  const scheme = schemeOf(tokenType);
  const issuedAtMs = Math.floor(requestedAtMs);
  const response = responseFields.length === 0 ? undefined : fieldsOf(issued.response, responseFields);
  const fields = {
    value,
    tokenType: scheme,
    fingerprint: fingerprints,
    issuedAtMs,
    refreshAtMs,
    expiresAtMs,
    response,
  };
  return { token: new AccessToken(fields), offsetMs, isStated };
}

const MAX_FIELD_BYTES = 2_048;

/** The fields of an answer that a token carries. */
function fieldsOf(response: unknown, names: readonly string[]): TokenFields {
  const fields: Record<string, string | number | boolean> = Object.create(null);
  for (const name of names) {
    const value = name.split('.').reduce(property, response);
    const isText = typeof value === 'string' && Buffer.byteLength(value) <= MAX_FIELD_BYTES;
    if (isText || typeof value === 'number' || typeof value === 'boolean') fields[name] = value;
  }
  return Object.freeze(fields);
}

/** Caps a plan at the existing expiry, and scales the refresh point to match. Plans no refresh if hardly any life is left. */
function shortened(planned: Plan, requestedAtMs: number, endMs: number): Plan {
  const shareLeft = (endMs - requestedAtMs) / (planned.expiresAtMs - requestedAtMs);
  const refreshAtMs =
    shareLeft < MIN_SHARE_LEFT ? endMs : requestedAtMs + (planned.refreshAtMs - requestedAtMs) * shareLeft;
  return { refreshAtMs, expiresAtMs: endMs };
}

/**
 * Whether a JWT's own `exp` has passed by our clock, if that of the service is unknown. Ignored for tokens kept until they are
 * rejected.
 */
function hasPassedOwnExp(issued: IssuedToken, lifetimeMs: number, now: Instant): boolean {
  if (lifetimeMs === Number.POSITIVE_INFINITY || issued.serviceTimeMs !== undefined) return false;
  const endMs = jwtTimes(issued.token)?.expiresAtMs;
  return endMs !== undefined && now.wallMs >= endMs;
}
