/**
 * Names and counts the replicas of the fleet. Each announces itself in one record: from time to time while it has calls, and
 * whenever it has heard nothing from Redis for a while, so that one that only serves cached tokens notices within seconds
 * that Redis is unavailable, or available again.
 */

import { randomBytes } from 'node:crypto';
import { startTimer, stopTimer, type Timer } from '../clock.ts';
import { ANNOUNCE } from './record-scripts.ts';
import type { Operation, RedisLink, Reply } from './redis-link.ts';
import { MAX_BEHIND_MS } from './server-time.ts';
import type { Sharing } from './shared-call.ts';

/** How often a replica announces itself: at first often, because replicas that start together must count each other. */
const ANNOUNCE_EVERY_MS = { first: 2_000, last: 100_000 } as const;

/** After this long without a reply a replica announces itself, in a large fleet later: a script takes time for each replica. */
const SILENT_MS = { least: 2_000, perReplica: 10 } as const;

/** The first count of a starting fleet may find only this replica. Until the second, at least this many are assumed. */
const ASSUMED_AT_FIRST = 10;

export class Replicas {
  /** Set before the first call. */
  link!: RedisLink;
  /** At the last count; 0 before the first. */
  count = 0;
  /** The names of the first hundred at the last count, in order. */
  listed: readonly string[] = [];
  /** What the others call this replica. Unique, even if two were given the same name. */
  readonly name: string;
  readonly #options: Pick<Sharing, 'names' | 'clock' | 'random' | 'diagnostics'>;
  #counts = 0;
  #announceAtMs = Number.NEGATIVE_INFINITY;
  #everyMs: number = ANNOUNCE_EVERY_MS.first;
  #timer: Timer | undefined;

  /** @param called the first part of its name. */
  constructor(options: Pick<Sharing, 'names' | 'clock' | 'random' | 'diagnostics'>, called = 'replica') {
    this.#options = options;
    this.name = `${called}-${randomBytes(5).toString('hex')}`;
  }

  /** How many replicas are known to share a quota. */
  get assumed(): number {
    return this.#counts > 1 ? this.count : Math.max(this.count, ASSUMED_AT_FIRST);
  }

  /** Announces this replica. */
  operation(isLeaving = false): Operation {
    const { names, clock } = this.#options;
    return [ANNOUNCE, names.replicas, [this.name, names.keyId, +isLeaving, this.link.time.at(clock.monotonic())]];
  }

  onReply([, now, count, mismatched, aheadUs, ...names]: Reply): void {
    const { clock, diagnostics } = this.#options;
    this.#counts++;
    this.count = Math.max(1, Number(count));
    this.listed = names.sort();
    if (Number(aheadUs) > MAX_BEHIND_MS * 1000) this.link.time.learn(Number(now) + Number(aheadUs), clock.monotonic());
    diagnostics.keyMismatch(Number(mismatched));
  }

  /** Announces this replica and counts all, if it is time to, or because what Redis has of it is void or unknown. */
  announce(isOverdue = false): void {
    const nowMs = this.#options.clock.monotonic();
    this.#timer ??= this.#whenSilent();
    if (isOverdue) this.#everyMs = ANNOUNCE_EVERY_MS.first;
    else if (nowMs < this.#announceAtMs) return;
    this.#announceAtMs = nowMs + this.#everyMs;
    this.#everyMs = Math.min(this.#everyMs * 2, ANNOUNCE_EVERY_MS.last);
    void this.link.run(this.operation()).then((reply) => reply && this.onReply(reply));
  }

  leave(): void {
    stopTimer(this.#timer);
    void this.link.run(this.operation(true));
  }

  #whenSilent(): Timer {
    const { clock, random } = this.#options;
    const silentMs = Math.max(SILENT_MS.least, this.count * SILENT_MS.perReplica);
    const onTime = () => {
      this.#timer = undefined;
      this.announce(clock.monotonic() - this.link.heardAtMs >= silentMs);
    };
    const timer = startTimer(clock, onTime, silentMs * (0.5 + random() / 2));
    // A process may end while it shares.
    if (typeof timer !== 'function') timer.unref();
    return timer;
  }
}
