/**
 * The owners without service: from the first call that was not served until the owner gets a token, is forgotten, or nobody
 * has called it for two hours. Then it has **lapsed**: it may be a customer that is gone, and is counted apart. While a circuit is
 * open no owner lapses, because callers may have given up.
 *
 * Also an owner whose token the API rejected, if its own request for a newer one was refused since: its access key was probably
 * revoked together with the token. Its service is back with a new token, or once a call with the old one is accepted.
 *
 * A linked list in the order of the last unserved calls: those that have lapsed, then the others. So each change takes the same
 * time for any number of owners, and each owner lapses once.
 */

import type { OwnerTokenError } from '../../errors/owner-token-error.ts';
import type { Slot } from './slot.ts';

const LAPSES_AFTER_MS = 7_200_000;

/** One owner without service. All times are on the monotonic clock. */
interface Unserved {
  readonly slot: Slot;
  /** Its first call that was not served. */
  readonly sinceMs: number;
  /** Its last one. */
  readonly failedAtMs: number;
  /** Why it was not served. */
  readonly error: OwnerTokenError;
  hasLapsed: boolean;
  /** Whether it still has a token, which the API rejected. */
  hasToken: boolean;
  previous: Unserved | undefined;
  next: Unserved | undefined;
}

export class WithoutService {
  /** How many have lapsed. */
  lapsed = 0;
  /** How many still have their rejected token, those that have lapsed included. */
  withToken = 0;
  readonly #max: number;
  readonly #byAccessKey = new Map<string, Unserved>();
  #first: Unserved | undefined;
  #last: Unserved | undefined;
  /** The first that has not lapsed. */
  #current: Unserved | undefined;

  /** @param max how many are kept, and how many that have lapsed. */
  constructor(max: number) {
    this.#max = max;
  }

  /** How many are without service. */
  get size(): number {
    return this.#byAccessKey.size - this.lapsed;
  }

  /** When the first and the last unserved call was of those that have lapsed. */
  get lapsedMs(): { readonly firstMs: number; readonly lastMs: number } | undefined {
    const newest = this.#current ? this.#current.previous : this.#last;
    return this.#first && newest && { firstMs: this.#first.failedAtMs, lastMs: newest.failedAtMs };
  }

  of({ accessKey }: Slot): Readonly<Unserved> | undefined {
    return this.#byAccessKey.get(accessKey);
  }

  /** Those that have not lapsed. The list may change between two steps: an owner that changes may then come twice or be missed. */
  *slots(): Generator<Slot> {
    let unserved = this.#current;
    // Bounded, because each unserved call moves its owner to the end, so that it comes again.
    for (let left = this.size; unserved && left > 0; left--) {
      yield unserved.slot;
      unserved = unserved.next;
    }
  }

  /** A call of the owner was not served. */
  add(slot: Slot, nowMs: number, error: OwnerTokenError): void {
    const sinceMs = this.of(slot)?.sinceMs ?? nowMs;
    this.remove(slot.accessKey);
    const { accessKey } = slot;
    const place = { previous: this.#last, next: undefined };
    const unserved = { slot, sinceMs, failedAtMs: nowMs, error, hasLapsed: false, hasToken: false, ...place };
    this.#byAccessKey.set(accessKey, unserved);
    if (this.#last) this.#last.next = unserved;
    else this.#first = unserved;
    this.#last = unserved;
    this.#current ??= unserved;
    if (this.size > this.#max) this.remove(this.#current.slot.accessKey);
  }

  /** The owner has service again, or was forgotten. */
  remove(accessKey: string): void {
    const unserved = this.#byAccessKey.get(accessKey);
    if (!unserved) return;
    this.#byAccessKey.delete(accessKey);
    const { previous, next, hasLapsed, hasToken } = unserved;
    if (hasLapsed) this.lapsed--;
    if (hasToken) this.withToken--;
    if (this.#current === unserved) this.#current = next;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
  }

  /** The owner's token was stored, or is not any more. */
  noteToken({ accessKey }: Slot, hasToken: boolean): void {
    const unserved = this.#byAccessKey.get(accessKey);
    if (!unserved || unserved.hasToken === hasToken) return;
    unserved.hasToken = hasToken;
    this.withToken += hasToken ? 1 : -1;
  }

  /** To be called before anything is read. */
  lapse(nowMs: number): void {
    for (let next = this.#current; next && nowMs - next.failedAtMs >= LAPSES_AFTER_MS; next = this.#current) {
      next.hasLapsed = true;
      this.lapsed++;
      this.#current = next.next;
      if (this.lapsed > this.#max) this.remove((this.#first as Unserved).slot.accessKey);
    }
  }
}
