/** Counts the replicas of the fleet. Each announces itself in one record from time to time while it has calls. */

import { randomUUID } from 'node:crypto';
import type { Names } from './names.ts';
import { ANNOUNCE } from './record-scripts.ts';
import type { Operation, RedisLink, Reply } from './redis-link.ts';

/** How often a replica announces itself: at first often, because replicas that start together must count each other. */
const ANNOUNCE_EVERY_MS = { first: 2_000, last: 100_000 } as const;

/** The first count of a starting fleet may find only this replica. Until the second, at least this many are assumed. */
const ASSUMED_AT_FIRST = 10;

export class Replicas {
  /** At the last count; 0 before the first. */
  count = 0;
  readonly #names: Names;
  readonly #onMismatch: (mismatched: number) => void;
  readonly #id = randomUUID();
  #counts = 0;
  #announceAtMs = Number.NEGATIVE_INFINITY;
  #everyMs: number = ANNOUNCE_EVERY_MS.first;

  /** @param onMismatch called with how many of the replicas have another naming key. */
  constructor(names: Names, onMismatch: (mismatched: number) => void) {
    this.#names = names;
    this.#onMismatch = onMismatch;
  }

  /** How many replicas are known to share a quota. */
  get assumed(): number {
    return this.#counts > 1 ? this.count : Math.max(this.count, ASSUMED_AT_FIRST);
  }

  /** Announces this replica. */
  get operation(): Operation {
    return [ANNOUNCE, this.#names.replicas, [this.#id, this.#names.keyId, 0]];
  }

  onReply([, , count, mismatched]: Reply): void {
    this.#counts++;
    this.count = Math.max(1, Number(count));
    this.#onMismatch(Number(mismatched));
  }

  /** Announces this replica and counts all, if it is time to. */
  announce(link: RedisLink, nowMs: number): void {
    if (nowMs < this.#announceAtMs) return;
    this.#announceAtMs = nowMs + this.#everyMs;
    this.#everyMs = Math.min(this.#everyMs * 2, ANNOUNCE_EVERY_MS.last);
    void link.run(this.operation).then((reply) => reply && this.onReply(reply));
  }

  leave(link: RedisLink): void {
    void link.run([ANNOUNCE, this.#names.replicas, [this.#id, this.#names.keyId, 1]]);
  }
}
