/**
 * The owners whose newest tokens the API rejects, one after the other. An outage of the API affects all owners at once, so
 * they are counted without iterating over them: by the second until which each counts.
 */

import { knownRejection } from '../failures/rejections.ts';
import type { Slot } from './slot.ts';

export class RejectedOwners {
  /** All owners with tokens rejected in a row, even without further calls, and since when. */
  readonly #sinceMs = new Map<Slot, number>();
  /** Until which second each counts, the longest rejected first; includes some whose second is over. */
  readonly #untilSecond = new Map<Slot, number>();
  /** How many count until each second. Has at most an entry for each second that a token is kept. */
  readonly #counts = new Map<number, number>();

  /** The slot has changed. */
  note(slot: Slot): void {
    const known = knownRejection(slot.history.rejection);
    if (!known) {
      this.delete(slot);
      return;
    }
    this.#drop(slot);
    const second = Math.ceil(known.untilMs / 1000);
    if (!this.#sinceMs.has(slot)) this.#sinceMs.set(slot, known.sinceMs);
    this.#untilSecond.set(slot, second);
    this.#count(second, 1);
  }

  delete(slot: Slot): void {
    if (!this.#sinceMs.delete(slot)) return;
    this.#drop(slot);
    this.#untilSecond.delete(slot);
  }

  /** All, even without further calls. */
  withStreak(): Iterable<Slot> {
    return this.#sinceMs.keys();
  }

  isRejected(slot: Slot, nowMs: number): boolean {
    return nowMs < (this.#untilSecond.get(slot) ?? 0) * 1000;
  }

  /** Those that count now. */
  *rejected(nowMs: number): Generator<Slot> {
    for (const slot of this.#untilSecond.keys()) {
      if (this.isRejected(slot, nowMs)) yield slot;
      else {
        this.#drop(slot);
        this.#untilSecond.delete(slot);
      }
    }
  }

  /** How many count now, and since when the first of them; undefined if none. */
  stat(nowMs: number): { readonly owners: number; readonly sinceMs: number } | undefined {
    let owners = 0;
    for (const [second, count] of this.#counts) {
      if (nowMs < second * 1000) owners += count;
      else this.#counts.delete(second);
    }
    const [first] = this.rejected(nowMs);
    return first && { owners, sinceMs: this.#sinceMs.get(first) as number };
  }

  #drop(slot: Slot): void {
    const second = this.#untilSecond.get(slot);
    if (second !== undefined) this.#count(second, -1);
  }

  #count(second: number, change: number): void {
    const count = (this.#counts.get(second) ?? 0) + change;
    if (count > 0) this.#counts.set(second, count);
    else this.#counts.delete(second);
  }
}
