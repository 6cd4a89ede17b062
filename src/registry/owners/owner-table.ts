/**
 * Stores the owners' slots. Beyond `maxOwners`, the least recently used slots are evicted. Owners with a token and
 * owners without one (failing, or rejected) are evicted separately, so that failures of unknown keys never displace a
 * token. An in-flight request keeps its owner's slot here until it ends, so eviction never touches it.
 */

import type { Instant } from '../../clock.ts';
import type { OwnerTokenError } from '../../errors/owner-token-error.ts';
import type { Diagnostics } from '../../reporting/diagnostics.ts';
import type { AccessToken } from '../../token.ts';
import type { Flight } from '../requests/flight.ts';
import { clearSlot, endBackoff, endPause, isLive, isReplacing, recordRejection, type Slot, troubleOf } from './slot.ts';
import { SlotCache } from './slot-cache.ts';
import { WithoutService } from './without-service.ts';

type Box = { flight: Flight | undefined };

export class OwnerTable {
  /** Slots evicted because their cache was full. */
  evictions = 0;
  readonly #diagnostics: Pick<Diagnostics, 'emit' | 'lifted'>;
  readonly #maxOwners: number;
  readonly #newWithToken: () => SlotCache;
  /**
   * Allocates up to 36 bytes for each possible owner up front. The constructor creates it, so that no call waits for that,
   * and after `clear` it is created again on first use.
   */
  #withToken: SlotCache | undefined;
  /** The least recently used first. A `Map` may change while it is iterated. */
  #withoutToken = new Map<string, Slot>();
  /** Boxed: `detach` empties the box, because a `Map` may retain removed values until a major GC. */
  #flights = new Map<string, Box>();
  /** The failing owners, the longest failing first. */
  #failing = new Set<Slot>();
  /** Owners whose newest tokens the API rejects in a row, the longest rejected first. */
  #rejected = new Set<Slot>();
  /** Owners whose last call was not served. Nothing else may be stored of them. */
  withoutService: WithoutService;

  constructor(maxOwners: number, diagnostics: Pick<Diagnostics, 'emit' | 'lifted'>) {
    this.#diagnostics = diagnostics;
    this.#maxOwners = maxOwners;
    this.#newWithToken = () => new SlotCache(maxOwners, (slot) => this.#evicted(slot));
    this.#withToken = this.#newWithToken();
    this.withoutService = new WithoutService(maxOwners);
  }

  #evicted(slot: Slot): void {
    this.evictions++;
    this.withoutService.noteToken(slot, false);
    this.#removeTrouble(slot);
    this.#diagnostics.emit('owner.evicted', () => ({ owner: slot.owner }));
  }

  /** Owners held now. */
  get size(): number {
    return this.usable + this.#withoutToken.size;
  }

  /** Owners with a token; an expired one counts until its owner's next call. */
  get usable(): number {
    return this.#withToken?.size ?? 0;
  }

  /** Owners whose last request failed, the longest failing first. */
  get failing(): ReadonlySet<Slot> {
    return this.#failing;
  }

  /** Owners whose newest tokens the API rejects in a row, the longest rejected first. */
  get rejected(): ReadonlySet<Slot> {
    return this.#rejected;
  }

  /**
   * All owners, including those known only by a request, or by calls that were refused. The table may change between two steps: an owner that changes may then
   * come twice or be missed.
   */
  *all(): Generator<Slot> {
    yield* this.#withToken?.unordered() ?? [];
    // Bounded, because each use moves an owner to the end, so that it comes again.
    let left = this.#withoutToken.size;
    for (const slot of this.#withoutToken.values()) {
      if (left-- === 0) break;
      yield slot;
    }
    for (const { slot } of flightsIn(this.#flights)) if (!this.#isStored(slot)) yield slot;
    for (const slot of this.withoutService.slots())
      if (!this.#isStored(slot) && !this.#flights.has(slot.accessKey)) yield slot;
  }

  #isStored({ accessKey }: Slot): boolean {
    return this.#withToken?.peek(accessKey) !== undefined || this.#withoutToken.has(accessKey);
  }

  /** The owners with a token that neither fail nor are in a streak of rejections, the most recently used first. */
  *working(): Generator<Slot> {
    for (const slot of this.#withToken?.slots() ?? []) if (!troubleOf(slot)) yield slot;
  }

  /** What a hit returns: the promise of the owner's token, if that is certainly fresh at this second of the timeline. */
  fresh(accessKey: string, second: number): Promise<AccessToken> | undefined {
    return this.#withToken?.fresh(accessKey, second);
  }

  /** The slot, even of an owner that is known only by its request; counts as a use in the LRU order. */
  use(accessKey: string): Slot | undefined {
    const slot = this.#withToken?.use(accessKey);
    if (slot) return slot;
    const tokenless = this.#withoutToken.get(accessKey);
    if (tokenless) this.#keepTokenless(tokenless);
    return tokenless ?? this.flightOf(accessKey)?.slot;
  }

  /** The slot; does not change the LRU order. */
  peek(accessKey: string): Slot | undefined {
    return this.#withToken?.peek(accessKey) ?? this.#withoutToken.get(accessKey) ?? this.flightOf(accessKey)?.slot;
  }

  /** The owner's in-flight request, which its callers join. */
  flightOf(accessKey: string): Flight | undefined {
    return this.#flights.get(accessKey)?.flight;
  }

  /** Whether callers join this request and its outcome is stored; false once it is detached. */
  isCurrent(flight: Flight): boolean {
    return this.flightOf(flight.accessKey) === flight;
  }

  attach(flight: Flight): void {
    this.#flights.set(flight.accessKey, { flight });
  }

  /** Ends the owner's pause, and no longer keeps a rejected token. */
  resume(slot: Slot): void {
    const wasReplacing = isReplacing(slot);
    const wasFailing = endPause(slot);
    if (isReplacing(slot) && !wasReplacing) this.store(slot);
    if (wasFailing) this.reportRecovery(slot);
  }

  /** Marks this token as to be replaced, even if the owner was evicted meanwhile and has come back with it. */
  replace({ accessKey, held }: Slot, nowMs: number): void {
    const slot = this.peek(accessKey);
    if (!held || slot?.held?.value !== held.value) return;
    recordRejection(slot, { kind: 'replacing', streak: undefined, firstRejectedAtMs: nowMs, ageMs: undefined });
    this.store(slot);
  }

  /** Ends the owner's backoff, if there is one. */
  endBackoff(slot: Slot): void {
    if (endBackoff(slot)) this.reportRecovery(slot);
  }

  resumeAll(): void {
    for (const slot of [...this.#failing, ...this.#rejected]) this.resume(slot);
  }

  /** The slot no longer has a failure. */
  reportRecovery(slot: Slot): void {
    this.#noteTrouble(slot);
    this.#diagnostics.lifted(slot);
  }

  /** Stores a changed slot. */
  store(slot: Slot): void {
    this.#noteTrouble(slot);
    this.withoutService.noteToken(slot, slot.held !== undefined);
    if (slot.held) {
      this.#withoutToken.delete(slot.accessKey);
      this.#withToken ??= this.#newWithToken();
      this.#withToken.set(slot, slot.held);
    } else {
      this.#withToken?.delete(slot.accessKey);
      this.#keepTokenless(slot);
    }
  }

  #keepTokenless(slot: Slot): void {
    this.#withoutToken.delete(slot.accessKey);
    this.#withoutToken.set(slot.accessKey, slot);
    const [oldest] = this.#withoutToken.values();
    if (!oldest || this.#withoutToken.size <= this.#maxOwners) return;
    this.#withoutToken.delete(oldest.accessKey);
    this.#evicted(oldest);
  }

  /** A call was not served; one that needs a longer life than that of the owner's token leaves it with service. */
  noteUnserved(slot: Slot, now: Instant, error: OwnerTokenError): void {
    if (!isLive(slot, now)) this.loseService(slot, now, error);
  }

  /** The owner is without service, whether or not it has a token. */
  loseService(slot: Slot, { monotonicMs }: Instant, error: OwnerTokenError): void {
    this.withoutService.add(slot, monotonicMs, error);
    this.withoutService.noteToken(slot, this.#withToken?.peek(slot.accessKey) !== undefined);
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
    this.withoutService.remove(accessKey);
    const slot = this.peek(accessKey);
    if (!slot) return false;
    const flight = this.flightOf(accessKey);
    if (flight) this.detach(flight);
    this.#removeTrouble(slot);
    this.#withToken?.delete(accessKey);
    this.#withoutToken.delete(accessKey);
    return clearSlot(slot);
  }

  /**
   * Drops the caches, because `lru-cache` clears itself in quadratic time. Returns the requests that have not ended, read
   * from the old map without a copy, because only the new one changes from now on.
   */
  clear(): Iterable<Flight> {
    const flights = flightsIn(this.#flights);
    this.#withToken = undefined;
    this.#withoutToken = new Map();
    this.#flights = new Map();
    this.#failing = new Set();
    this.#rejected = new Set();
    this.withoutService = new WithoutService(this.#maxOwners);
    return flights;
  }

  #noteTrouble(slot: Slot): void {
    const { failure, rejection } = slot.history;
    if (failure) this.#failing.add(slot);
    else this.#failing.delete(slot);
    if (rejection?.streak) this.#rejected.add(slot);
    else this.#rejected.delete(slot);
  }

  #removeTrouble(slot: Slot): void {
    this.#failing.delete(slot);
    this.#rejected.delete(slot);
  }
}

function* flightsIn(boxes: ReadonlyMap<string, Box>): Generator<Flight> {
  for (const { flight } of boxes.values()) yield flight as Flight;
}
