/**
 * The fleet's circuit breaker of the endpoint and the client: one record for all owners, read only where there is reason
 * to suspect a failure. While the service is healthy no request reads it, so it is not a hot key.
 *
 * | the record says | its state | a leader |
 * |---|---|---|
 * | no failure | closed | sends its request |
 * | a failure that has not ended | open | is refused until the failure's end |
 * | an ended failure, no lease | half-open | takes the lease: its request is the fleet's trial |
 * | an ended failure, another's lease | half-open | waits for that trial, without a permit |
 *
 * Each replica reads the record when it starts. Until the reply is there, a call may take its owner's lease, and gives it
 * back if it then turns out that there may be a failure: a slow Redis would otherwise delay the first calls by one reply more.
 *
 * A replica suspects a failure after an ambiguous failure of its own or of another replica, when a wake-up names this
 * record, and, without a subscription, once a second. The suspicion ends when the record shows no failure.
 *
 * Each registry escalates failures of single owners; the record only carries the result.
 */

import type { Clock } from '../clock.ts';
import { type FailureScope, OwnerTokenError, type WiderScope } from '../errors.ts';

/** Without a subscription, a request reads the record unless one has done so within this time. */
const READ_EVERY_MS = 1_000;

export class SharedCircuit {
  readonly name: string;
  readonly #clock: Clock;
  readonly #isSubscribed: () => boolean;
  #suspected = true;
  #isUnread = true;
  #lastReadMs = Number.NEGATIVE_INFINITY;

  /** @param name of the record. */
  constructor(name: string, clock: Clock, isSubscribed: () => boolean) {
    this.name = name;
    this.#clock = clock;
    this.#isSubscribed = isSubscribed;
  }

  /** Whether a request must read the record before it is sent. */
  get mustRead(): boolean {
    if (this.#suspected) return true;
    return !this.#isSubscribed() && this.#clock.monotonic() - this.#lastReadMs >= READ_EVERY_MS;
  }

  /** Whether the first read of the record has not been answered, and nothing else has raised a suspicion. */
  get isUnread(): boolean {
    return this.#isUnread;
  }

  suspect(): void {
    this.#suspected = true;
    this.#isUnread = false;
  }

  /** The record was read and holds no failure. */
  foundClosed(): void {
    this.#suspected = false;
    this.#isUnread = false;
    this.#lastReadMs = this.#clock.monotonic();
  }

  /** The scope of a failure that concerns all owners, else undefined. An ambiguous failure raises the suspicion too. */
  judge(error: OwnerTokenError, scope: FailureScope): WiderScope | undefined {
    if (OwnerTokenError.escalationOf(error)) this.suspect();
    if (scope === 'owner') return undefined;
    this.suspect();
    return scope;
  }
}
