/**
 * Keeps all replicas together within a quota of the service. One record holds the next free send time, by the clock of
 * the Redis server. A replica reserves the next ones in one script, and its calls take them in order.
 *
 * - Send times are `1 / requestsPerSecond` apart, and none is saved up: there is no burst after a quiet period.
 * - A replica reserves at most a tenth of a second's worth, and reserves again only when that is used. So replicas with
 *   more callers do not starve the others, and a reservation is never far ahead.
 * - A send time lapses if its call does not use it within half a second. A call that no longer needs it passes it on.
 * - While Redis is unavailable, each replica spaces its requests by its own share of the quota.
 */

import { type Clock, startTimer } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';

/** How much a replica reserves in one script: this many milliseconds' worth. */
const BATCH_MS = 100;

const SEND_TIME_LAPSES_MS = 500;

/** How many calls of one replica may wait. */
const MAX_WAITING = 10_000;

/** Permission to send one request, until it lapses. */
export interface SendTime {
  readonly lapsesAtMs: number;
}

export interface PacerOptions {
  readonly requestsPerSecond: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** Reserves send times. Returns the milliseconds until the first; undefined while Redis is unavailable. */
  reserve(count: number, intervalMs: number): Promise<number | undefined>;
  /** The number of replicas, this one included. */
  replicas(): number;
}

/** The send times of one reservation: the first, by the monotonic clock, and the interval between them. */
interface Reservation {
  readonly firstAtMs: number;
  readonly intervalMs: number;
  readonly count: number;
}

type Waiting = (sendTime: SendTime) => void;

export class Pacer {
  readonly #options: PacerOptions;
  readonly #intervalMs: number;
  readonly #waiting = new Set<Waiting>();
  #isHandingOut = false;
  /** Ends the wait for the next send time. */
  #stopWaiting = () => {};
  /** The next send time of this replica's own share. */
  #ownNextAtMs: number | undefined;

  constructor(options: PacerOptions) {
    this.#options = options;
    this.#intervalMs = 1_000 / options.requestsPerSecond;
  }

  /**
   * Waits for a send time, in order.
   *
   * @throws `queue_timeout` after `patienceMs`; `queue_full`; the signal's reason.
   */
  take(signal: AbortSignal, patienceMs: number): Promise<SendTime> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      if (this.#waiting.size >= MAX_WAITING) return reject(tooMany('queue_full', 'too many calls wait for it'));
      const stop = () => {
        this.#waiting.delete(served);
        // Nobody needs the reserved send times, and their timer must not keep the process alive.
        if (this.#waiting.size === 0) this.#stopWaiting();
        signal.removeEventListener('abort', leave);
        cancel();
      };
      const leave = () => {
        stop();
        reject(signal.reason);
      };
      const served = (sendTime: SendTime) => {
        stop();
        resolve(sendTime);
      };
      const timeOut = () => {
        stop();
        reject(tooMany('queue_timeout', 'the call waited for it as long as it may (maxWaitMs)'));
      };
      const cancel = startTimer(this.#options.clock, timeOut, Math.max(0, patienceMs));
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.add(served);
      void this.#handOut();
    });
  }

  /** Whether this send time has not lapsed. */
  isUsable({ lapsesAtMs }: SendTime): boolean {
    return this.#options.clock.monotonic() <= lapsesAtMs;
  }

  /** The call no longer needs its send time: gives it to the next one that waits. */
  passOn(sendTime: SendTime): void {
    const [next] = this.#waiting;
    if (this.isUsable(sendTime)) next?.(sendTime);
  }

  async #handOut(): Promise<void> {
    if (this.#isHandingOut) return;
    this.#isHandingOut = true;
    while (this.#waiting.size > 0) {
      const { firstAtMs, intervalMs, count } = await this.#reserve();
      for (let index = 0; index < count && this.#waiting.size > 0; index++) {
        await this.#until(firstAtMs + index * intervalMs);
        this.passOn({ lapsesAtMs: this.#options.clock.monotonic() + SEND_TIME_LAPSES_MS });
      }
    }
    this.#isHandingOut = false;
  }

  async #reserve(): Promise<Reservation> {
    const { clock, random, reserve, replicas } = this.#options;
    const count = Math.max(1, Math.min(this.#waiting.size, Math.floor(BATCH_MS / this.#intervalMs)));
    const waitMs = await reserve(count, this.#intervalMs);
    const nowMs = clock.monotonic();
    if (waitMs !== undefined) {
      this.#ownNextAtMs = undefined;
      return { firstAtMs: nowMs + waitMs, intervalMs: this.#intervalMs, count };
    }
    const intervalMs = this.#intervalMs * replicas();
    // Replicas that lose Redis at the same moment must not all send at once.
    const firstAtMs = Math.max(nowMs, this.#ownNextAtMs ?? nowMs + random() * intervalMs);
    this.#ownNextAtMs = firstAtMs + intervalMs;
    return { firstAtMs, intervalMs, count: 1 };
  }

  async #until(atMs: number): Promise<void> {
    const { clock } = this.#options;
    const leftMs = atMs - clock.monotonic();
    if (leftMs <= 0) return;
    await new Promise<void>((resolve) => {
      const cancel = startTimer(clock, resolve, leftMs);
      this.#stopWaiting = () => {
        cancel();
        resolve();
      };
    });
  }
}

function tooMany(code: 'queue_full' | 'queue_timeout', what: string): OwnerTokenError {
  return new OwnerTokenError(code, `requestsPerSecond leaves no room for this request: ${what}`);
}
