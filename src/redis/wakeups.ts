/**
 * How a replica that waits for another's request learns that it is over. With a connection for subscriptions: at once,
 * by one channel for all records, and by looking again from time to time, since messages may get lost. Without: by
 * looking again, sooner. Each wait is drawn, so that waiters do not look in step.
 */

import { type Clock, startTimer } from '../clock.ts';
import type { RedisPort } from './ports.ts';

/** How long to wait before looking again, doubling from the first to the last. */
const LISTENING_MS = { first: 100, last: 500 } as const;
const LOOKING_MS = { first: 15, last: 150 } as const;

/** A lease may lapse unannounced; then those who wait for it do not all come in the same millisecond. */
const AFTER_LAPSE_MS = 40;

const SUBSCRIBE_AGAIN_MS = 30_000;

export interface WakeupsOptions {
  port: RedisPort;
  channel: string;
  clock: Clock;
  random: () => number;
  /** Subscribing failed: waiters look again instead. */
  onSubscribeFailed: () => void;
}

export class Wakeups {
  readonly #options: WakeupsOptions;
  readonly #watches = new Map<string, Set<Watch>>();
  /** Undefined: not asked for, or to be asked for again. */
  #subscription: Promise<(() => Promise<void>) | undefined> | undefined;
  #listening = false;
  #againAtMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: WakeupsOptions) {
    this.#options = options;
  }

  /** Begins to listen for this record; before the record is asked, so that nothing is missed in between. */
  watch(name: string): Watch {
    this.#subscribe();
    const watches = this.#watches.get(name) ?? new Set();
    const watch = new Watch(this.#options, this.#listening, () => {
      watches.delete(watch);
      if (watches.size === 0) this.#watches.delete(name);
    });
    this.#watches.set(name, watches.add(watch));
    return watch;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const stop = this.#listening ? await this.#subscription : undefined;
    // The connection is the user's, and may be gone already.
    await stop?.().catch(() => {});
  }

  #subscribe(): void {
    const { port, channel, clock, onSubscribeFailed } = this.#options;
    if (this.#subscription || this.#closed || !port.subscribe || clock.monotonic() < this.#againAtMs) return;
    const wake = (name: string) => {
      for (const watch of this.#watches.get(name) ?? []) watch.wake();
    };
    const asked = (async () => port.subscribe?.(channel, wake))();
    this.#subscription = asked.then(
      (stop) => {
        this.#listening = true;
        return stop;
      },
      () => {
        this.#subscription = undefined;
        this.#againAtMs = clock.monotonic() + SUBSCRIBE_AGAIN_MS;
        onSubscribeFailed();
        return undefined;
      },
    );
  }
}

/** One caller's wait for one record. */
export class Watch {
  readonly stop: () => void;
  readonly #options: Pick<WakeupsOptions, 'clock' | 'random'>;
  readonly #range: { readonly first: number; readonly last: number };
  #looks = 0;
  #woken = false;
  #onWake: () => void = () => {};

  constructor(options: WakeupsOptions, listening: boolean, stop: () => void) {
    this.#options = options;
    this.#range = listening ? LISTENING_MS : LOOKING_MS;
    this.stop = stop;
  }

  wake(): void {
    this.#woken = true;
    this.#onWake();
  }

  /** Settles when it is time to look again: woken, the lease over, the next look due, or the signal aborted. */
  async next(leaseMs: number, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options;
    const { first, last } = this.#range;
    const lookMs = Math.min(first * 2 ** Math.min(this.#looks++, 10), last) * (0.5 + random() / 2);
    const ms = Math.min(lookMs, leaseMs + random() * AFTER_LAPSE_MS);
    await new Promise<void>((resolve) => {
      if (this.#woken || signal.aborted) return resolve();
      const done = () => {
        cancel();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const cancel = startTimer(clock, done, ms);
      signal.addEventListener('abort', done, { once: true });
      this.#onWake = done;
    });
    this.#onWake = () => {};
    this.#woken = false;
  }
}
