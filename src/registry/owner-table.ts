/**
 * Where an owner's slot is. The least recently used slots are dropped beyond `maxOwners`, but never one whose owner has
 * an in-flight request: that request holds its slot here until it settles, and is joined through it.
 */

import { LRUCache } from 'lru-cache';
import type { Diagnostics } from '../diagnostics.ts';
import type { Flight } from './flight.ts';
import type { Slot } from './slot.ts';

export class OwnerTable {
  /** Slots dropped for want of room. */
  evictions = 0;
  readonly #slots: LRUCache<string, Slot>;
  readonly #flights = new Map<string, Flight>();

  constructor(maxOwners: number, diagnostics: Diagnostics) {
    this.#slots = new LRUCache<string, Slot>({
      max: maxOwners,
      disposeAfter: (slot, _accessKey, reason) => {
        if (reason !== 'evict') return;
        this.evictions++;
        diagnostics.evicted(slot.owner);
      },
    });
  }

  get size(): number {
    return this.#slots.size;
  }

  /** The slot of an owner who is used now. */
  use(accessKey: string): Slot | undefined {
    return this.#slots.get(accessKey) ?? this.#flights.get(accessKey)?.slot;
  }

  /** The slot, without counting as a use of it. */
  peek(accessKey: string): Slot | undefined {
    return this.#slots.peek(accessKey) ?? this.#flights.get(accessKey)?.slot;
  }

  slots(): Iterable<Slot> {
    return this.#slots.values();
  }

  accessKeys(): string[] {
    return [...this.#slots.keys(), ...this.#flights.keys()];
  }

  /** The owner's in-flight request, which its callers join. */
  flightOf(accessKey: string): Flight | undefined {
    return this.#flights.get(accessKey);
  }

  /** Whether callers join this request and its outcome is stored: not once it was detached. */
  isCurrent(flight: Flight): boolean {
    return this.#flights.get(flight.accessKey) === flight;
  }

  began(flight: Flight): void {
    this.#flights.set(flight.accessKey, flight);
  }

  /** Stores the slot of an in-flight request. */
  store({ accessKey, slot }: Flight): void {
    this.#slots.set(accessKey, slot);
  }

  /** Detaches a request from its owner: later callers do not join it, and its outcome is not stored. */
  detach(flight: Flight): void {
    if (this.isCurrent(flight)) this.#flights.delete(flight.accessKey);
  }

  forget(accessKey: string): void {
    this.#slots.delete(accessKey);
    this.#flights.delete(accessKey);
  }

  clear(): void {
    this.#slots.clear();
    this.#flights.clear();
  }
}
