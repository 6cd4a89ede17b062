/**
 * Decides which owner's request starts next. At most `concurrency` requests are in flight over all owners; the others
 * wait here, one per owner, in a bounded queue. The queue starts nothing itself: `flights.ts` pulls the next request,
 * and releases it when it has ended.
 *
 * - Requests that a caller waits for start before refreshes, which no caller waits for. A refresh that a caller joins
 *   is promoted. The order is FIFO per priority class, so no owner overtakes another of its class.
 * - A bulkhead limits the failing owners' share of permits to a quarter and at least one: an owner that hangs holds its
 *   permit for a whole deadline, and a few such owners would hold all of them.
 * - While the limit is below the concurrency, a hanging owner may start if a permit is free but does not count against
 *   the limit.
 * - Newcomers (owners that never succeeded) may have to wait while others start. No other request waits behind theirs.
 */

import type { OwnerStanding } from '../failures/circuit-breaker.ts';
import { isNewcomer, type StartLimits } from '../failures/failure-scopes.ts';

/** What the order depends on. */
export interface QueuedRequest {
  readonly standing: OwnerStanding;
  /** Whether its owner's last request hung. */
  readonly hanging: boolean;
}

export interface RequestQueueOptions {
  readonly concurrency: number;
  readonly maxQueued: number;
  readonly maxQueueMs: number;
}

/** A request's place in a lane, or its permit once it is in flight. */
interface Place<T> {
  readonly request: T;
  /** Undefined once it is in flight. */
  lane: Lane<T> | undefined;
  sinceMs: number;
  previous: Place<T> | undefined;
  next: Place<T> | undefined;
}

/** A linked list, so that any request can be removed in constant time. */
class Lane<T> {
  first: Place<T> | undefined;
  #last: Place<T> | undefined;

  push(place: Place<T>, sinceMs: number): void {
    place.lane = this;
    place.sinceMs = sinceMs;
    place.previous = this.#last;
    place.next = undefined;
    if (this.#last) this.#last.next = place;
    else this.first = place;
    this.#last = place;
  }

  remove(place: Place<T>): void {
    if (place.previous) place.previous.next = place.next;
    else this.first = place.next;
    if (place.next) place.next.previous = place.previous;
    else this.#last = place.previous;
    place.lane = undefined;
  }
}

export class RequestQueue<T extends QueuedRequest> {
  readonly #concurrency: number;
  readonly #maxQueued: number;
  readonly #maxQueueMs: number;
  readonly #failingShare: number;
  readonly #waitedFor = lanes<T>();
  readonly #refreshes = lanes<T>();
  /** Where each request is, queued or in flight. */
  readonly #places = new Map<T, Place<T>>();
  #inFlight = 0;
  #failingInFlight = 0;
  #hangingInFlight = 0;

  constructor(options: RequestQueueOptions) {
    this.#concurrency = options.concurrency;
    this.#maxQueued = options.maxQueued;
    this.#maxQueueMs = options.maxQueueMs;
    this.#failingShare = Math.max(1, Math.floor(options.concurrency / 4));
  }

  /** Requests that were pulled but not released yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  get queued(): number {
    return this.#places.size - this.#inFlight;
  }

  /** When the next request is overdue. */
  get overdueAtMs(): number | undefined {
    return this.#oldest && this.#oldest.sinceMs + this.#maxQueueMs;
  }

  /** Whether one more request fits. It always does if it may start now, because the queue does not grow then. */
  hasPlaceFor({ standing }: QueuedRequest, limits: StartLimits): boolean {
    return this.queued < this.#maxQueued || this.#mayStart(standing, limits);
  }

  /** Adds a request to the end of its priority class. */
  add(request: T, waitedFor: boolean, nowMs: number): void {
    const place: Place<T> = { request, lane: undefined, sinceMs: nowMs, previous: undefined, next: undefined };
    this.#places.set(request, place);
    this.#laneFor(request, waitedFor).push(place, nowMs);
  }

  /** A caller now waits for this request: a queued refresh moves to the end of those that are waited for. */
  promote(request: T, nowMs: number): void {
    const place = this.#places.get(request);
    const lane = this.#laneFor(request, true);
    if (!place?.lane || place.lane === lane) return;
    place.lane.remove(place);
    lane.push(place, nowMs);
  }

  /** Takes a request out of the queue. False if it is not queued. */
  withdraw(request: T): boolean {
    const place = this.#places.get(request);
    if (!place?.lane) return false;
    place.lane.remove(place);
    this.#places.delete(request);
    return true;
  }

  /** Pulls the request to start now, which then counts as in flight; undefined if none may start. */
  next(limits: StartLimits): T | undefined {
    const may = STANDINGS.filter((standing) => this.#mayStart(standing, limits));
    const place = firstOf(this.#waitedFor, may) ?? firstOf(this.#refreshes, may);
    if (!place) return undefined;
    place.lane?.remove(place);
    this.#count(place.request, 1);
    return place.request;
  }

  /** When a request (queued or pulled) was added to the queue, or promoted. */
  sinceMs(request: T): number {
    return (this.#places.get(request) as Place<T>).sinceMs;
  }

  /** A pulled request has ended. */
  release(request: T): void {
    if (this.#places.delete(request)) this.#count(request, -1);
  }

  /** The request that has waited longest, if it is overdue. */
  overdue(nowMs: number): T | undefined {
    const oldest = this.#oldest;
    return oldest && oldest.sinceMs + this.#maxQueueMs <= nowMs ? oldest.request : undefined;
  }

  /** The oldest queued request of owners with this standing. */
  first(standing: OwnerStanding): T | undefined {
    return earlier(this.#waitedFor[standing].first, this.#refreshes[standing].first)?.request;
  }

  /** The refresh that has waited longest: a caller's request may take its place. */
  get oldestRefresh(): T | undefined {
    return firstOf(this.#refreshes, STANDINGS)?.request;
  }

  get #oldest(): Place<T> | undefined {
    return earlier(firstOf(this.#waitedFor, STANDINGS), firstOf(this.#refreshes, STANDINGS));
  }

  #mayStart(standing: OwnerStanding, { inFlight, newcomers }: StartLimits): boolean {
    if (this.#inFlight >= this.#concurrency || (isNewcomer(standing) && !newcomers)) return false;
    if (isFailing(standing)) return this.#failingInFlight < this.#failingShare && this.#inFlight < inFlight;
    return this.#inFlight - this.#hangingInFlight < inFlight;
  }

  #count({ standing, hanging }: QueuedRequest, by: 1 | -1): void {
    this.#inFlight += by;
    if (isFailing(standing)) this.#failingInFlight += by;
    if (hanging) this.#hangingInFlight += by;
  }

  #laneFor({ standing }: QueuedRequest, waitedFor: boolean): Lane<T> {
    return (waitedFor ? this.#waitedFor : this.#refreshes)[standing];
  }
}

export const STANDINGS: readonly OwnerStanding[] = ['new', 'unproven', 'proven', 'failing'];

/** One lane per standing, so that requests that may not start do not block the others. */
type Lanes<T> = Readonly<Record<OwnerStanding, Lane<T>>>;

function lanes<T>(): Lanes<T> {
  return { new: new Lane(), unproven: new Lane(), proven: new Lane(), failing: new Lane() };
}

function isFailing(standing: OwnerStanding): boolean {
  return standing === 'unproven' || standing === 'failing';
}

/** The oldest place in these lanes. */
function firstOf<T>(among: Lanes<T>, standings: readonly OwnerStanding[]): Place<T> | undefined {
  let first: Place<T> | undefined;
  for (const standing of standings) first = earlier(first, among[standing].first);
  return first;
}

/** The older of two places. */
function earlier<T>(a: Place<T> | undefined, b: Place<T> | undefined): Place<T> | undefined {
  if (!a || !b) return a ?? b;
  return a.sinceMs <= b.sinceMs ? a : b;
}
