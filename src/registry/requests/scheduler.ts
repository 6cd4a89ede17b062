/**
 * Decides when a request starts: which comes next, how many at once, how fast. `queue.ts` gives the order, and
 * `failures/reducer.ts` what the outcomes so far allow; its state is kept here. Every change ends with
 * {@link Scheduler.startNext}.
 */

import { type Instant, nextTurn, SLICE, stoodStill, stopTimer, type Time, type Timer } from '../../clock.ts';
import { OwnerTokenError, type OwnerTokenErrorCode } from '../../errors/owner-token-error.ts';
import { type Circuit, type Doubt, mayStart, PATIENCE_MS, trialDueAtMs, waitsUntilMs } from '../../failures/blame.ts';
import { paceStat, startsAtMs } from '../../failures/limiter.ts';
import {
  type FailedEvent,
  type FailureStep,
  type Health,
  type HealthEvent,
  initialHealth,
  reduce,
  type Step,
  slowAfterMs,
} from '../../failures/reducer.ts';
import { refusal, withOutcome } from '../../failures/refusals.ts';
import type { Diagnostics, ReportedRequest } from '../../reporting/diagnostics.ts';
import { AsyncContext } from '../async-context.ts';
import type { RegistrySettings } from '../options.ts';
import type { OwnerTable } from '../owners/owner-table.ts';
import { Flight, laneOf } from './flight.ts';
import { LANES, REFUSED_LANES, RequestQueue, TRIAL_LANES } from './queue.ts';

/** Outside any caller's async context, because no caller requests a canary. */
const CANARY_CONTEXT: Readonly<AsyncContext> = new AsyncContext('OwnerTokenCanary');

/** Called when a request has left the queue: it may be sent, or is refused, so that no further call may join it. */
type OnLeaveQueue = (flight: Flight, refused?: OwnerTokenError) => void;

export class Scheduler {
  /** Calls that were queued for over a second, and calls that the queue failed. */
  readonly counts = { late: 0, queueFull: 0, queueTimeouts: 0 };
  /** How many canaries were sent. */
  canaries = 0;
  readonly queue = new RequestQueue<Flight>();
  /** What the outcomes so far say about the service. Changed only by {@link Scheduler.step}. */
  readonly health: Health<string>;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #diagnostics: Diagnostics;
  readonly #owners: OwnerTable;
  readonly #onLeaveQueue: OnLeaveQueue;
  /** The circuit that was reported last. */
  #reported: Circuit | undefined;
  /** The timer that wakes the scheduler at {@link Scheduler.#wakeAtMs} or earlier. */
  #wakeAtMs = Number.POSITIVE_INFINITY;
  #wakeTimer: Timer | undefined;
  /** The next slice of refusals is due in the next turn of the event loop. */
  #isRefusing = false;
  isClosed = false;

  constructor(settings: RegistrySettings, owners: OwnerTable, diagnostics: Diagnostics, onLeaveQueue: OnLeaveQueue) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#diagnostics = diagnostics;
    this.#owners = owners;
    this.#onLeaveQueue = onLeaveQueue;
    this.health = initialHealth(settings.pauses, settings.concurrency, settings.requestsPerSecond);
  }

  /**
   * Queues the request. If the queue is full, it takes the place of the oldest refresh, or is refused. A canary needs no space,
   * and starts with the {@link Scheduler.startNext} that ends the event.
   */
  enqueue(flight: Flight, now: Instant): void {
    this.#owners.attach(flight);
    const isCanary = flight.lane === 'canary';
    if (!isCanary && !this.hasQueueSpace(now)) {
      const displaced = this.queue.lists.refresh.first ?? flight;
      const message = 'the queue of token requests is full: raise maxQueued or concurrency, or make fewer calls';
      this.#refuse(displaced, queueError(displaced, 'queue_full', message, now));
      if (displaced === flight) return;
    }
    this.queue.move(flight, flight.lane);
    if (!isCanary) this.startNext(now);
  }

  /** Queues a failed request again after a moment. It keeps its callers. */
  enqueueAfter(flight: Flight, afterMs: number): void {
    this.queue.move(flight, 'retrying');
    flight.retryTimer = this.#time.startTimer(() => {
      const now = this.#time.now();
      const leftMs = flight.queuedAtMs + this.#settings.maxQueueMs - now.monotonicMs;
      const giveUp = () => this.#refuse(flight, this.#overdue(flight, this.#time.now()));
      if (leftMs <= 0) return giveUp();
      // Has its own timer, because `longestWaiting()` reads only the first of each lane, and this request joins at the end.
      flight.retryTimer = this.#time.startTimer(giveUp, leftMs);
      this.queue.enqueue(flight, laneOf(flight.slot));
      this.startNext(now);
    }, afterMs);
  }

  /** The request leaves the queue with an error. @param cause what is kept of it, where many requests have the same. */
  #refuse(flight: Flight, error: OwnerTokenError, cause = error): void {
    if (this.remove(flight) && flight.waiting > 0) this.#owners.noteUnserved(flight.slot, this.#time.now(), cause);
    if (error.code === 'queue_full') this.counts.queueFull += flight.waiting;
    if (error.code === 'queue_timeout') this.counts.queueTimeouts += flight.waiting;
    this.#onLeaveQueue(flight, error);
  }

  /** Takes a request that has ended, or is dropped, out of the queue. Returns whether callers could join it until now. */
  remove(flight: Flight): boolean {
    flight.stopTimers();
    this.queue.move(flight, undefined);
    return this.#owners.detach(flight);
  }

  /** Whether the queue takes one more request. A request that may start at once needs no space in it. */
  hasQueueSpace({ monotonicMs }: Instant): boolean {
    if (this.queue.waiting < this.#settings.maxQueued) return true;
    return this.startsAtMs(monotonicMs) <= monotonicMs && mayStart(this.health.blame) === true;
  }

  /** When the limiter allows one more request to start; infinite until one of those that run has ended. */
  startsAtMs(nowMs: number): number {
    const { running, slow } = this.queue.lists;
    // Slow requests beyond `concurrency` count too.
    const counted = running.length + Math.max(0, slow.length - this.#settings.concurrency);
    return startsAtMs(this.health.limiter, counted, nowMs);
  }

  /** A caller now waits for a queued refresh. */
  promote(flight: Flight, now: Instant): void {
    if (flight.place !== 'refresh') return;
    flight.queuedAtMs = now.monotonicMs;
    this.queue.enqueue(flight, laneOf(flight.slot));
  }

  /**
   * Reports a circuit that opened or closed, and starts as many queued requests as may start now.
   *
   * @param message the request whose outcome has changed what is known.
   */
  startNext(now: Instant = this.#time.now(), message?: ReportedRequest): void {
    if (!this.isClosed) this.#noticeSlow(now);
    if (this.circuit !== this.#reported) this.#reportCircuit(now, message);
    // A logger may have closed the registry.
    if (this.isClosed) return;
    if (this.#reported) this.#attendCircuit(now);
    while (this.queue.waiting > 0) {
      const atMs = this.startsAtMs(now.monotonicMs);
      if (atMs === Number.POSITIVE_INFINITY) break;
      const mayNext = mayStart(this.health.blame);
      // No trial waits for the rate limit.
      const mayAny = mayNext === 'trial' || (mayNext && atMs <= now.monotonicMs);
      const flight = this.queue.startNext(now.monotonicMs, !mayAny, mayNext === 'trial' ? TRIAL_LANES : LANES);
      if (!flight) break;
      if (mayNext === 'trial' && flight.lane !== 'canary') {
        flight.trialOf = this.health.blame.doubt;
        this.step({ kind: 'trialSent', owner: flight.accessKey }, now);
      }
      flight.stopTimers();
      this.step({ kind: 'sent' }, now);
      if (now.monotonicMs - flight.queuedAtMs > PATIENCE_MS) this.counts.late += flight.waiting;
      this.#onLeaveQueue(flight);
    }
    this.#setWakeTimer(now);
  }

  /** A request that takes far longer than usual gives its place to another one. */
  #noticeSlow(now: Instant): void {
    for (let flight = this.queue.lists.running.first; flight; flight = this.queue.lists.running.first) {
      if (flight.startedAtMs + slowAfterMs(this.health) > now.monotonicMs) return;
      this.queue.move(flight, 'slow');
      // Its outcome is then that of any request.
      if (this.endTrial(flight)) this.step({ kind: 'slow', jitter: this.#settings.random() }, now);
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
    const waiting = this.queue.waiting > 0 ? this.queue.longestWaiting() : undefined;
    if (waiting) {
      const startsAtMs = this.startsAtMs(now.monotonicMs);
      if (startsAtMs > now.monotonicMs) wakeAtMs = Math.min(wakeAtMs, startsAtMs);
      const circuit = this.#isRefusing ? undefined : this.circuit;
      const refused = circuit && this.queue.longestWaiting(REFUSED_LANES);
      if (refused) wakeAtMs = Math.min(wakeAtMs, waitsUntilMs(circuit, refused.queuedAtMs) + 1);
      wakeAtMs = Math.min(wakeAtMs, waiting.queuedAtMs + this.#settings.maxQueueMs);
    }
    // Never in the past: the handlers of earlier slices would add up to a standstill.
    wakeAtMs = Math.max(wakeAtMs, now.monotonicMs);
    const isNever = wakeAtMs === Number.POSITIVE_INFINITY;
    // A timer that fires too early wakes the scheduler once for nothing, which costs less than restarting it each time.
    if (wakeAtMs === this.#wakeAtMs || (wakeAtMs > this.#wakeAtMs && !isNever)) return;
    if (this.#wakeTimer) stopTimer(this.#wakeTimer);
    // Rounded up: with fractions, rounding errors would make the timer fire too early again and again.
    const inMs = Math.ceil(wakeAtMs - now.monotonicMs);
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
      const flight = this.queue.longestWaiting();
      if (!flight || flight.queuedAtMs + this.#settings.maxQueueMs > now.monotonicMs) break;
      this.#refuse(flight, this.#overdue(flight, now));
    }
    this.startNext(now);
  }

  #overdue(flight: Flight, now: Instant): OwnerTokenError {
    const { maxQueueMs } = this.#settings;
    const isOverload = paceStat(this.health.limiter, now.monotonicMs)?.reason === 'overload';
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
    const doubt = this.health.blame.doubt as Doubt<string>;
    // Drawn in any case, so that a seeded simulation does not depend on which canaries are free.
    const jitter = this.#settings.random();
    const canary = this.#beginCanary(doubt.asked, now);
    if (!canary) return void this.step({ kind: 'noCanaryFree', jitter }, now);
    this.canaries++;
    canary.trialOf = doubt;
    this.step({ kind: 'trialSent', owner: canary.accessKey }, now);
  }

  #beginCanary(asked: readonly string[], now: Instant): Flight | undefined {
    for (const owner of this.health.blame.canaries) {
      const slot = asked.includes(owner) ? undefined : this.#owners.peek(owner);
      if (!slot || slot.history.failure || this.#owners.flightOf(owner)) continue;
      const flight = CANARY_CONTEXT.runInAsyncScope(() => new Flight(slot, 'canary', now.monotonicMs));
      this.enqueue(flight, now);
      return flight;
    }
    return undefined;
  }

  /** The open circuit, whether or not its pause is over. */
  get circuit(): Circuit | undefined {
    return this.health.blame.doubt?.circuit;
  }

  /** Whether it is a canary or another trial whose outcome is awaited. */
  isTrial({ trialOf }: Flight): boolean {
    return trialOf !== undefined && trialOf === this.health.blame.doubt;
  }

  /** As {@link Scheduler.isTrial}, but only once for each request, because its outcome counts once. */
  endTrial(flight: Flight): boolean {
    const isTrial = this.isTrial(flight);
    flight.trialOf = undefined;
    return isTrial;
  }

  #reportCircuit(now: Instant, message: ReportedRequest | undefined): void {
    const circuit = this.circuit;
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
    if (dueAtMs !== undefined && dueAtMs <= now.monotonicMs)
      this.step({ kind: 'due', isAwaited: this.queue.lists.new.length > 0 }, now);
    const circuit = this.circuit;
    if (circuit && !this.#isRefusing) this.#refuseQueued(circuit, now);
  }

  /** Refuses the queued requests that would wait too long for the circuit, in slices, because each refusal creates an error. */
  #refuseQueued(circuit: Circuit, now: Instant): void {
    const startsAtMs = Math.max(now.monotonicMs, circuit.retryAtMonotonicMs);
    let left = SLICE;
    for (const lane of REFUSED_LANES) {
      for (let flight = this.queue.lists[lane].first; flight; flight = this.queue.lists[lane].first) {
        if (startsAtMs <= waitsUntilMs(circuit, flight.queuedAtMs)) break;
        if (left-- === 0) {
          this.#isRefusing = true;
          return void nextTurn().then(() => {
            this.#isRefusing = false;
            this.startNext();
          });
        }
        this.#diagnostics.refused(circuit.scope, flight.waiting);
        this.#refuse(flight, refusal(circuit, flight.slot.owner, now), circuit.error);
      }
    }
  }

  /** Closes the circuit without a trial. */
  liftCircuit(): void {
    const now = this.#time.now();
    this.step({ kind: 'resumed' }, now);
    this.startNext(now);
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
