/**
 * Tracks the requests in flight and decides which of them give their permits back.
 *
 * A request is slow if it takes far longer than its peers. A slow request gives its permit back and stays in flight, in a
 * pool of bounded size.
 *
 * Unless the service itself may hang: a request of a proven owner is unanswered until one that started at the same time or
 * later succeeds and still has its permit then. While three or more are unanswered, with or without a permit, those that
 * have one keep it.
 *
 * Every call that starts or queues a request looks for the next slow one, while thousands may hang. The lists are in start
 * order, and each search resumes where the last one ended, so this takes constant time on average.
 */

import { SUSPECTS_TO_ESCALATE } from '../failures/circuit-breaker.ts';
import { type Linked, LinkedList } from './linked-list.ts';

/** While so many requests are unanswered, they keep their permits: as many as failures that escalate to the service. */
const UNANSWERED_TO_KEEP_PERMITS = SUSPECTS_TO_ESCALATE;

/** An entry in `#unanswered`, apart from the request, because that can be in only one linked list. */
export interface Unanswered extends Linked<Unanswered> {
  readonly startedAtMs: number;
}

/** A request's entry. Only {@link RequestsInFlight} writes these two fields. */
export interface InFlightEntry<T> extends Linked<T> {
  /** When its request started, if it is in flight. */
  startedAtMs: number;
  unanswered: Unanswered | undefined;
}

export class RequestsInFlight<T extends InFlightEntry<T>> {
  /** In start order. */
  readonly #withPermit = new LinkedList<T>();
  readonly #withoutPermit = new LinkedList<T>();
  /** In start order, with a permit or without. */
  readonly #unanswered = new LinkedList<Unanswered>();
  /** Where the last search ended: this request and all before it were slow and unanswered, and kept their permits. */
  #lastKept: T | undefined;
  /** The latest start of a request that succeeded with a permit. */
  #latestAnsweredStartMs = Number.NEGATIVE_INFINITY;
  readonly #maxWithoutPermit: number;

  constructor(maxWithoutPermit: number) {
    this.#maxWithoutPermit = maxWithoutPermit;
  }

  /** With or without a permit. */
  get length(): number {
    return this.#withPermit.length + this.#withoutPermit.length;
  }

  get permits(): number {
    return this.#withPermit.length;
  }

  has(entry: T | undefined): entry is T {
    return entry !== undefined && (entry.list === this.#withPermit || entry.list === this.#withoutPermit);
  }

  hasPermit(entry: T | undefined): entry is T {
    return entry !== undefined && entry.list === this.#withPermit;
  }

  /** @param isProven whether the owner's standing is `proven`. */
  start(entry: T, isProven: boolean, nowMs: number): void {
    entry.startedAtMs = nowMs;
    this.#withPermit.push(entry);
    if (!isProven || nowMs <= this.#latestAnsweredStartMs) return;
    entry.unanswered = { startedAtMs: nowMs };
    this.#unanswered.push(entry.unanswered);
  }

  /** A request with a permit succeeded. */
  served({ startedAtMs }: T): void {
    this.#latestAnsweredStartMs = Math.max(this.#latestAnsweredStartMs, startedAtMs);
    for (let oldest = this.#unanswered.first; oldest; oldest = this.#unanswered.first) {
      if (oldest.startedAtMs > this.#latestAnsweredStartMs) return;
      this.#unanswered.remove(oldest);
    }
  }

  end(entry: T): void {
    this.#takeOut(entry);
    if (entry.unanswered) this.#unanswered.remove(entry.unanswered);
  }

  /** Reclaims the permit of one slow request, if there is one and the pool has room. Returns that request. */
  reclaimPermit(slowAfterMs: number, nowMs: number): T | undefined {
    const next = this.#nextSlow(slowAfterMs, nowMs);
    if (!next || slowAtMs(next, slowAfterMs) > nowMs) return undefined;
    this.#takeOut(next);
    this.#withoutPermit.push(next);
    return next;
  }

  /** When the next request is slow; undefined if none gives its permit back. */
  nextSlowAtMs(slowAfterMs: number, nowMs: number): number | undefined {
    const next = this.#nextSlow(slowAfterMs, nowMs);
    return next && slowAtMs(next, slowAfterMs);
  }

  /**
   * The next request to give its permit back. If unanswered requests keep theirs, this is the first one after them, and
   * whether it keeps its permit is decided once it is slow.
   *
   * Resumes at `#lastKept`, which is safe: if the oldest request is unanswered, so are all later ones of proven owners, and
   * the search passes only such requests.
   */
  #nextSlow(slowAfterMs: number, nowMs: number): T | undefined {
    if (this.#withoutPermit.length >= this.#maxWithoutPermit) return undefined;
    const oldest = this.#withPermit.first;
    const mayServiceHang = this.#unanswered.length >= UNANSWERED_TO_KEEP_PERMITS;
    if (!oldest || !this.#isUnanswered(oldest) || !mayServiceHang) return oldest;
    let last = this.#lastKept;
    // Back, if `slowAfterMs` has grown since.
    while (last && slowAtMs(last, slowAfterMs) > nowMs) last = last.previous;
    let next = last ? last.next : oldest;
    for (; next && slowAtMs(next, slowAfterMs) <= nowMs && this.#isUnanswered(next); next = next.next) last = next;
    this.#lastKept = last;
    return next;
  }

  #isUnanswered({ unanswered }: T): boolean {
    return unanswered?.list === this.#unanswered;
  }

  #takeOut(entry: T): void {
    if (entry === this.#lastKept) this.#lastKept = entry.previous;
    entry.list?.remove(entry);
  }
}

/** Compared as a sum everywhere: a difference may be rounded otherwise, and a timer would fire for nothing. */
function slowAtMs({ startedAtMs }: { readonly startedAtMs: number }, slowAfterMs: number): number {
  return startedAtMs + slowAfterMs;
}
