/**
 * An LRU cache of slots. What a hit needs, the promise of the token and the second until which it is certainly fresh, is
 * in arrays of its own: with thousands of owners, reading a slot usually misses the CPU cache, and most elements of an
 * array are in it.
 */

import { LRUCache } from 'lru-cache';
import type { AccessToken } from '../token.ts';
import { freshUntilSecond, type Slot } from './slot.ts';

export class SlotCache {
  /** The index of each owner in the arrays below. */
  readonly #indexes: LRUCache<string, number>;
  readonly #slots: (Slot | undefined)[] = [];
  /** What callers get. Created when a slot is stored, because a new one per hit would be a third of the cost of a hit. */
  readonly #promises: (Promise<AccessToken> | undefined)[] = [];
  readonly #freshUntilSeconds: Float64Array;
  readonly #freeIndexes: number[] = [];

  /** @param evicted called with each slot that is dropped because the cache is full. */
  constructor(max: number, evicted: (slot: Slot) => void) {
    const disposeAfter = (index: number, _accessKey: string, reason: string) => {
      const slot = this.#slots[index] as Slot;
      this.#slots[index] = undefined;
      this.#promises[index] = undefined;
      this.#freeIndexes.push(index);
      if (reason === 'evict') evicted(slot);
    };
    this.#indexes = new LRUCache<string, number>({ max, disposeAfter });
    // One more, because a new slot gets its index before the evicted one frees its own.
    this.#freshUntilSeconds = new Float64Array(max + 1);
  }

  get size(): number {
    return this.#indexes.size;
  }

  /** The token's promise, if the token is certainly fresh at this second of the timeline. Counts as a use in the LRU order. */
  freshToken(accessKey: string, second: number): Promise<AccessToken> | undefined {
    const index = this.#indexes.get(accessKey);
    if (index === undefined) return undefined;
    return second < (this.#freshUntilSeconds[index] as number) ? this.#promises[index] : undefined;
  }

  /** The slot; counts as a use in the LRU order. */
  use(accessKey: string): Slot | undefined {
    const index = this.#indexes.get(accessKey);
    return index === undefined ? undefined : this.#slots[index];
  }

  /** The slot; does not change the LRU order. */
  peek(accessKey: string): Slot | undefined {
    const index = this.#indexes.peek(accessKey);
    return index === undefined ? undefined : this.#slots[index];
  }

  /**
   * Adds a slot, or updates the arrays after it has changed.
   *
   * @param promise of its token, if it holds one.
   */
  set(slot: Slot, promise?: Promise<AccessToken>): void {
    const { accessKey } = slot;
    const index = this.#indexes.peek(accessKey) ?? this.#freeIndexes.pop() ?? this.#slots.length;
    this.#slots[index] = slot;
    this.#promises[index] = promise;
    this.#freshUntilSeconds[index] = freshUntilSecond(slot);
    this.#indexes.set(accessKey, index);
  }

  /** All slots, the most recently used first. */
  *slots(): Generator<Slot> {
    for (const index of this.#indexes.values()) yield this.#slots[index] as Slot;
  }

  delete(accessKey: string): void {
    this.#indexes.delete(accessKey);
  }
}
