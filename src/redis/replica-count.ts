/** Counts the replicas of the fleet. Each announces itself in one record from time to time, as long as it is called. */

import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { Names } from './names.ts';
import type { ReplicaCount, SharedRecord } from './shared-record.ts';

/** A replica counts as present for this long after it announced itself. */
const ANNOUNCED_MS = 900_000;

/** How often a replica announces itself: at first often, because replicas that start together must count each other. */
const ANNOUNCE_EVERY_MS = { first: 5_000, last: 300_000 } as const;

export class ReplicaCounter {
  readonly #record: SharedRecord;
  readonly #names: Names;
  readonly #clock: Clock;
  readonly #onCount: (count: ReplicaCount) => void;
  readonly #replica = randomUUID();
  #announceAtMs = Number.NEGATIVE_INFINITY;
  #everyMs: number = ANNOUNCE_EVERY_MS.first;

  constructor(record: SharedRecord, names: Names, clock: Clock, onCount: (count: ReplicaCount) => void) {
    this.#record = record;
    this.#names = names;
    this.#clock = clock;
    this.#onCount = onCount;
  }

  /** Announces this replica and counts all, if it is time to. */
  announce(): void {
    const nowMs = this.#clock.monotonic();
    if (nowMs < this.#announceAtMs) return;
    this.#announceAtMs = nowMs + this.#everyMs;
    this.#everyMs = Math.min(this.#everyMs * 2, ANNOUNCE_EVERY_MS.last);
    this.#send(ANNOUNCED_MS);
  }

  leave(): void {
    this.#send(0);
  }

  #send(windowMs: number): void {
    const { replicas, keyId } = this.#names;
    void this.#record.announce(replicas, this.#replica, keyId, windowMs, this.#onCount);
  }
}
