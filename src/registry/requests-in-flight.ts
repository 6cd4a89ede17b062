/**
 * The requests in flight, and which of them give their permits back. A slow request, one that takes far longer than its
 * peers, does so, and stays in flight in a pool of bounded size.
 *
 * It keeps the permit if the service rather than the owner may hang. Requests of owners that worked before are suspects
 * until one that started no earlier succeeds. While there are three suspects, slow or not, those with a permit keep it.
 *
 * A call that starts or queues a request asks for the next slow one, and thousands may hang. So nothing here goes through
 * all requests: they start in order, and time passes.
 */

import { SUSPECTS_TO_ESCALATE } from '../failures/circuit-breaker.ts';
import { type Linked, LinkedList } from './linked-list.ts';

/** What is known of a suspect. */
interface Suspicion extends Linked<Suspicion> {
  readonly startedAtMs: number;
}

/** A request that can be in flight. This file sets the fields. */
export interface InFlight<T> extends Linked<T> {
  /** When its request started, if it is in flight. */
  startedAtMs: number;
  suspicion: Suspicion | undefined;
}

export class RequestsInFlight<T extends InFlight<T>> {
  /** Those with a permit, in the order in which they started. */
  readonly #started = new LinkedList<T>();
  /** Those that have given their permit back. */
  readonly #slow = new LinkedList<T>();
  /** In the order in which they started, with a permit or without. */
  readonly #suspects = new LinkedList<Suspicion>();
  /** The last of the suspects at the beginning of `#started` that are slow and keep their permits. */
  #lastKept: T | undefined;
  /** When the newest request that has succeeded started. */
  #newestServedAtMs = Number.NEGATIVE_INFINITY;
  readonly #maxSlow: number;

  /** @param maxSlow the size of the pool. */
  constructor(maxSlow: number) {
    this.#maxSlow = maxSlow;
  }

  /** Slow ones included. */
  get length(): number {
    return this.#started.length + this.#slow.length;
  }

  get permits(): number {
    return this.#started.length;
  }

  has(request: T | undefined): request is T {
    return request !== undefined && (request.list === this.#started || request.list === this.#slow);
  }

  hasPermit(request: T | undefined): request is T {
    return request !== undefined && request.list === this.#started;
  }

  /** @param isProven whether its owner worked before. */
  start(request: T, isProven: boolean, nowMs: number): void {
    request.startedAtMs = nowMs;
    this.#started.push(request);
    if (!isProven || nowMs <= this.#newestServedAtMs) return;
    request.suspicion = { startedAtMs: nowMs };
    this.#suspects.push(request.suspicion);
  }

  /** A request with a permit succeeded. */
  served({ startedAtMs }: T): void {
    this.#newestServedAtMs = Math.max(this.#newestServedAtMs, startedAtMs);
    for (let oldest = this.#suspects.first; oldest; oldest = this.#suspects.first) {
      if (oldest.startedAtMs > this.#newestServedAtMs) return;
      this.#suspects.remove(oldest);
    }
  }

  end(request: T): void {
    this.#takeOut(request);
    if (request.suspicion) this.#suspects.remove(request.suspicion);
  }

  /** Moves requests that have been in flight for this long to the pool of slow ones, while it has room. */
  takeFromSlow(slowAfterMs: number, nowMs: number): T[] {
    const taken: T[] = [];
    for (;;) {
      const next = this.#nextSlow(slowAfterMs, nowMs);
      if (!next || next.startedAtMs + slowAfterMs > nowMs) return taken;
      this.#takeOut(next);
      this.#slow.push(next);
      taken.push(next);
    }
  }

  /** When the next request counts as slow; undefined if none gives its permit back. */
  slowAtMs(slowAfterMs: number, nowMs: number): number | undefined {
    const next = this.#nextSlow(slowAfterMs, nowMs);
    return next && next.startedAtMs + slowAfterMs;
  }

  /**
   * The next request to give its permit back. While suspects keep theirs, this is the next one that becomes slow;
   * whether it will keep its permit is decided only then.
   *
   * Goes on where the last call ended: if the oldest request is a suspect, so are all of proven owners after it, and only
   * such ones have been passed.
   */
  #nextSlow(slowAfterMs: number, nowMs: number): T | undefined {
    if (this.#slow.length >= this.#maxSlow) return undefined;
    const oldest = this.#started.first;
    if (!oldest || !this.#isSuspect(oldest) || this.#suspects.length < SUSPECTS_TO_ESCALATE) return oldest;
    // By the same sum as in `slowAtMs`: a difference may be rounded otherwise, and the timer would fire for nothing.
    const isSlow = ({ startedAtMs }: T) => startedAtMs + slowAfterMs <= nowMs;
    let last = this.#lastKept;
    while (last && !isSlow(last)) last = last.previous;
    let next = last ? last.next : oldest;
    for (; next && isSlow(next) && this.#isSuspect(next); next = next.next) last = next;
    this.#lastKept = last;
    return next;
  }

  #isSuspect({ suspicion }: T): boolean {
    return suspicion?.list === this.#suspects;
  }

  #takeOut(request: T): void {
    if (request === this.#lastKept) this.#lastKept = request.previous;
    request.list?.remove(request);
  }
}
