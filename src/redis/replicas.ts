/**
 * Names and counts the replicas of the fleet. Each announces itself in one record: from time to time while it has calls, and
 * whenever it has heard nothing from Redis for a while, so that one that only serves cached tokens notices within seconds
 * that Redis is unavailable, or available again.
 *
 * An announcement is `seenUs keyId aheadUs proof`: when it was made by the server's clock, the id of the naming key, and how far
 * the fleet's time is ahead of that clock by the replica's estimate. Only recent announcements whose proof was made with the
 * naming key count.
 */

import { startIdleTimer, stopTimer, type Timer } from '../clock.ts';
import { ANNOUNCE } from './record-scripts.ts';
import { MAX_BEHIND_MS, type Operation, type RedisLink, type Reply } from './redis-link.ts';
import type { SharedCallDeps } from './shared-call.ts';

/** How often a replica announces itself: at first often, because replicas that start together must count each other. */
const ANNOUNCE_EVERY_MS = { first: 2_000, last: 100_000 } as const;

/**
 * After this long without a reply a replica announces itself, later in a large fleet, because the script takes time for each
 * replica.
 */
const SILENT_MS = { min: 2_000, perReplica: 10 } as const;

const ANNOUNCEMENT = /^(\d+) (\S+) (\d+) (\S+) (.+)$/;

/** The most names that are kept. */
const MAX_LISTED = 100;

/** The first count of a starting fleet may find only this replica. Until the second, at least this many are assumed. */
const ASSUMED_AT_FIRST = 10;

export class Replicas {
  /** Set before the first call. */
  link!: RedisLink;
  /** At the last count; 0 before the first. */
  count = 0;
  /** The names of the first hundred at the last count, in order. */
  listed: readonly string[] = [];
  /** What the others call this replica. */
  readonly name: string;
  readonly #options: Pick<SharedCallDeps, 'names' | 'clock' | 'random' | 'diagnostics'>;
  #counts = 0;
  /** Whether the last announcement was dated: before the first reply, the server's time is unknown. */
  #isDated = false;
  #hasLeft = false;
  #announceAtMs = Number.NEGATIVE_INFINITY;
  #everyMs: number = ANNOUNCE_EVERY_MS.first;
  #timer: Timer | undefined;

  constructor(options: Pick<SharedCallDeps, 'names' | 'clock' | 'random' | 'diagnostics'>, name: string) {
    this.#options = options;
    this.name = name;
  }

  /** By how many replicas a quota is divided. */
  get assumed(): number {
    return this.#counts > 1 ? this.count : Math.max(this.count, ASSUMED_AT_FIRST);
  }

  /** Announces this replica, or that it has left. */
  operation(): Operation {
    const { names, clock } = this.#options;
    const { time } = this.link;
    const nowMs = clock.monotonic();
    const seenUs = this.#hasLeft ? 0 : time.onServer(nowMs);
    const aheadUs = Math.max(0, time.at(nowMs) - seenUs);
    this.#isDated = seenUs > 0;
    const proof = names.proofOf('present', this.name, seenUs, aheadUs);
    return [ANNOUNCE, names.replicas, [this.name, `${seenUs} ${names.keyId} ${aheadUs} ${proof}`]];
  }

  onReply([, now, ...announced]: Reply): void {
    if (!this.#isDated) {
      this.announce(true);
      return;
    }
    const { names, clock, diagnostics } = this.#options;
    const present: string[] = [];
    let [mismatched, furthestUs] = [0, 0];
    for (const each of announced) {
      const [, seenUs, keyIdOf, aheadUs, proof, name = ''] = ANNOUNCEMENT.exec(each) ?? [];
      if (keyIdOf !== names.keyId) mismatched++;
      else if (proof === names.proofOf('present', name, Number(seenUs), Number(aheadUs))) {
        present.push(name);
        furthestUs = Math.max(furthestUs, Number(aheadUs));
      }
    }
    this.#counts++;
    this.count = Math.max(1, present.length);
    this.listed = present.sort().slice(0, MAX_LISTED);
    if (furthestUs > MAX_BEHIND_MS * 1000) this.link.time.learn(Number(now) + furthestUs, clock.monotonic());
    diagnostics.keyMismatch(mismatched);
  }

  /** Announces this replica and counts all, if it is time to, or because its announcement in Redis is invalid or unknown. */
  announce(isOverdue = false): void {
    if (this.#hasLeft) return;
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
    this.#hasLeft = true;
    void this.link.run(this.operation());
  }

  #whenSilent(): Timer {
    const { clock, random } = this.#options;
    const silentMs = Math.max(SILENT_MS.min, this.count * SILENT_MS.perReplica);
    const onTime = () => {
      this.#timer = undefined;
      this.announce(clock.monotonic() - this.link.heardAtMs >= silentMs);
    };
    return startIdleTimer(clock, onTime, silentMs * (0.5 + random() / 2));
  }
}
