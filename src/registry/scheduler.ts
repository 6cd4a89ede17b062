/**
 * Decides when a request starts: which comes next, how many at once, how fast. `lanes.ts` gives the order, and
 * `failures/reducer.ts` what the outcomes so far allow. Every change ends with {@link Scheduler.startNext}.
 */

import { AsyncContext } from '../async-context.ts';
import type { Cancellation } from '../cancellation.ts';
import { type Instant, inMicrotask, nextTurn, type Time } from '../clock.ts';
import type { Diagnostics, ReportedRequest } from '../diagnostics.ts';
import { OwnerTokenError, type OwnerTokenErrorCode } from '../errors.ts';
import type { Circuit } from '../failures/blame.ts';
import type { HealthEvent, Step } from '../failures/reducer.ts';
import { refusal } from '../failures/refusals.ts';
import { Flight } from './flight.ts';
import { LANES, laneOf } from './lanes.ts';
import type { RegistrySettings } from './options.ts';
import type { OwnerTable } from './owner-table.ts';
import { Places } from './places.ts';
import { ServiceHealth } from './service-health.ts';
import type { Slot } from './slot.ts';
import { WakeTimer } from './wake-timer.ts';

/** How many requests are refused in one turn of the event loop. */
export const SLICE = 128;

/** Outside any caller's async context, because a canary is nobody's request. */
const newCanary = new AsyncContext('OwnerTokenCanary').bind(
  (slot: Slot, nowMs: number) => new Flight(slot.accessKey, slot, 'canary', nowMs),
);

export class Scheduler {
  /** How many canaries were sent. */
  canaries = 0;
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #owners: OwnerTable;
  readonly #diagnostics: Diagnostics;
  readonly #send: (flight: Flight) => void;
  readonly #refuse: (flight: Flight, error: OwnerTokenError) => void;
  readonly #places = new Places();
  readonly #health: ServiceHealth;
  /** Wakes when a request is overdue, may start, or is slow, or when a trial is due. */
  readonly #timer: WakeTimer;
  #started = 0;
  #isClosed = false;
  #blocks = 0;
  /** The next slice of refusals is due in the next turn of the event loop. */
  #isRefusing = false;

  /** @param later `send` sends a request that may start; `refuse` fails one that waits. */
  constructor(
    settings: RegistrySettings,
    owners: OwnerTable,
    diagnostics: Diagnostics,
    later: { send(flight: Flight): void; refuse(flight: Flight, error: OwnerTokenError): void },
  ) {
    this.#settings = settings;
    this.#time = settings.time;
    this.#owners = owners;
    this.#diagnostics = diagnostics;
    this.#send = later.send;
    this.#refuse = later.refuse;
    this.#health = new ServiceHealth(settings, diagnostics);
    this.#timer = new WakeTimer(this.#time, () => this.#wake());
  }

  get load(): Pick<Places, 'queued' | 'inFlight' | 'slow'> {
    return this.#places;
  }

  /** The open circuit, and whether its trial is in flight. */
  get circuit(): ServiceHealth['circuit'] {
    return this.#health.circuit;
  }

  /** The circuit that refuses calls now. */
  refusingCircuit(nowMs: number): Circuit | undefined {
    return this.#health.refusingCircuit(nowMs);
  }

  /** Queues the request. If the queue is full, it takes the place of the oldest refresh, or is refused. */
  add(flight: Flight): void {
    const now = this.#time.now();
    if (!this.hasQueueSpace(now)) {
      const displaced = this.#places.lanes.oldest('refresh') ?? flight;
      const message = 'the queue of token requests is full: raise maxQueued or concurrency, or make fewer calls';
      this.#refuse(displaced, errorOf(displaced, 'queue_full', message, now));
      if (displaced === flight) return;
    }
    this.#places.queue(flight, flight.lane);
    this.startNext(now);
  }

  /** Whether the queue takes one more request. A request that may start at once needs no space in it. */
  hasQueueSpace({ monotonicMs }: Instant = this.#time.now()): boolean {
    if (this.#places.lanes.length < this.#settings.maxQueued) return true;
    return this.#hasRoom(monotonicMs) && this.#health.mayStart === true && monotonicMs >= this.#health.nextStartMs;
  }

  #hasRoom(nowMs: number): boolean {
    return this.#places.counted(this.#settings.concurrency) < this.#health.roomAt(nowMs);
  }

  /** A caller now waits for a queued refresh. */
  promote(flight: Flight): void {
    if (flight.lane !== 'refresh' || !this.#places.lanes.has(flight)) return;
    flight.queuedAtMs = this.#time.now().monotonicMs;
    this.#places.queue(flight, laneOf(flight.slot));
  }

  /** Starts as many queued requests as may start now. */
  startNext(now = this.#time.now()): void {
    if (this.#isClosed || this.#blocks > 0) return;
    this.#noticeSlow(now);
    if ((this.#health.trialDueAtMs ?? Number.POSITIVE_INFINITY) <= now.monotonicMs) this.step({ kind: 'due' }, now);
    this.#refuseQueued(now);
    for (let flight = this.#next(now); flight; flight = this.#next(now)) this.#start(flight, now);
    this.#watch(now);
  }

  #next({ monotonicMs }: Instant): Flight | undefined {
    if (!this.#hasRoom(monotonicMs) || monotonicMs < this.#health.nextStartMs) return undefined;
    return this.#places.lanes.next(monotonicMs, !this.#health.mayStart);
  }

  #start(flight: Flight, now: Instant): void {
    if (flight.lane !== 'canary' && this.#health.mayStart === 'trial') {
      flight.trialRound = this.#health.round;
      this.step({ kind: 'asked', owner: flight.accessKey, jitter: 0 }, now);
    }
    if (flight.phase === 'queued') flight.cancelTimer?.();
    this.#places.move(flight, this.#places.running);
    flight.number = ++this.#started;
    flight.startedAtMs = now.monotonicMs;
    this.step({ kind: 'sent' }, now);
    if (flight.phase === 'sent') {
      flight.resume?.();
      return;
    }
    flight.phase = 'starting';
    // Deferred, so that a caller can still leave in the same turn, and a source never runs inside the caller's own call.
    inMicrotask(() => flight.context.runInAsyncScope(this.#send, undefined, flight));
  }

  /** A request that takes far longer than usual frees its permit for another one, and makes its owner a suspect. */
  #noticeSlow(now: Instant): void {
    const { running, slow } = this.#places;
    for (let flight = running.first; flight; flight = running.first) {
      if (flight.startedAtMs + this.#health.slowAfterMs > now.monotonicMs) return;
      this.#places.move(flight, slow);
      const { accessKey: owner, number, startedAtMs } = flight;
      const deadlineMs = startedAtMs + this.#settings.longestRequestMs;
      this.step({ kind: 'slow', owner, number, isTrial: this.isTrial(flight), deadlineMs }, now);
    }
  }

  #watch(now: Instant): void {
    const { lanes, running } = this.#places;
    const waiting = lanes.longestWaiting;
    const overdueAtMs = waiting && waiting.queuedAtMs + this.#settings.maxQueueMs;
    const startAtMs = waiting && this.#health.mayStartAtMs(now.monotonicMs);
    const slowAtMs = running.first && running.first.startedAtMs + this.#health.slowAfterMs;
    this.#timer.set([overdueAtMs, startAtMs, slowAtMs, this.#health.trialDueAtMs], now);
  }

  #wake(): void {
    const now = this.#time.now();
    // What is left after one slice is overdue too, so the next timer fires at once.
    for (let left = SLICE; left > 0; left--) {
      const flight = this.#places.lanes.longestWaiting;
      if (!flight || flight.queuedAtMs + this.#settings.maxQueueMs > now.monotonicMs) break;
      this.#refuse(flight, this.#overdue(flight, now));
    }
    this.startNext(now);
  }

  #overdue(flight: Flight, now: Instant): OwnerTokenError {
    const { maxQueueMs } = this.#settings;
    const message = `the token request waited ${maxQueueMs} ms for its turn (maxQueueMs): raise concurrency, requestsPerSecond or maxQueueMs, or make fewer calls`;
    return errorOf(flight, 'queue_timeout', message, now);
  }

  /** Whether the request holds a permit: it is at the service, and does not wait for another replica. */
  isSent(flight: Flight): boolean {
    return this.#places.isSent(flight);
  }

  /** The source only waits for another process, so another request may start. */
  releasePermit(flight: Flight): void {
    if (!this.isSent(flight)) return;
    this.#places.move(flight, this.#places.released);
    this.startNext();
  }

  /** Queues a sent request for a permit, unless it holds one. Concurrent calls share one wait. */
  async takePermit(flight: Flight): Promise<void> {
    if (this.#places.released.has(flight)) {
      flight.queuedAtMs = this.#time.now().monotonicMs;
      flight.permitWait = new Promise((resolve, reject) => {
        const abort = flight.abort as Cancellation;
        const leave = () => reject(abort.reason);
        abort.addEventListener('abort', leave);
        flight.resume = () => {
          flight.permitWait = undefined;
          abort.removeEventListener('abort', leave);
          resolve();
        };
      });
      this.#places.queue(flight, flight.lane);
      this.startNext();
    }
    await flight.permitWait;
  }

  /** Queues a failed request again after a moment. It keeps its callers. */
  retryLater(flight: Flight, afterMs: number): void {
    flight.phase = 'queued';
    flight.abort = undefined;
    flight.resends++;
    this.#places.move(flight, this.#places.retrying);
    flight.cancelTimer = this.#time.startTimer(() => {
      const now = this.#time.now();
      const leftMs = flight.queuedAtMs + this.#settings.maxQueueMs - now.monotonicMs;
      const giveUp = () => this.#refuse(flight, this.#overdue(flight, this.#time.now()));
      if (leftMs <= 0) return giveUp();
      // Has its own timer, because `longestWaiting` reads only the first of each lane, and this request joins at the end.
      flight.cancelTimer = this.#time.startTimer(giveUp, leftMs);
      this.#places.queue(flight, laneOf(flight.slot));
      this.startNext(now);
    }, afterMs);
  }

  /** The request has settled. */
  remove(flight: Flight): void {
    this.#places.take(flight);
  }

  /** The request was refused while its source waits. It is removed when the source settles. */
  setAside(flight: Flight): void {
    this.#places.move(flight, this.#places.released);
  }

  step(event: HealthEvent<string>, now: Instant): Step<string> {
    const step = this.#health.step(event, now);
    if (step.askCanary && !this.#isClosed) this.#askCanary(now);
    return step;
  }

  /** Refreshes the token of an owner that succeeded recently, to see whether the service works. */
  #askCanary(now: Instant): void {
    const owner = this.#health.nextCanary((accessKey) => this.#isFree(accessKey));
    const slot = owner === undefined ? undefined : this.#owners.peek(owner);
    if (slot) {
      this.canaries++;
      const flight = newCanary(slot, now.monotonicMs);
      flight.trialRound = this.#health.round;
      this.#owners.began(flight);
      this.#places.queue(flight, 'canary');
    }
    this.step({ kind: 'asked', owner, jitter: this.#settings.random() }, now);
  }

  #isFree(accessKey: string): boolean {
    const slot = this.#owners.peek(accessKey);
    return slot !== undefined && !this.#owners.flightOf(accessKey) && !slot.trouble?.failure;
  }

  /** Whether it is a canary or another trial whose outcome is awaited. */
  isTrial({ trialRound }: Flight): boolean {
    return trialRound === this.#health.round;
  }

  /** Reports what an outcome has changed, and starts what may start now. */
  react(now: Instant, message?: ReportedRequest): void {
    this.#health.report(now, message);
    this.startNext(now);
  }

  /** Refuses the queued requests that the circuit stops, in slices, because each refusal creates an error. */
  #refuseQueued(now: Instant): void {
    const circuit = this.refusingCircuit(now.monotonicMs);
    if (!circuit || this.#isRefusing) return;
    const { lanes } = this.#places;
    let left = SLICE;
    for (const name of LANES.slice(1)) {
      for (let flight = lanes.oldest(name); flight; flight = lanes.oldest(name)) {
        if (left-- === 0) {
          this.#refuseNextSlice();
          return;
        }
        this.#diagnostics.refused(circuit.scope, flight.waiting);
        this.#refuse(flight, refusal(circuit, flight.slot.owner, now));
      }
    }
  }

  #refuseNextSlice(): void {
    this.#isRefusing = true;
    void nextTurn().then(() => {
      this.#isRefusing = false;
      this.startNext();
    });
  }

  /** Closes the circuit without a trial. */
  liftCircuit(): void {
    const now = this.#time.now();
    this.step({ kind: 'resumed' }, now);
    this.react(now);
  }

  /** All owners were forgotten. */
  forgetOwners(): void {
    for (const owner of this.#health.owners) this.step({ kind: 'forgotten', owner }, this.#time.now());
  }

  /** Starts nothing until {@link Scheduler.unblock} has been called as often. */
  block(): void {
    this.#blocks++;
  }

  unblock(): void {
    this.#blocks--;
    this.startNext();
  }

  /** Starts nothing any more. Returns all unsettled requests. */
  close(): Flight[] {
    this.#isClosed = true;
    this.#timer.stop();
    return [...this.#places];
  }
}

export function errorOf({ slot }: Flight, code: OwnerTokenErrorCode, message: string, now: Instant): OwnerTokenError {
  return new OwnerTokenError(code, message, { owner: slot.owner, failedAtMs: now.wallMs });
}
