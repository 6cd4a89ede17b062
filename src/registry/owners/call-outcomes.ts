/**
 * What callers report about their calls to the API: tokens that were rejected or accepted. `failures/rejections.ts` decides
 * what follows for the held token.
 */

import { type Instant, onWallClock } from '../../clock.ts';
import { OwnerTokenError } from '../../errors/owner-token-error.ts';
import { afterAcceptance, afterRejection, type RejectedToken } from '../../failures/rejections.ts';
import type { Diagnostics } from '../../reporting/diagnostics.ts';
import { AccessToken } from '../../token.ts';
import type { RegistrySettings } from '../options.ts';
import type { OwnerTable } from './owner-table.ts';
import { ageMsOf, isReplacing, recordRejection, type Slot, troubleOf } from './slot.ts';

/** After how many tokens in a row that ended early a warning is logged. */
const CONTENDED_AFTER = 3;

export class CallOutcomes {
  /** Rejections of a cached token that were not known yet. */
  rejections = 0;
  readonly #settings: RegistrySettings;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;
  /** Whether any caller has ever reported an accepted call. */
  #hasAccepts = false;
  /** How many tokens in a row before this one ended early. */
  readonly #earlyEnds = new WeakMap<AccessToken, number>();

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
  }

  /**
   * Returns whether it is the held token, which is now to be replaced.
   *
   * @param elsewhere another process rejected it, and requests a newer one.
   */
  rejected(slot: Slot, token: AccessToken | string, elsewhere?: boolean): boolean {
    const value = token instanceof AccessToken ? token.value : token;
    if (typeof value !== 'string') return false;
    const { held } = slot;
    const wasHeld = held?.value === value;
    const isNews = wasHeld && this.#rejectHeld(slot, held, this.#settings.time.now(), elsewhere);
    // Any other `AccessToken` may come from a registry with another `fingerprintKey`.
    const fingerprint = wasHeld ? held.fingerprint : this.#settings.fingerprints.ofToken(value);
    this.#diagnostics.rejected(slot, fingerprint, wasHeld);
    return isNews && isReplacing(slot);
  }

  /** Returns whether anything has changed. */
  #rejectHeld(slot: Slot, held: AccessToken, now: Instant, elsewhere?: boolean): boolean {
    const before = slot.history.rejection;
    const rejection = {
      now,
      ageMs: ageMsOf(slot, held, now),
      elsewhere,
      hasAccepts: this.#hasAccepts,
      capMs: this.#settings.pauses.owner.capMs,
      slot,
    };
    const state = afterRejection(before, rejection);
    if (state === before) return false;
    this.rejections++;
    recordRejection(slot, state);
    this.#owners.store(slot);
    if (before?.streak && !troubleOf(slot)) this.#owners.reportRecovery(slot);
    if (state.kind !== 'kept' || !state.streak) return true;
    const retryAtMs = onWallClock(state.untilMs, now);
    this.#diagnostics.paused(slot, state.streak, OwnerTokenError.restated(state.streak.error, { retryAtMs }));
    return true;
  }

  accepted(slot: Slot, token: AccessToken): void {
    this.#hasAccepts = true;
    const before = slot.history.rejection;
    if (before && slot.held?.value === token.value) {
      const state = afterAcceptance(before, this.#settings.time.now().monotonicMs);
      if (state !== before) {
        recordRejection(slot, state);
        this.#owners.store(slot);
        this.#owners.withoutService.remove(slot.accessKey);
      }
      if (before.streak && !troubleOf(slot)) this.#owners.reportRecovery(slot);
      // Now it is certain whose fault the rejection was, which may teach a policy how long tokens live.
      if (before.kind === 'unproven' && before.replaced) {
        this.#notifyPolicy('rejected', slot, before.replaced.token, before.replaced.ageMs);
        this.#noteEnd(slot, before.replaced, slot.held);
      }
    }
    if (!this.#settings.expiry.accepted) return;
    this.#notifyPolicy('accepted', slot, token, ageMsOf(slot, token, this.#settings.time.now()));
  }

  /** Working tokens that end before half their lifetime are probably revoked by tokens that another process requests. */
  #noteEnd(slot: Slot, { token, ageMs }: RejectedToken, next: AccessToken): void {
    const lifeMs = token.expiresAtMs - token.issuedAtMs;
    if (lifeMs === Number.POSITIVE_INFINITY || ageMs >= lifeMs / 2) return;
    const count = (this.#earlyEnds.get(token) ?? 0) + 1;
    this.#earlyEnds.set(next, count);
    if (count >= CONTENDED_AFTER) this.#diagnostics.emit('token.contended', () => ({ owner: slot.owner }));
  }

  #notifyPolicy(what: 'accepted' | 'rejected', slot: Slot, token: AccessToken, ageMs: number): void {
    const { expiry, fingerprints } = this.#settings;
    try {
      // The fingerprint, not the name: several owners may share a label.
      expiry[what]?.({ owner: fingerprints.ofOwner(slot.accessKey), token: token.fingerprint, ageMs });
    } catch (thrown) {
      this.#diagnostics.hookFailed(`expiry.${what}`, thrown);
    }
  }
}
