/** What the queue did to calls: how many it failed or delayed, and which owners' last calls it failed. */

import type { Instant } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { PATIENCE_MS } from '../failures/blame-state.ts';
import type { Pause } from '../failures/pauses.ts';
import type { Flight } from './flight.ts';
import type { Slot } from './slot.ts';

/** Beyond this, each new owner drops the one that failed longest ago. */
const MAX_OWNERS = 10_000;

/** How long an owner without further calls still counts, once the queue is short. */
const KEPT_MS = 30_000;

interface QueueFailure extends Pause {
  readonly slot: Slot;
  /** When the first failure in a row happened, on the monotonic clock. */
  readonly sinceMs: number;
}

export class QueueFailures {
  /** Calls that were queued for over a second, and calls that the queue failed. */
  readonly counts = { late: 0, queueFull: 0, queueTimeouts: 0 };
  readonly #owners = new Map<string, QueueFailure>();

  /** A queued request starts. */
  started({ queuedAtMs, callers }: Flight, nowMs: number): void {
    if (nowMs - queuedAtMs > PATIENCE_MS) this.counts.late += callers.count;
  }

  /** A queued request is refused, by the queue or by a circuit. */
  refused({ slot, callers }: Flight, error: OwnerTokenError, { monotonicMs }: Instant): void {
    const { code } = error;
    if (code === 'queue_full') this.counts.queueFull += callers.count;
    else if (code === 'queue_timeout') this.counts.queueTimeouts += callers.count;
    else return;
    // If there is a rejected token, its callers get that.
    if (callers.count === 0 || slot.held) return;
    const before = this.#owners.get(slot.accessKey);
    const { count = 0, sinceMs = monotonicMs } = before ?? {};
    this.#owners.delete(slot.accessKey);
    this.#owners.set(slot.accessKey, { slot, error, count: count + 1, sinceMs, retryAtMonotonicMs: monotonicMs });
    for (const oldest of this.#owners.keys()) {
      if (this.#owners.size <= MAX_OWNERS) return;
      this.#owners.delete(oldest);
    }
  }

  of(accessKey: string): QueueFailure | undefined {
    return this.#owners.get(accessKey);
  }

  /** The owners whose last call the queue failed. */
  *slots(): Generator<Slot> {
    for (const { slot } of this.#owners.values()) yield slot;
  }

  /** A request of this owner has an outcome, or the owner was removed. */
  delete(accessKey: string): void {
    this.#owners.delete(accessKey);
  }

  clear(): void {
    this.#owners.clear();
  }

  /** Once the queue is short, a past failure says nothing about an owner's next call. */
  expire(longestQueuedMs: number, { monotonicMs }: Instant): void {
    if (longestQueuedMs >= PATIENCE_MS) return;
    for (const [accessKey, { retryAtMonotonicMs: failedMs }] of this.#owners) {
      if (monotonicMs - failedMs < KEPT_MS) return;
      this.#owners.delete(accessKey);
    }
  }
}
