/**
 * Tokens for calls with `minValidityMs`. If new tokens are valid for less, another request would not help, so such a call makes
 * none until the token is due for a refresh.
 */

import type { Instant } from '../../clock.ts';
import { OwnerTokenError } from '../../errors/owner-token-error.ts';
import { MIN_WAIT_MS } from '../../failures/refusals.ts';
import type { AccessToken } from '../../token.ts';
import type { FailedCalls } from '../requests/failed-calls.ts';
import { isLive, leftMsOf, type Slot } from './slot.ts';

/** Counts the calls that fail here. */
type Counter = { readonly failedCalls: FailedCalls };

/**
 * Whether the held token is valid for less than this, so that a newer one must be requested.
 *
 * @throws OwnerTokenError `invalid_response` if a new token would not last either.
 */
export function isTooShort(slot: Slot, minValidityMs: number, now: Instant, counter: Counter): boolean {
  if (!isLive(slot, now) || leftMsOf(slot, slot.held, now) >= minValidityMs) return false;
  const { held, offsetMs } = slot;
  if (wholeLifeMs(held) < minValidityMs && now.timelineMs - offsetMs < held.refreshAtMs)
    throw tooShort(slot, held, minValidityMs, now, counter);
  return true;
}

/**
 * Whether a token that has just arrived lasts. A first one that does not may have been requested long ago, by another replica.
 *
 * @throws OwnerTokenError `invalid_response` if a second one does not last either.
 */
export function lasts(
  slot: Slot,
  token: AccessToken,
  minValidityMs: number,
  now: Instant,
  counter: Counter,
  attempt: number,
): boolean {
  if (leftMsOf(slot, token, now) >= minValidityMs) return true;
  if (attempt === 1) return false;
  throw tooShort(slot, token, minValidityMs, now, counter);
}

const wholeLifeMs = ({ expiresAtMs, issuedAtMs }: AccessToken) => expiresAtMs - issuedAtMs;

function tooShort(
  slot: Slot,
  token: AccessToken,
  minValidityMs: number,
  now: Instant,
  { failedCalls }: Counter,
): OwnerTokenError {
  failedCalls.request++;
  const leftMs = leftMsOf(slot, token, now);
  const message = `a new token is valid for ${seconds(leftMs)}, less than minValidityMs (${seconds(minValidityMs)})`;
  const untilRefreshMs = leftMs - (token.expiresAtMs - token.refreshAtMs);
  const retryAtMs = now.wallMs + Math.max(MIN_WAIT_MS, untilRefreshMs);
  return new OwnerTokenError('invalid_response', message, { owner: slot.owner, failedAtMs: now.wallMs, retryAtMs });
}

const seconds = (ms: number): string => `${Math.floor(ms / 100) / 10} s`;
