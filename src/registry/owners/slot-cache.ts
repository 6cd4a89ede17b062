/** The slots with a token, in the order of their use. */

import { LRUCache } from 'lru-cache';
import type { AccessToken } from '../../token.ts';
import { AsyncContext } from '../async-context.ts';
import { isReplacing, type Slot } from './slot.ts';

/**
 * Options for `lru-cache`, which would otherwise read these from a polluted `Object.prototype`. New for each call, because it
 * writes to them.
 */
const own = (): object => ({ status: undefined, size: undefined });

/**
 * The async context in which this module was loaded, for the tokens' promises. Before Node 24 a promise keeps the
 * `AsyncLocalStorage` stores of the context that created it alive, and a caller's may hold a whole HTTP request.
 */
const LOAD_CONTEXT: Readonly<AsyncContext> = new AsyncContext('OwnerTokens');

/**
 * An LRU cache of slots with a token. The two things that a hit needs, the token's promise and the second until which it is
 * certainly fresh, are in separate arrays: with thousands of owners, reading a slot usually misses the CPU cache, and most
 * elements of an array are in it.
 */
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

  /** The promise of the owner's token, if that is certainly fresh at this second of the timeline; a use in the LRU order. */
  fresh(accessKey: string, second: number): Promise<AccessToken> | undefined {
    const index = this.#indexes.get(accessKey, own());
    const isFresh = index !== undefined && second < (this.#freshUntilSeconds[index] as number);
    return isFresh ? this.#promises[index] : undefined;
  }

  /** The slot; counts as a use in the LRU order. */
  use(accessKey: string): Slot | undefined {
    const index = this.#indexes.get(accessKey, own());
    return index === undefined ? undefined : this.#slots[index];
  }

  /** The slot; does not change the LRU order. */
  peek(accessKey: string): Slot | undefined {
    const index = this.#indexes.peek(accessKey, own());
    return index === undefined ? undefined : this.#slots[index];
  }

  /** Adds a slot with its token, or updates the arrays after it has changed. */
  set(slot: Slot, held: AccessToken): void {
    const { accessKey, offsetMs } = slot;
    const index = this.#indexes.peek(accessKey, own()) ?? this.#freeIndexes.pop() ?? this.#slots.length;
    this.#slots[index] = slot;
    this.#promises[index] = LOAD_CONTEXT.runInAsyncScope(Promise.resolve<AccessToken>, Promise, held);
    this.#freshUntilSeconds[index] = isReplacing(slot)
      ? Number.NEGATIVE_INFINITY
      : Math.floor((held.refreshAtMs + offsetMs) / 1000);
    this.#indexes.set(accessKey, index, own());
  }

  /** All slots, the most recently used first. */
  *slots(): Generator<Slot> {
    for (const index of this.#indexes.values()) yield this.#slots[index] as Slot;
  }

  /** All slots. The cache may change between two steps. */
  *unordered(): Generator<Slot> {
    for (let index = 0; index < this.#slots.length; index++) {
      const slot = this.#slots[index];
      if (slot) yield slot;
    }
  }

  delete(accessKey: string): void {
    this.#indexes.delete(accessKey);
  }
}
