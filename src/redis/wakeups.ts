/**
 * How a follower learns that the leader's request has ended: by a message, if there is a subscription, and by polling in
 * any case, with jitter so that followers do not read in step.
 *
 * A port subscribes in one of two modes. `c`, common: one channel for all records, subscribed to once; it also carries the
 * rejections. `s`, sharded: a channel for each record, on the cluster's node that holds it, from the first follower in this
 * process that waits until the last has left. A script publishes on the channels that the waiting followers listen to.
 */

import { type Clock, startLimit, within } from '../clock.ts';
import type { SharingDiagnostics } from './diagnostics.ts';
import type { RedisPort } from './ports.ts';
import type { Names } from './sealing.ts';

/**
 * How long a follower waits before it reads the record again. With a subscription it waits this long only if a message is
 * lost or Redis has become unavailable: this wait and the deadline of the read add up to a second.
 */
const POLL_MS = { unsubscribed: 150, subscribed: 750 } as const;

const SUBSCRIBE_AGAIN_MS = 30_000;

export interface WakeupsOptions {
  readonly port: RedisPort;
  readonly names: Names;
  readonly clock: Clock;
  readonly random: () => number;
  readonly diagnostics: SharingDiagnostics;
  /** How long a call waits for the subscription. */
  readonly deadlineMs: number;
  /** Gets each message for which no call waits. */
  onOther(message: string): void;
}

/** One call's waits for one record. */
export interface Watch {
  /** Settles when no message can be missed any more, or when that takes too long. */
  readonly ready: Promise<unknown> | undefined;
  /** Settles after `ms`, after a message since the last wait, or when the call is aborted. */
  sleep(ms: number): Promise<void>;
  /**
   * Sleeps until it is time to read the record again, at most `ms`.
   *
   * @param readAtMs the monotonic time at which the record was last read.
   */
  next(ms: number, readAtMs: number): Promise<void>;
  /** Ends the sleep, or the next one. */
  wake(): void;
  /** The call no longer waits: ends its sleep, too. */
  stop(): void;
}

interface Subscription {
  /** Monotonic; `Infinity` until it is confirmed. */
  sinceMs: number;
  /** Resolves to a function that ends it. */
  readonly begun: Promise<() => Promise<void>>;
  /** Settles when that has taken too long. Undefined once it is confirmed. */
  ready: Promise<unknown> | undefined;
}

export class Wakeups {
  /** How this replica listens: on the common channel, on the record's own, or not at all. */
  readonly mode: 'c' | 's' | '';
  readonly #options: WakeupsOptions;
  /** What wakes the calls that wait, by the name of the record. */
  readonly #wakes = new Map<string, Set<() => void>>();
  /** By channel. */
  readonly #subscriptions = new Map<string, Subscription>();
  #subscribeAgainAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: WakeupsOptions) {
    const { subscribe, subscribeSharded } = options.port;
    this.#options = options;
    this.mode = subscribeSharded ? 's' : subscribe ? 'c' : '';
  }

  /** Begins to listen for a record. Call it before the record is read, so that no message is missed in between. */
  watch(name: string, signal: AbortSignal): Watch {
    const { clock, names } = this.#options;
    const channel = this.mode === 's' ? name : names.channel;
    // Subscribing to a record's own channel is worth its cost only once the call waits.
    if (this.mode === 'c') this.#subscribe(channel);
    let isWoken = false;
    let endSleep = () => {};
    const wake = () => {
      isWoken = true;
      endSleep();
    };
    const sleep = async (ms: number) => {
      const stopLimit = startLimit(clock, wake, ms);
      await new Promise<void>((resolve) => {
        endSleep = resolve;
        if (isWoken) resolve();
      });
      stopLimit();
      isWoken = false;
    };
    signal.addEventListener('abort', wake);
    const wakes = this.#wakes.get(name) ?? new Set();
    this.#wakes.set(name, wakes.add(wake));
    return {
      ready: this.#subscriptions.get(channel)?.ready,
      sleep,
      next: (ms, readAtMs) => sleep(Math.min(ms, this.#pollMs(channel, readAtMs))),
      wake,
      stop: () => {
        wake();
        signal.removeEventListener('abort', wake);
        wakes.delete(wake);
        if (wakes.size > 0) return;
        this.#wakes.delete(name);
        if (this.mode === 's') void this.#unsubscribe(channel);
      },
    };
  }

  async close(): Promise<void> {
    this.#subscribeAgainAtMs = Infinity;
    await Promise.all([...this.#subscriptions.keys()].map((channel) => this.#unsubscribe(channel)));
  }

  #pollMs(channel: string, readAtMs: number): number {
    this.#subscribe(channel);
    // Only a message since the last read needs to be heard.
    const isSubscribed = (this.#subscriptions.get(channel)?.sinceMs ?? Infinity) <= readAtMs;
    return (isSubscribed ? POLL_MS.subscribed : POLL_MS.unsubscribed) * (0.5 + this.#options.random() / 2);
  }

  /** Unless that was done already. */
  #subscribe(channel: string): void {
    const { port, clock, deadlineMs, diagnostics } = this.#options;
    const subscribe = port.subscribeSharded ?? port.subscribe;
    if (!subscribe || this.#subscriptions.has(channel) || clock.monotonic() < this.#subscribeAgainAtMs) return;
    const begun = subscribe(channel, (message) => this.#onMessage(message));
    const settled = begun.catch(() => {});
    const ready = within(settled, deadlineMs, clock, deadlineMs);
    const subscription: Subscription = { sinceMs: Infinity, begun, ready };
    this.#subscriptions.set(channel, subscription);
    const confirmed = () => Object.assign(subscription, { sinceMs: clock.monotonic(), ready: undefined });
    const failed = () => {
      if (this.#subscriptions.get(channel) !== subscription) return;
      this.#subscriptions.delete(channel);
      this.#subscribeAgainAtMs = clock.monotonic() + SUBSCRIBE_AGAIN_MS;
      diagnostics.report('subscribe_failed');
    };
    begun.then(confirmed, failed);
  }

  async #unsubscribe(channel: string): Promise<void> {
    const { sinceMs = Infinity, begun } = this.#subscriptions.get(channel) ?? {};
    this.#subscriptions.delete(channel);
    // The connection is the user's, and may be gone already.
    const ended = begun?.then((stop) => stop()).catch(() => {});
    if (sinceMs < Infinity) await ended;
  }

  #onMessage(message: string): void {
    const wakes = this.#wakes.get(message);
    for (const wake of wakes ?? []) wake();
    if (!wakes) this.#options.onOther(message);
  }
}
