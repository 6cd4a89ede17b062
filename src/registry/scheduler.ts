/**
 * Decides when a request starts: which comes next, how many at once, how fast. `queue.ts` gives the order, and
 * `failures/reducer.ts` what the outcomes so far allow; its state is kept here. Every change ends with
 * {@link Scheduler.startNext}.
 */

import { type Instant, nextTurn, SLICE, stoodStill, stopTimer, type Time, type Timer } from '../clock.ts';
import { OwnerTokenError, type OwnerTokenErrorCode } from '../errors/owner-token-error.ts';
import {
  askedCanaries,
  type Circuit,
  circuitOf,
  mayStart,
  trialDueAtMs,
  waitsUntilMs,
} from '../failures/blame-state.ts';
import { paceAllows, paceStat } from '../failures/pace.ts';
import {
  type FailedEvent,
  type FailureStep,
  type Health,
  type HealthEvent,
  initialHealth,
  reduce,
  type Step,
  slowAfterMs,
} from '../failures/reducer.ts';
import { refusal, withOutcome } from '../failures/refusals.ts';
import { growsAtMs, roomAt } from '../failures/room.ts';
import type { Diagnostics, ReportedRequest } from '../reporting/diagnostics.ts';
import { type Flight, laneOf } from './flight.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import { LANES, RequestQueue } from './queue.ts';
import type { Slot } from './slot.ts';

/** Begins the request of a canary, which joins the queue, and returns it. */
type BeginCanary = (slot: Slot, now: Instant) => Flight;

export class Scheduler {
  /** How many canaries were sent. */
  canaries = 0;
  readonly queue = new RequestQueue<Flight>();
  /** What the outcomes so far say about the service. Changed only by {@link Scheduler.step}. */
  readonly health: Health<string>;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;
  readonly #beginCanary: BeginCanary;
  /** The circuit that was reported last. */
  #reported: Circuit | undefined;
  /** The timer that wakes the scheduler at {@link Scheduler.#wakeAtMs} or earlier. */
  #wakeAtMs = Number.POSITIVE_INFINITY;
  #wakeTimer: Timer | undefined;
  isClosed = false;
  #blocks = 0;
  /** The next slice of refusals is due in the next turn of the event loop. */
  #isRefusing = false;

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics, beginCanary: BeginCanary) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
    this.#beginCanary = beginCanary;
    this.health = initialHealth(settings.pauses, settings.concurrency, settings.requestsPerSecond);
  }

  /**
   * Queues the request. If the queue is full, it takes the place of the oldest refresh, or is refused.
   *
   * @returns a promise that resolves once it may be sent, or with the error that refuses it; never, if it is dropped before.
   */
  enqueue(flight: Flight, now: Instant): Promise<OwnerTokenError | undefined> {
    const outcome = this.#waitOf(flight);
    if (!this.hasQueueSpace(now)) {
      const displaced = this.queue.lists.refresh.first ?? flight;
      const message = 'the queue of token requests is full: raise maxQueued or concurrency, or make fewer calls';
      this.#refuse(displaced, queueError(displaced, 'queue_full', message, now));
      if (displaced === flight) return outcome;
    }
    this.queue.move(flight, flight.lane);
    this.startNext(now);
    return outcome;
  }

  /** Queues a canary's request, which needs no space, and is started with what the canary was sent for. */
  enqueueCanary(flight: Flight): Promise<OwnerTokenError | undefined> {
    this.queue.move(flight, 'canary');
    return this.#waitOf(flight);
  }

  /** Queues a failed request again after a moment. It keeps its callers. */
  enqueueAfter(flight: Flight, afterMs: number): Promise<OwnerTokenError | undefined> {
    this.queue.move(flight, 'retrying');
    flight.retryTimer = this.#time.startTimer(() => {
      const now = this.#time.now();
      const leftMs = flight.queuedAtMs + this.#settings.maxQueueMs - now.monotonicMs;
      const giveUp = () => this.#refuse(flight, this.#overdue(flight, this.#time.now()));
      if (leftMs <= 0) return giveUp();
      // Has its own timer, because `longestWaiting` reads only the first of each lane, and this request joins at the end.
      flight.retryTimer = this.#time.startTimer(giveUp, leftMs);
      this.queue.enqueue(flight, laneOf(flight.slot));
      this.startNext(now);
    }, afterMs);
    return this.#waitOf(flight);
  }

  #waitOf(flight: Flight): Promise<OwnerTokenError | undefined> {
    return new Promise((resolve) => {
      flight.endWait = resolve;
    });
  }

  /** The request leaves the queue, and its wait ends with the error. */
  #refuse(flight: Flight, error: OwnerTokenError): void {
    this.remove(flight);
    this.#owners.queueFailures.refused(flight, error, this.#time.now());
    // At once, so that no further call joins it.
    this.#owners.detach(flight);
    flight.endWait?.(error);
  }

  /** The request has ended, or is dropped: it leaves the queue, or makes room for another one. */
  remove(flight: Flight): void {
    stopTimer(flight.retryTimer);
    this.queue.move(flight, undefined);
  }

  /** Whether the queue takes one more request. A request that may start at once needs no space in it. */
  hasQueueSpace({ monotonicMs }: Instant): boolean {
    if (this.queue.waiting < this.#settings.maxQueued) return true;
    return (
      paceAllows(this.health.pace, monotonicMs) && this.#hasRoom(monotonicMs) && mayStart(this.health.blame) === true
    );
  }

  /** Whether one more request may run now. */
  #hasRoom(nowMs: number): boolean {
    const { concurrency } = this.#settings;
    const { running, slow } = this.queue.lists;
    // Slow requests beyond `concurrency` count too.
    const counted = running.length + Math.max(0, slow.length - concurrency);
    return counted < roomAt(this.health.room, nowMs);
  }

  /** A caller now waits for a queued refresh. */
  promote(flight: Flight, now: Instant): void {
    if (flight.place !== 'refresh') return;
    this.queue.promote(flight, laneOf(flight.slot), now.monotonicMs);
  }

  /** Starts as many queued requests as may start now. */
  startNext(now: Instant = this.#time.now()): void {
    if (this.isClosed || this.#blocks > 0) return;
    this.#noticeSlow(now);
    if (circuitOf(this.health.blame)) this.#attendCircuit(now);
    while (this.queue.waiting > 0 && this.#hasRoom(now.monotonicMs)) {
      const mayNext = mayStart(this.health.blame);
      // No trial waits for the pace.
      const mayAny = mayNext === 'trial' || (mayNext && paceAllows(this.health.pace, now.monotonicMs));
      const flight = this.queue.startNext(now.monotonicMs, !mayAny);
      if (!flight) break;
      if (mayNext === 'trial' && flight.lane !== 'canary') {
        flight.trialOf = this.health.blame.state;
        this.step({ kind: 'trialSent', owner: flight.accessKey }, now);
      }
      stopTimer(flight.retryTimer);
      this.step({ kind: 'sent', number: flight.number }, now);
      this.#owners.queueFailures.started(flight, now.monotonicMs);
      flight.endWait?.();
    }
    this.#setWakeTimer(now);
  }

  /** A request that takes far longer than usual gives its place to another one. */
  #noticeSlow(now: Instant): void {
    for (let flight = this.queue.lists.running.first; flight; flight = this.queue.lists.running.first) {
      const { startedAtMs } = flight;
      if (startedAtMs + slowAfterMs(this.health) > now.monotonicMs) return;
      this.queue.move(flight, 'slow');
      const deadlineMs = startedAtMs + this.#settings.longestRequestMs;
      if (this.isTrial(flight)) this.step({ kind: 'slow', deadlineMs }, now);
    }
  }

  /** The request waits for another process: another one may start. */
  yieldPlace(flight: Flight): void {
    if (flight.place !== 'running') return;
    this.queue.move(flight, 'slow');
    this.startNext();
  }

  /** Sets the timer to when a request is overdue, may start or is slow, or a trial is due. */
  #setWakeTimer(now: Instant): void {
    let wakeAtMs = trialDueAtMs(this.health.blame) ?? Number.POSITIVE_INFINITY;
    const running = this.queue.lists.running.first;
    if (running) wakeAtMs = Math.min(wakeAtMs, running.startedAtMs + slowAfterMs(this.health));
    const waiting = this.queue.waiting > 0 ? this.queue.longestWaiting : undefined;
    if (waiting) {
      const { nextStartMs } = this.health.pace;
      const startsAtMs = now.monotonicMs < nextStartMs ? nextStartMs : growsAtMs(this.health.room, now.monotonicMs);
      wakeAtMs = Math.min(wakeAtMs, startsAtMs);
      const circuit = circuitOf(this.health.blame);
      if (circuit && !this.#isRefusing) wakeAtMs = Math.min(wakeAtMs, waitsUntilMs(circuit, waiting.queuedAtMs) + 1);
      wakeAtMs = Math.min(wakeAtMs, waiting.queuedAtMs + this.#settings.maxQueueMs);
    }
    const isNever = wakeAtMs === Number.POSITIVE_INFINITY;
    // A timer that fires too early wakes the scheduler once for nothing, which costs less than restarting it each time.
    if (wakeAtMs === this.#wakeAtMs || (wakeAtMs > this.#wakeAtMs && !isNever)) return;
    if (this.#wakeTimer) stopTimer(this.#wakeTimer);
    // Rounded up: with fractions, rounding errors would make the timer fire too early again and again.
    const inMs = Math.max(0, Math.ceil(wakeAtMs - now.monotonicMs));
    this.#wakeTimer = isNever ? undefined : this.#time.startTimer(() => this.#wake(), inMs);
    this.#wakeAtMs = wakeAtMs;
  }

  #wake(): void {
    const now = this.#time.now();
    const lateMs = now.monotonicMs - this.#wakeAtMs;
    this.#wakeTimer = undefined;
    this.#wakeAtMs = Number.POSITIVE_INFINITY;
    if (stoodStill(lateMs, 0)) this.queue.postpone(lateMs, now.monotonicMs);
    // What is left after one slice is overdue too, so the next timer fires at once.
    for (let left = SLICE; left > 0; left--) {
      const flight = this.queue.longestWaiting;
      if (!flight || flight.queuedAtMs + this.#settings.maxQueueMs > now.monotonicMs) break;
      this.#refuse(flight, this.#overdue(flight, now));
    }
    this.startNext(now);
  }

  #overdue(flight: Flight, now: Instant): OwnerTokenError {
    const { maxQueueMs } = this.#settings;
    const isOverload = paceStat(this.health.pace, now.monotonicMs)?.reason === 'overload';
    const limit = isOverload
      ? 'the service answers with 429 or 503;'
      : 'raise concurrency, requestsPerSecond or maxQueueMs, or';
    const message = `the token request was queued for ${maxQueueMs} ms (maxQueueMs): ${limit} make fewer calls`;
    return queueError(flight, 'queue_timeout', message, now);
  }

  step(event: FailedEvent<string>, now: Instant): FailureStep;
  step(event: HealthEvent<string>, now: Instant): Step;
  step(event: HealthEvent<string>, now: Instant): Step {
    const step = reduce(this.health, event, now.monotonicMs);
    if (step.askCanary && !this.isClosed) this.#askCanary(now);
    return step;
  }

  /** Refreshes the token of an owner that succeeded recently, to see whether the service works. */
  #askCanary(now: Instant): void {
    const { canaries, state } = this.health.blame;
    const asked = askedCanaries(this.health.blame);
    // Drawn in any case, so that a seeded simulation does not depend on which canaries are free.
    const jitter = this.#settings.random();
    for (const owner of canaries) {
      const slot = asked.includes(owner) ? undefined : this.#owners.peek(owner);
      if (!slot || slot.history.failure || this.#owners.flightOf(owner)) continue;
      this.canaries++;
      this.#beginCanary(slot, now).trialOf = state;
      return void this.step({ kind: 'trialSent', owner }, now);
    }
    this.step({ kind: 'noCanaryFree', jitter }, now);
  }

  /** Whether it is a canary or another trial whose outcome is awaited. */
  isTrial({ trialOf }: Flight): boolean {
    return trialOf === this.health.blame.state;
  }

  /** As {@link Scheduler.isTrial}, but only once for each request, because its outcome counts once. */
  endTrial(flight: Flight): boolean {
    const isTrial = this.isTrial(flight);
    flight.trialOf = undefined;
    return isTrial;
  }

  /** An outcome has changed what is known: reports a circuit that opened or closed, and starts what may start now. */
  react(now: Instant, message?: ReportedRequest): void {
    if (circuitOf(this.health.blame) !== this.#reported) this.#reportCircuit(now, message);
    this.startNext(now);
  }

  #reportCircuit(now: Instant, message: ReportedRequest | undefined): void {
    const circuit = circuitOf(this.health.blame);
    const reported = this.#reported;
    this.#reported = circuit;
    if (reported && reported.scope !== circuit?.scope) this.#diagnostics.lifted(reported.scope);
    if (!circuit) return;
    const { scope, error } = circuit;
    this.#diagnostics.paused(scope, circuit, withOutcome(error, scope, circuit, now), message);
  }

  /** While the circuit is open: sends the trial that is due, and refuses the queued requests that would wait too long for it. */
  #attendCircuit(now: Instant): void {
    const dueAtMs = trialDueAtMs(this.health.blame);
    const isAwaited = this.queue.waiting > this.queue.lists.canary.length;
    if (dueAtMs !== undefined && dueAtMs <= now.monotonicMs) this.step({ kind: 'due', isAwaited }, now);
    const circuit = circuitOf(this.health.blame);
    if (circuit && !this.#isRefusing) this.#refuseQueued(circuit, now);
  }

  /** Refuses the queued requests that the circuit stops, in slices, because each refusal creates an error. */
  #refuseQueued(circuit: Circuit, now: Instant): void {
    const startsAtMs = Math.max(now.monotonicMs, circuit.retryAtMonotonicMs);
    let left = SLICE;
    for (const lane of LANES.slice(1)) {
      for (let flight = this.queue.lists[lane].first; flight; flight = this.queue.lists[lane].first) {
        if (startsAtMs <= waitsUntilMs(circuit, flight.queuedAtMs)) break;
        if (left-- === 0) {
          this.#isRefusing = true;
          void nextTurn().then(() => {
            this.#isRefusing = false;
            this.startNext();
          });
          return;
        }
        this.#diagnostics.refused(circuit.scope, flight.callers.count);
        this.#refuse(flight, refusal(circuit, flight.slot.owner, now));
      }
    }
  }

  /** Closes the circuit without a trial. */
  liftCircuit(): void {
    const now = this.#time.now();
    this.step({ kind: 'resumed' }, now);
    this.react(now);
  }

  /** Starts nothing until {@link Scheduler.unblock} has been called as often. */
  block(): void {
    this.#blocks++;
  }

  unblock(): void {
    this.#blocks--;
    this.startNext();
  }

  /** Starts no further request. Returns all requests; see {@link RequestQueue.drain}. */
  close(): Generator<Flight> {
    this.isClosed = true;
    stopTimer(this.#wakeTimer);
    return this.queue.drain();
  }
}

/** The error of a request that failed in the queue. */
function queueError({ slot }: Flight, code: OwnerTokenErrorCode, message: string, now: Instant): OwnerTokenError {
  return new OwnerTokenError(code, message, { owner: slot.owner, failedAtMs: now.wallMs });
}
