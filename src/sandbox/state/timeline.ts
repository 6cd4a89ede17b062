import { MARK_KINDS } from '../../picture/data.ts';
import type { LedgerEntry } from './ledger-entry.ts';
import { markOf } from './marks.ts';

/** A second of the sandbox's clock (epoch seconds), and the token requests that began in it, by `MARK_KINDS`. */
export type TimelineSecond = readonly [second: number, ...counts: number[]];

/** Four hours, the longest window of the portal. */
const KEPT_SECONDS = 4 * 3600;

/** Token requests by second and mark. Exact for every request, however many the ledger keeps in full. */
export class Timeline {
  readonly #seconds = new Map<number, number[]>();

  count(entry: Readonly<LedgerEntry>, by: 1 | -1): void {
    if (entry.kind !== 'token') return;
    const second = secondOf(entry.atMs);
    let counts = this.#seconds.get(second);
    if (!counts) {
      // A request that ends long after it began may have lost its second.
      if (by < 0) return;
      counts = MARK_KINDS.map(() => 0);
      this.#seconds.set(second, counts);
      this.#dropOldest();
    }
    const index = MARK_KINDS.indexOf(markOf(entry));
    counts[index] = (counts[index] ?? 0) + by;
  }

  at(second: number): TimelineSecond {
    return [second, ...(this.#seconds.get(second) ?? MARK_KINDS.map(() => 0))];
  }

  /** The seconds from a time on that had requests, oldest first. */
  since(fromMs: number): TimelineSecond[] {
    const from = secondOf(fromMs);
    return [...this.#seconds.keys()].filter((second) => second >= from).map((second) => this.at(second));
  }

  clear(): void {
    this.#seconds.clear();
  }

  #dropOldest(): void {
    if (this.#seconds.size <= KEPT_SECONDS) return;
    for (const second of this.#seconds.keys()) {
      this.#seconds.delete(second);
      return;
    }
  }
}

export const secondOf = (atMs: number): number => Math.floor(atMs / 1000);
