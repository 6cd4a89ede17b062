/**
 * Stores the owners' slots. Beyond `maxOwners`, the least recently used slots are evicted. Owners with a token and
 * owners without one (failing, or rejected) are evicted separately, so that failures of unknown keys never displace a
 * token. An in-flight request keeps its owner's slot here until it settles, so eviction never touches it.
 */

import { LRUCache } from 'lru-cache';
import type { Diagnostics } from '../diagnostics.ts';
import type { Flight } from './flight.ts';
import type { Slot } from './slot.ts';

export class OwnerTable {
  /** Slots evicted because the table was full. */
  evictions = 0;
  readonly #newCache: () => LRUCache<string, Slot>;
  #withToken: LRUCache<string, Slot>;
  #withoutToken: LRUCache<string, Slot>;
  #flights = new Map<string, Flight>();

  constructor(maxOwners: number, diagnostics: Diagnostics) {
    const disposeAfter = (slot: Slot, _accessKey: string, reason: string) => {
      if (reason !== 'evict') return;
      this.evictions++;
      diagnostics.evicted(slot.owner);
    };
    this.#newCache = () => new LRUCache<string, Slot>({ max: maxOwners, disposeAfter });
    this.#withToken = this.#newCache();
    this.#withoutToken = this.#newCache();
  }

  get size(): number {
    return this.#withToken.size + this.#withoutToken.size;
  }

  /** The slot; counts as a use in the LRU order. */
  use(accessKey: string): Slot | undefined {
    return this.#withToken.get(accessKey) ?? this.#withoutToken.get(accessKey) ?? this.#flights.get(accessKey)?.slot;
  }

  /** The slot; does not change the LRU order. */
  peek(accessKey: string): Slot | undefined {
    return this.#withToken.peek(accessKey) ?? this.#withoutToken.peek(accessKey) ?? this.#flights.get(accessKey)?.slot;
  }

  *slots(): Iterable<Slot> {
    yield* this.#withToken.values();
    yield* this.#withoutToken.values();
  }

  flights(): Iterable<Flight> {
    return this.#flights.values();
  }

  /** The owner's in-flight request, which its callers join. */
  flightOf(accessKey: string): Flight | undefined {
    return this.#flights.get(accessKey);
  }

  /** Whether callers join this request and its outcome is stored; false once it is detached. */
  isCurrent(flight: Flight): boolean {
    return this.#flights.get(flight.accessKey) === flight;
  }

  began(flight: Flight): void {
    this.#flights.set(flight.accessKey, flight);
  }

  /** Stores a changed slot. */
  store(accessKey: string, slot: Slot): void {
    const [home, other] = slot.held ? [this.#withToken, this.#withoutToken] : [this.#withoutToken, this.#withToken];
    other.delete(accessKey);
    home.set(copyOf(accessKey), slot);
  }

  /** Detaches a request from its owner: later callers do not join it, and its outcome is not stored. */
  detach(flight: Flight): void {
    if (this.isCurrent(flight)) this.#flights.delete(flight.accessKey);
  }

  forget(accessKey: string): void {
    this.#withToken.delete(accessKey);
    this.#withoutToken.delete(accessKey);
    this.#flights.delete(accessKey);
  }

  /** Replaces the tables, because the cache clears itself in quadratic time. */
  clear(): void {
    if (this.#withToken.size > 0) this.#withToken = this.#newCache();
    if (this.#withoutToken.size > 0) this.#withoutToken = this.#newCache();
    this.#flights = new Map();
  }
}

/** A copy, because a slice of a string keeps the whole string in memory. */
function copyOf(accessKey: string): string {
  return Buffer.from(accessKey).toString();
}
