import { MARK_KINDS, type MarkKind, type Second } from './data.ts';

/** Requests by second and mark. Exact for every request, however many are kept in full. */
export class Timeline {
  readonly #seconds = new Map<number, number[]>();
  readonly #kept: number;

  /** @param kept how many seconds are kept. */
  constructor(kept: number) {
    this.#kept = kept;
  }

  count(atMs: number, kind: MarkKind, by: 1 | -1): void {
    const second = secondOf(atMs);
    let counts = this.#seconds.get(second);
    if (!counts) {
      // A request that ends long after it began may have lost its second.
      if (by < 0) return;
      counts = MARK_KINDS.map(() => 0);
      this.#seconds.set(second, counts);
      this.#dropOldest();
    }
    const index = MARK_KINDS.indexOf(kind);
    counts[index] = (counts[index] ?? 0) + by;
  }

  at(second: number): Second {
    return [second, ...(this.#seconds.get(second) ?? MARK_KINDS.map(() => 0))];
  }

  /** The seconds from a time on that had requests, oldest first. */
  since(fromMs: number): Second[] {
    const from = secondOf(fromMs);
    return [...this.#seconds.keys()].filter((second) => second >= from).map((second) => this.at(second));
  }

  clear(): void {
    this.#seconds.clear();
  }

  #dropOldest(): void {
    if (this.#seconds.size <= this.#kept) return;
    for (const second of this.#seconds.keys()) {
      this.#seconds.delete(second);
      return;
    }
  }
}

export const secondOf = (atMs: number): number => Math.floor(atMs / 1000);
