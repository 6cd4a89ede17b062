/**
 * Decides which owner's request starts next. Requests that may not start yet wait here, one per owner, in a bounded
 * queue. The queue starts nothing itself: `dispatch.ts` pulls the next request, and releases it when it has ended.
 *
 * - Requests that a caller waits for start before refreshes, which no caller waits for. A refresh that a caller joins
 *   is promoted. Within each of these two priority classes the order is FIFO, among the owners whose requests may
 *   start.
 * - A bulkhead limits failing owners to a quarter of the permits, and at least one: an owner that hangs keeps its
 *   permit until its request counts as slow, and many such owners would keep all of them.
 * - A slow request gives its permit back, unless the service may hang; see `requests-in-flight.ts`. Up to half of
 *   `concurrency.max` requests may be in flight without one, or {@link LEAST_SLOW_POOL} if that is more.
 * - Newcomers (owners that have never succeeded) may have to wait while others start, but never delay others.
 * - A request is overdue if no request of an owner with the same standing has succeeded for `maxQueueMs`, or if it has
 *   waited {@link LONGEST_WAIT} times as long. While such requests succeed, its turn will come too.
 */

import type { OwnerStanding } from '../failures/circuit-breaker.ts';
import type { ConcurrencyRange } from '../failures/concurrency-limit.ts';
import { isNewcomer, type StartLimits } from '../failures/flow.ts';
import { type Linked, LinkedList } from './linked-list.ts';
import { type InFlightEntry, RequestsInFlight, type Unanswered } from './requests-in-flight.ts';

/** What the order depends on. */
export interface QueuedRequest {
  readonly standing: OwnerStanding;
  /** Set by the queue, while the request is queued or in flight. */
  place?: Place<QueuedRequest> | undefined;
}

export interface RequestQueueOptions {
  readonly concurrency: ConcurrencyRange;
  readonly maxQueued: number;
  readonly maxQueueMs: number;
}

/** The longest wait while other requests are served, as a multiple of `maxQueueMs`. */
export const LONGEST_WAIT = 10;

/** The smallest pool of slow requests. With a low limit, a few hanging owners would otherwise stop all others. */
export const LEAST_SLOW_POOL = 32;

/** A request's entry in the queue, or among the requests in flight. In no list while it waits to be sent again. */
class Place<T> implements InFlightEntry<Place<T>> {
  readonly request: T;
  sinceMs: number;
  startedAtMs = 0;
  unanswered: Unanswered | undefined;
  list: Linked<Place<T>>['list'];
  previous: Place<T> | undefined;
  next: Place<T> | undefined;

  constructor(request: T, sinceMs: number) {
    this.request = request;
    this.sinceMs = sinceMs;
  }
}

type Lane<T> = LinkedList<Place<T>>;

export class RequestQueue<T extends QueuedRequest> {
  readonly #waitedFor: Lanes<T> = lanes();
  readonly #refreshes: Lanes<T> = lanes();
  readonly #inFlight: RequestsInFlight<Place<T>>;
  /** Requests that are queued or in flight. */
  #count = 0;
  readonly #maxQueued: number;
  readonly #maxQueueMs: number;
  /** By standing: when a request of such an owner last succeeded. */
  readonly #servedAtMs = { new: -Infinity, unproven: -Infinity, proven: -Infinity, failing: -Infinity };
  #failingInFlight = 0;

  constructor({ concurrency, maxQueued, maxQueueMs }: RequestQueueOptions) {
    this.#inFlight = new RequestsInFlight(Math.max(LEAST_SLOW_POOL, Math.floor(concurrency.max / 2)));
    this.#maxQueued = maxQueued;
    this.#maxQueueMs = maxQueueMs;
  }

  /** Requests that were pulled and not released, with or without a permit. */
  get inFlight(): number {
    return this.#inFlight.length;
  }

  /** Requests that have a permit. */
  get permits(): number {
    return this.#inFlight.permits;
  }

  get queued(): number {
    return this.#count - this.inFlight;
  }

  /** Whether the limit is in use: requests wait, or every permit is taken. */
  isFull({ inFlight }: StartLimits): boolean {
    return this.queued > 0 || this.permits >= inFlight;
  }

  /** When the next request is overdue. */
  get overdueAtMs(): number | undefined {
    const overdue = this.#nextOverdue;
    return overdue && this.#overdueAtMs(overdue);
  }

  /** How many queued requests start before one that a caller begins to wait for now. */
  get ahead(): number {
    return STANDINGS.reduce((sum, standing) => sum + this.#waitedFor[standing].length, 0);
  }

  /** Whether the queue has a place for one more request. A request that {@link mayStart} at once needs none. */
  get hasPlace(): boolean {
    return this.queued < this.#maxQueued;
  }

  /** Whether a request of an owner with this standing may start. */
  mayStart(standing: OwnerStanding, { inFlight, newcomers }: StartLimits): boolean {
    if (this.permits >= inFlight || (isNewcomer(standing) && !newcomers)) return false;
    return !isFailing(standing) || this.#failingInFlight < Math.max(1, Math.floor(inFlight / 4));
  }

  /** Adds a request to the end of its priority class. */
  add(request: T, waitedFor: boolean, nowMs: number): void {
    const place = new Place(request, nowMs);
    request.place = place;
    this.#count++;
    this.#laneFor(request, waitedFor).push(place);
  }

  /** A caller now waits for this request: a queued refresh moves to the end of the higher priority class. */
  promote(request: T, nowMs: number): void {
    const place = placeOf(request);
    if (!place || !this.#laneFor(request, false).remove(place)) return;
    place.sinceMs = nowMs;
    this.#laneFor(request, true).push(place);
  }

  /** Takes a request out of the queue. Returns false if it is not queued. */
  withdraw(request: T): boolean {
    const place = placeOf(request);
    if (!place || this.isInFlight(request)) return false;
    place.list?.remove(place);
    this.#leave(request);
    return true;
  }

  /** Pulls the request to start now, which then counts as in flight; undefined if none may start. */
  next(limits: StartLimits, nowMs: number): T | undefined {
    const may = (standing: OwnerStanding) => this.mayStart(standing, limits);
    const place = firstOf(this.#waitedFor, may) ?? firstOf(this.#refreshes, may);
    if (!place) return undefined;
    const { request } = place;
    place.list?.remove(place);
    this.#inFlight.start(place, request.standing === 'proven', nowMs);
    if (isFailing(request.standing)) this.#failingInFlight++;
    return request;
  }

  /** When a request (queued or pulled) was added to the queue, or promoted. */
  sinceMs(request: T): number {
    return (placeOf(request) as Place<T>).sinceMs;
  }

  /** A pulled request has ended, or no longer needs a permit. Returns false if it was not in flight. */
  release(request: T): boolean {
    if (!this.#end(request)) return false;
    this.#leave(request);
    return true;
  }

  /** A request of an owner with this standing succeeded. */
  served(request: T, nowMs: number): void {
    this.#servedAtMs[request.standing] = nowMs;
    const place = placeOf(request);
    if (this.#inFlight.hasPermit(place)) this.#inFlight.served(place);
  }

  /** A pulled request will be sent again. It counts as queued, outside all lanes, until {@link putBack}. */
  postpone(request: T): void {
    this.#end(request);
  }

  /** Puts a postponed request at the beginning of its priority class. */
  putBack(request: T, waitedFor: boolean): void {
    this.#laneFor(request, waitedFor).unshift(placeOf(request) as Place<T>);
  }

  /** Reclaims the permit of one slow request, if there is one and the pool has room. Returns that request. */
  reclaimPermit(slowAfterMs: number, nowMs: number): T | undefined {
    return this.#inFlight.reclaimPermit(slowAfterMs, nowMs)?.request;
  }

  /** When the next request is slow; undefined if none gives its permit back. */
  nextSlowAtMs(slowAfterMs: number, nowMs: number): number | undefined {
    return this.#inFlight.nextSlowAtMs(slowAfterMs, nowMs);
  }

  /** The request that was overdue first, if any is, and whether that is because no other one was served. */
  overdue(nowMs: number): { readonly request: T; readonly isStalled: boolean } | undefined {
    const place = this.#nextOverdue;
    if (!place || this.#overdueAtMs(place) > nowMs) return undefined;
    return { request: place.request, isStalled: nowMs < place.sinceMs + LONGEST_WAIT * this.#maxQueueMs };
  }

  /** The oldest queued request of owners with this standing. */
  first(standing: OwnerStanding): T | undefined {
    return earlier(this.#waitedFor[standing].first, this.#refreshes[standing].first)?.request;
  }

  /** The refresh that has waited longest: a caller's request may take its place. */
  get oldestRefresh(): T | undefined {
    return firstOf(this.#refreshes)?.request;
  }

  get #nextOverdue(): Place<T> | undefined {
    let next: Place<T> | undefined;
    for (const standing of STANDINGS) {
      const first = earlier(this.#waitedFor[standing].first, this.#refreshes[standing].first);
      if (first && (!next || this.#overdueAtMs(first) < this.#overdueAtMs(next))) next = first;
    }
    return next;
  }

  #overdueAtMs({ request, sinceMs }: Place<T>): number {
    const stalledSinceMs = Math.max(sinceMs, this.#servedAtMs[request.standing]);
    return Math.min(stalledSinceMs + this.#maxQueueMs, sinceMs + LONGEST_WAIT * this.#maxQueueMs);
  }

  isInFlight(request: T): boolean {
    return this.#inFlight.has(placeOf(request));
  }

  /** Whether this request is in flight and has not given its permit back. */
  hasPermit(request: T): boolean {
    return this.#inFlight.hasPermit(placeOf(request));
  }

  /** A request is no longer in flight. Returns false if it was not. */
  #end(request: T): boolean {
    const place = placeOf(request);
    if (!this.#inFlight.has(place)) return false;
    this.#inFlight.end(place);
    if (isFailing(request.standing)) this.#failingInFlight--;
    return true;
  }

  #leave(request: T): void {
    request.place = undefined;
    this.#count--;
  }

  #laneFor({ standing }: QueuedRequest, waitedFor: boolean): Lane<T> {
    return (waitedFor ? this.#waitedFor : this.#refreshes)[standing];
  }
}

export const STANDINGS: readonly OwnerStanding[] = ['new', 'unproven', 'proven', 'failing'];

/** One lane per standing, so that requests that may not start do not block the others. */
type Lanes<T> = Readonly<Record<OwnerStanding, Lane<T>>>;

function lanes<T>(): Lanes<T> {
  return { new: new LinkedList(), unproven: new LinkedList(), proven: new LinkedList(), failing: new LinkedList() };
}

function placeOf<T extends QueuedRequest>(request: T): Place<T> | undefined {
  return request.place as Place<T> | undefined;
}

function isFailing(standing: OwnerStanding): boolean {
  return standing === 'unproven' || standing === 'failing';
}

/** The oldest place in these lanes, among eligible standings. */
function firstOf<T>(among: Lanes<T>, isEligible = (_: OwnerStanding) => true): Place<T> | undefined {
  let first: Place<T> | undefined;
  for (const standing of STANDINGS) {
    const oldest = among[standing].first;
    if (oldest && isEligible(standing)) first = earlier(first, oldest);
  }
  return first;
}

/** The older of two places. */
function earlier<T>(a: Place<T> | undefined, b: Place<T> | undefined): Place<T> | undefined {
  if (!a || !b) return a ?? b;
  return a.sinceMs <= b.sinceMs ? a : b;
}
