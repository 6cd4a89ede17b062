/**
 * Stores the owners' slots. Beyond `maxOwners`, the least recently used slots are evicted. Owners with a token and
 * owners without one (failing, or rejected) are evicted separately, so that failures of unknown keys never displace a
 * token. An in-flight request keeps its owner's slot here until it ends, so eviction never touches it.
 */

import { LRUCache } from 'lru-cache';
import { inSlices } from '../clock.ts';
import type { Diagnostics } from '../reporting/diagnostics.ts';
import type { AccessToken } from '../token.ts';
import type { Flight } from './flight.ts';
import { QueueFailures } from './queue-failures.ts';
import { RejectedOwners } from './rejected-owners.ts';
import { clearSlot, endBackoff, endPause, isReplacing, type Slot } from './slot.ts';
import { own, SlotCache } from './slot-cache.ts';

export class OwnerTable {
  /** Slots evicted because their cache was full. */
  evictions = 0;
  readonly #diagnostics: Pick<Diagnostics, 'emit' | 'lifted'>;
  readonly #newWithToken: () => SlotCache;
  readonly #newWithoutToken: () => LRUCache<string, Slot>;
  /**
   * Allocates up to 36 bytes for each possible owner up front. The constructor creates it, so that no call waits for that,
   * and after `clear` it is created again on first use.
   */
  #withToken: SlotCache | undefined;
  /** Bounded by `maxSize` instead of `max`, for which `lru-cache` would allocate up front. */
  #withoutToken: LRUCache<string, Slot>;
  /**
   * Boxed: `detach` empties the box, because a `Map` may retain removed values until a major GC (see `queue.ts`).
   */
  #flights = new Map<string, { flight: Flight | undefined }>();
  /** Owners whose newest tokens the API rejects. */
  rejected = new RejectedOwners();
  /** Owners whose last call failed in the queue. */
  readonly queueFailures = new QueueFailures();
  /** The owners in `#withoutToken`, because that cache cannot change while it is iterated. */
  #tokenless = new Set<Slot>();
  /** The failing owners, the longest failing first: without a token, and with one. */
  #failing = { withoutToken: new Set<Slot>(), withToken: new Set<Slot>() };
  /** Owners whose pause has ended, although their slots do not show it yet. */
  #resumed = new Set<Slot>();

  constructor(maxOwners: number, diagnostics: Pick<Diagnostics, 'emit' | 'lifted'>) {
    this.#diagnostics = diagnostics;
    const evicted = (slot: Slot) => {
      this.evictions++;
      this.#removeTrouble(slot);
      diagnostics.emit('owner.evicted', () => ({ owner: slot.owner }));
    };
    this.#newWithToken = () => new SlotCache(maxOwners, evicted);
    this.#newWithoutToken = () =>
      new LRUCache({
        max: 0,
        maxSize: maxOwners,
        sizeCalculation: () => 1,
        disposeAfter: (slot, _accessKey, reason) => {
          if (reason === 'evict') evicted(slot);
        },
      });
    this.#withToken = this.#newWithToken();
    this.#withoutToken = this.#newWithoutToken();
  }

  /** Owners held now. */
  get size(): number {
    return this.usable + this.#withoutToken.size;
  }

  /** Owners with a token; an expired one counts until its owner's next call. */
  get usable(): number {
    return this.#withToken?.size ?? 0;
  }

  /** Owners whose last request failed. */
  get failingCount(): number {
    return this.#failing.withoutToken.size + this.#failing.withToken.size;
  }

  /** The same owners, and those whose last call failed in the queue, the worst first. */
  *failing(): Generator<Slot> {
    yield* this.#failing.withoutToken;
    yield* this.queueFailures.slots();
    yield* this.#failing.withToken;
  }

  /**
   * All owners, including those known only by a request or by a failure in the queue. The table may change between two steps:
   * an owner that changes may then come twice or be missed.
   */
  *all(): Generator<Slot> {
    yield* this.#withToken?.unordered() ?? [];
    yield* this.#tokenless;
    for (const slot of slotsIn(this.#flights.values())) if (!this.#isStored(slot)) yield slot;
    for (const slot of this.queueFailures.slots()) {
      if (!this.#isStored(slot) && !this.#flights.has(slot.accessKey)) yield slot;
    }
  }

  #isStored({ accessKey }: Slot): boolean {
    return this.#withToken?.peek(accessKey) !== undefined || this.#withoutToken.has(accessKey, own());
  }

  /** The owners with a token that neither fail nor have it rejected, the most recently used first. */
  *working(nowMs: number): Generator<Slot> {
    for (const slot of this.#withToken?.slots() ?? []) {
      if (!slot.history.failure && !this.rejected.isRejected(slot, nowMs)) yield slot;
    }
  }

  /** The index of the owner's token, if it is certainly fresh at this second of the timeline. Valid until a change. */
  indexOfFresh(accessKey: string, second: number): number | undefined {
    return this.#withToken?.indexOfFresh(accessKey, second);
  }

  /** What a hit returns: the promise of the token at this index. */
  tokenAt(index: number): Promise<AccessToken> {
    return (this.#withToken as SlotCache).tokenAt(index);
  }

  slotAt(index: number): Slot {
    return (this.#withToken as SlotCache).slotAt(index);
  }

  /** The slot; counts as a use in the LRU order. */
  use(accessKey: string): Slot | undefined {
    const slot =
      this.#withToken?.use(accessKey) ?? this.#withoutToken.get(accessKey, own()) ?? this.#requesting(accessKey);
    if (slot) this.#catchUp(slot);
    return slot;
  }

  /** The slot; does not change the LRU order. */
  peek(accessKey: string): Slot | undefined {
    const slot =
      this.#withToken?.peek(accessKey) ?? this.#withoutToken.peek(accessKey, own()) ?? this.#requesting(accessKey);
    if (slot) this.#catchUp(slot);
    return slot;
  }

  /** An owner that is not stored yet. */
  #requesting(accessKey: string): Slot | undefined {
    return this.#flights.get(accessKey)?.flight?.slot ?? this.queueFailures.of(accessKey)?.slot;
  }

  /** The owner's in-flight request, which its callers join. */
  flightOf(accessKey: string): Flight | undefined {
    return this.#flights.get(accessKey)?.flight;
  }

  /** Whether callers join this request and its outcome is stored; false once it is detached. */
  isCurrent(flight: Flight): boolean {
    return this.#flights.get(flight.accessKey)?.flight === flight;
  }

  attach(flight: Flight): void {
    this.#flights.set(flight.accessKey, { flight });
  }

  /** Ends the owner's pause, and no longer keeps a rejected token. */
  resume(slot: Slot): void {
    const wasReplacing = isReplacing(slot);
    this.queueFailures.delete(slot.accessKey);
    const wasFailing = endPause(slot);
    if (isReplacing(slot) && !wasReplacing) this.store(slot);
    if (wasFailing) this.reportRecovery(slot);
  }

  /** Ends the owner's backoff, if there is one. */
  endBackoff(slot: Slot): void {
    if (endBackoff(slot)) this.reportRecovery(slot);
  }

  /** Ends all pauses at once. Clears the slots one by one, in slices, because each recovery is reported. */
  resumeAll(): void {
    const { withoutToken, withToken } = this.#failing;
    // Without a copy of the larger set, because this is done in one turn.
    if (this.#resumed.size === 0) this.#resumed = withoutToken;
    else for (const slot of withoutToken) this.#resumed.add(slot);
    for (const slot of withToken) this.#resumed.add(slot);
    for (const slot of this.rejected.withStreak()) this.#resumed.add(slot);
    this.#forgetTrouble();
    inSlices(this.#resumed, (slot) => this.resume(slot));
  }

  /** Clears a slot that is read before {@link resumeAll} has done so. */
  #catchUp(slot: Slot): void {
    if (this.#resumed.has(slot)) this.resume(slot);
  }

  /** The slot no longer has a failure. */
  reportRecovery(slot: Slot): void {
    this.#resumed.delete(slot);
    this.#noteTrouble(slot);
    this.#diagnostics.lifted(slot);
  }

  /** Stores a changed slot. */
  store(slot: Slot): void {
    this.#resumed.delete(slot);
    this.#noteTrouble(slot);
    this.queueFailures.delete(slot.accessKey);
    if (slot.held) {
      this.#tokenless.delete(slot);
      this.#withoutToken.delete(slot.accessKey);
      this.#withToken ??= this.#newWithToken();
      this.#withToken.set(slot, slot.held);
    } else {
      this.#tokenless.add(slot);
      this.#withToken?.delete(slot.accessKey);
      this.#withoutToken.set(slot.accessKey, slot, own());
    }
  }

  /** Keeps later callers from joining this request. Returns whether they could join it until now. */
  detach(flight: Flight): boolean {
    const box = this.#flights.get(flight.accessKey);
    if (box?.flight !== flight) return false;
    box.flight = undefined;
    return this.#flights.delete(flight.accessKey);
  }

  /** Detaches the owner's request, too. Returns whether there was a token or a failure. */
  forget(accessKey: string): boolean {
    const slot = this.peek(accessKey);
    if (!slot) return false;
    const flight = this.flightOf(accessKey);
    if (flight) this.detach(flight);
    const hasFailedInQueue = this.queueFailures.of(accessKey) !== undefined;
    this.#removeTrouble(slot);
    this.#withToken?.delete(accessKey);
    this.#withoutToken.delete(accessKey);
    return clearSlot(slot) || hasFailedInQueue;
  }

  /**
   * Drops the caches, because `lru-cache` clears itself in quadratic time. Returns the requests that have not ended, read
   * from the old map without a copy, because only the new one changes from now on.
   */
  clear(): Iterable<Flight> {
    const flights = flightsIn(this.#flights.values());
    this.#withToken = undefined;
    this.#withoutToken = this.#newWithoutToken();
    this.#tokenless = new Set();
    this.#flights = new Map();
    this.#forgetTrouble();
    this.#resumed = new Set();
    return flights;
  }

  /** A failing owner keeps its place in the order until it gets or loses a token. */
  #noteTrouble(slot: Slot): void {
    this.rejected.note(slot);
    const { withoutToken, withToken } = this.#failing;
    const [now, other] = slot.held ? [withToken, withoutToken] : [withoutToken, withToken];
    other.delete(slot);
    if (slot.history.failure) now.add(slot);
    else now.delete(slot);
  }

  #removeTrouble(slot: Slot): void {
    this.rejected.delete(slot);
    this.queueFailures.delete(slot.accessKey);
    this.#tokenless.delete(slot);
    this.#failing.withoutToken.delete(slot);
    this.#failing.withToken.delete(slot);
    this.#resumed.delete(slot);
  }

  #forgetTrouble(): void {
    this.rejected = new RejectedOwners();
    this.queueFailures.clear();
    this.#failing = { withoutToken: new Set(), withToken: new Set() };
  }
}

function* flightsIn(boxes: Iterable<{ readonly flight: Flight | undefined }>): Generator<Flight> {
  // A box in the map is never empty; see `detach`.
  for (const { flight } of boxes) yield flight as Flight;
}

function* slotsIn(boxes: Iterable<{ readonly flight: Flight | undefined }>): Generator<Slot> {
  for (const { slot } of flightsIn(boxes)) yield slot;
}
