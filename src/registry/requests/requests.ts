/**
 * Begins token requests, at most one per owner, lets callers join them, and ends those that are no longer wanted.
 * `lifecycle.ts` is the life of one.
 */

import { type Instant, nextTurn, SLICE, settledWithin, type Time } from '../../clock.ts';
import type { FailureScope } from '../../errors/owner-token-error.ts';
import { type Circuit, refusingCircuit } from '../../failures/blame.ts';
import type { Pause } from '../../failures/pauses.ts';
import { refusal } from '../../failures/refusals.ts';
import type { Diagnostics } from '../../reporting/diagnostics.ts';
import type { AccessToken } from '../../token.ts';
import type { TokenSource } from '../../token-source.ts';
import type { RegistrySettings } from '../options.ts';
import type { OwnerTable } from '../owners/owner-table.ts';
import { backoffOf, type Conditions, clearSlot, laterPause, type Slot } from '../owners/slot.ts';
import type { FailedCalls } from './failed-calls.ts';
import { type Caller, Flight, type Waiters } from './flight.ts';
import { Lifecycle } from './lifecycle.ts';
import type { Scheduler } from './scheduler.ts';
import { closedError } from './source-call.ts';

export class Requests {
  readonly scheduler: Scheduler;
  /** Calls refused at once by a pause, by its scope. */
  readonly refused: Record<FailureScope, number> = { owner: 0, client: 0, endpoint: 0 };
  readonly #lifecycle: Lifecycle;
  readonly #waiters: Waiters;
  readonly #owners: OwnerTable;
  readonly #time: Time;
  readonly #diagnostics: Diagnostics;
  readonly #source: TokenSource;

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics) {
    this.#lifecycle = new Lifecycle(settings, owners, diagnostics);
    this.#waiters = this.#lifecycle.waiters;
    this.scheduler = this.#lifecycle.scheduler;
    this.#owners = owners;
    this.#time = settings.time;
    this.#diagnostics = diagnostics;
    this.#source = settings.source;
  }

  /** {@link Lifecycle.counts} */
  get counts(): Lifecycle['counts'] {
    return this.#lifecycle.counts;
  }

  get failedCalls(): FailedCalls {
    return this.#lifecycle.failedCalls;
  }

  /** {@link Waiters.abandoned} */
  get abandonedCalls(): number {
    return this.#waiters.abandoned;
  }

  /** How many callers wait. */
  get waiting(): number {
    return this.#waiters.count;
  }

  /** What a decision about an owner depends on, apart from its slot. */
  conditions(flight: Flight | undefined, now: Instant, minValidityMs = 0): Conditions {
    const requesting = flight !== undefined && (this.#waiters.isLate(flight, now) ? 'late' : true);
    return { requesting, circuit: refusingCircuit(this.scheduler.health.blame, now.monotonicMs), minValidityMs };
  }

  request(slot: Slot, caller: Caller, now: Instant): Promise<AccessToken> {
    const flight = new Flight(slot, caller.isWarmUp ? 'refresh' : undefined, now.monotonicMs);
    flight.isWarmUp = caller.isWarmUp;
    const outcome = this.#waiters.wait(flight, caller, now);
    this.scheduler.enqueue(flight, now);
    this.#waiters.limitPatience(flight, now);
    return outcome;
  }

  join(flight: Flight, caller: Caller, now: Instant): Promise<AccessToken> {
    if (!caller.isWarmUp) this.scheduler.promote(flight, now);
    flight.isWarmUp &&= caller.isWarmUp;
    this.#waiters.limitPatience(flight, now);
    return this.#waiters.wait(flight, caller, now);
  }

  /** Begins a request that no caller waits for, unless the queue is full. */
  refresh(slot: Slot, now: Instant): void {
    if (this.scheduler.hasQueueSpace(now)) this.scheduler.enqueue(new Flight(slot, 'refresh', now.monotonicMs), now);
  }

  /** Refuses the call because of a pause. */
  refuse(slot: Slot, now: Instant, circuit: Circuit | undefined): never {
    const pause = laterPause(circuit, backoffOf(slot, now)) as Pause;
    const isCircuit = circuit !== undefined && pause === circuit;
    this.refused[isCircuit ? circuit.scope : 'owner']++;
    this.failedCalls.refused++;
    this.#owners.noteUnserved(slot, now, pause.error);
    this.#diagnostics.refused(isCircuit ? circuit.scope : slot);
    throw refusal(pause, slot.owner, now);
  }

  /**
   * Removes the owner. Its request continues for callers that wait; without any, it is dropped.
   *
   * @returns whether it was known.
   */
  forget(accessKey: string): boolean {
    const flight = this.#owners.flightOf(accessKey);
    const wasKnown = this.#owners.forget(accessKey);
    this.#lifecycle.recentTokens.forget(accessKey);
    this.scheduler.step({ kind: 'forgotten', owner: accessKey }, this.#time.now());
    if (flight) this.#lifecycle.dropIfUseless(flight);
    return wasKnown || flight !== undefined;
  }

  /** So that the source forgets the owner as well. */
  tellSource(accessKey: string): void {
    const told = async () => this.#source.forget?.(accessKey);
    told().catch((thrown) => this.#diagnostics.hookFailed('source.forget', thrown));
  }

  /** All owners were forgotten: clears their slots, and drops the requests that no caller waits for. */
  forgetAll(flights: Iterable<Flight>): void {
    this.#lifecycle.recentTokens.forgetAll();
    this.scheduler.step({ kind: 'forgotten', owner: undefined }, this.#time.now());
    for (const flight of flights) {
      clearSlot(flight.slot);
      this.#lifecycle.dropIfUseless(flight);
    }
  }

  /**
   * Rejects every caller with `closed` and aborts the sent requests; `timeoutMs` does not cut this short. Then waits for
   * what is left of `timeoutMs` until all requests have ended, and closes the source. Returns how many requests have not ended.
   */
  async close(timeoutMs: number): Promise<number> {
    this.#lifecycle.recentTokens.forgetAll();
    const endsAtMs = this.#time.now().monotonicMs + timeoutMs;
    let closed = 0;
    for (const flight of this.scheduler.close()) {
      const now = this.#time.now();
      this.#waiters.reject(flight, closedError(flight.slot.owner, now));
      // A source that never settles must not keep the process alive.
      flight.call?.stopLimit?.();
      if (flight.call) flight.call.abort.abort(closedError(undefined, now));
      else this.#lifecycle.end(flight, now);
      if (++closed % SLICE === 0) await nextTurn();
    }
    if (this.scheduler.queue.inFlight > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#lifecycle.whenIdle = resolve;
      });
      await settledWithin(this.#time, endsAtMs - this.#time.now().monotonicMs, idle);
    }
    const abandoned = this.scheduler.queue.inFlight;
    const sourceClosed = (async () => void (await this.#source.close?.()))();
    await settledWithin(this.#time, endsAtMs - this.#time.now().monotonicMs, sourceClosed).catch((thrown) =>
      this.#diagnostics.hookFailed('source.close', thrown),
    );
    return abandoned;
  }
}
