/**
 * An LRU cache of slots. The two facts that a hit needs are in arrays as well, apart from the slots: with thousands of
 * owners, each object that a hit reads costs a CPU cache miss, while most of an array stays in the CPU caches.
 */

import { AsyncResource } from 'node:async_hooks';
import { LRUCache } from 'lru-cache';
import type { AccessToken } from '../token.ts';
import { freshUntilSecond, type Slot } from './slot.ts';

export class SlotCache {
  /** The index of each owner in the arrays below. */
  readonly #indexes: LRUCache<string, number>;
  readonly #slots: (Slot | undefined)[] = [];
  /** The promises that callers get. Created once, because a new one would be a third of the cost of a hit. */
  readonly #tokens: (Promise<AccessToken> | undefined)[] = [];
  readonly #freshUntilSeconds: Int32Array;
  /** Indexes to use again. */
  readonly #free: number[] = [];
  /**
   * In the context in which the registry was constructed: up to Node 22, a promise keeps the `AsyncLocalStorage` stores
   * of its own context alive, and in the caller's these may hold a whole request, for as long as the token is cached.
   */
  readonly #promiseOf = AsyncResource.bind((token: AccessToken) => Promise.resolve(token));

  /** @param evicted called with each slot that is dropped because the cache is full. */
  constructor(max: number, evicted: (slot: Slot) => void) {
    const disposeAfter = (index: number, _accessKey: string, reason: string) => {
      const slot = this.#slots[index] as Slot;
      this.#slots[index] = undefined;
      this.#tokens[index] = undefined;
      this.#free.push(index);
      if (reason === 'evict') evicted(slot);
    };
    this.#indexes = new LRUCache<string, number>({ max, disposeAfter });
    // One more, because a slot is evicted after the new one has been stored.
    this.#freshUntilSeconds = new Int32Array(max + 1);
  }

  get size(): number {
    return this.#indexes.size;
  }

  /** The token, if it is certainly fresh at this second of the timeline. Counts as a use in the LRU order. */
  freshToken(accessKey: string, second: number): Promise<AccessToken> | undefined {
    const index = this.#indexes.get(accessKey);
    if (index === undefined) return undefined;
    return second < (this.#freshUntilSeconds[index] as number) ? this.#tokens[index] : undefined;
  }

  /** The slot; counts as a use in the LRU order. */
  use(accessKey: string): Slot | undefined {
    return this.#slotAt(this.#indexes.get(accessKey));
  }

  /** The slot; does not change the LRU order. */
  peek(accessKey: string): Slot | undefined {
    return this.#slotAt(this.#indexes.peek(accessKey));
  }

  /** Stores a slot, or what has changed in it. */
  set(slot: Slot): void {
    const { accessKey, held } = slot;
    const index = this.#indexes.peek(accessKey) ?? this.#free.pop() ?? this.#slots.length;
    this.#slots[index] = slot;
    this.#tokens[index] = held && this.#promiseOf(held);
    this.#freshUntilSeconds[index] = freshUntilSecond(slot);
    this.#indexes.set(accessKey, index);
  }

  delete(accessKey: string): void {
    this.#indexes.delete(accessKey);
  }

  #slotAt(index: number | undefined): Slot | undefined {
    return index === undefined ? undefined : this.#slots[index];
  }
}
