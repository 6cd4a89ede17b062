/**
 * Tokens for calls with `minValidityMs`. If a new token is valid for less, another request would not help, so such a call
 * makes none until the token is due for a refresh.
 */

import type { Instant } from '../clock.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { MIN_WAIT_MS } from '../failures/refusals.ts';
import type { AccessToken } from '../token.ts';
import { isLive, leftMsOf, type Slot } from './slot.ts';

/** A token that another replica requested may be old on arrival. Only another request shows how long a new one lives. */
const MAX_ATTEMPTS = 2;

export class LastingTokens {
  /** The tokens that arrived with less life than a caller needed, and how much it was. */
  readonly #shortMs = new WeakMap<AccessToken, number>();

  /**
   * Whether the held token is valid for less than this, so that a newer one must be requested.
   *
   * @throws OwnerTokenError `invalid_response` if a new token would not last either.
   */
  isTooShort(slot: Slot, minValidityMs: number, now: Instant): boolean {
    if (!isLive(slot, now) || leftMsOf(slot, slot.held, now) >= minValidityMs) return false;
    const shortMs = this.#shortMs.get(slot.held) ?? Number.POSITIVE_INFINITY;
    const untilRefreshMs = slot.held.refreshAtMs + slot.offsetMs - now.timelineMs;
    if (shortMs < minValidityMs && untilRefreshMs > 0)
      throw tooShort(slot, shortMs, minValidityMs, untilRefreshMs, now);
    return true;
  }

  /**
   * Whether a token that has just arrived lasts. False if it does not, but a newer one may.
   *
   * @throws OwnerTokenError `invalid_response` if a newer one would not last either.
   */
  lasts(slot: Slot, token: AccessToken, minValidityMs: number, now: Instant, attempt: number): boolean {
    const leftMs = leftMsOf(slot, token, now);
    if (leftMs >= minValidityMs) return true;
    if (attempt < MAX_ATTEMPTS && token.expiresAtMs - token.issuedAtMs >= minValidityMs) return false;
    this.#shortMs.set(token, leftMs);
    throw tooShort(slot, leftMs, minValidityMs, leftMs - (token.expiresAtMs - token.refreshAtMs), now);
  }
}

function tooShort(
  { owner }: Slot,
  leftMs: number,
  minValidityMs: number,
  untilRefreshMs: number,
  { wallMs }: Instant,
): OwnerTokenError {
  const message = `a new token is valid for ${formatSeconds(leftMs)}, less than minValidityMs (${formatSeconds(minValidityMs)})`;
  const retryAtMs = wallMs + Math.max(MIN_WAIT_MS, untilRefreshMs);
  return new OwnerTokenError('invalid_response', message, { owner, failedAtMs: wallMs, retryAtMs });
}

const formatSeconds = (ms: number): string => `${Math.floor(ms / 100) / 10} s`;
