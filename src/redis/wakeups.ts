/**
 * How a follower learns that the leader's request has ended. With a subscription: by a message on one channel for all
 * records, and for safety when the lease ends. Without one: by polling. Each wait has jitter, so that followers do not read
 * in step.
 */

import { type Clock, startTimer } from '../clock.ts';
import type { RedisPort } from './ports.ts';

/** The wait between two polls doubles from the first to the last. */
const POLL_MS = { first: 15, last: 150 } as const;

/** After a lease has ended without a message, its followers read the record spread over this time. */
const AFTER_LEASE_MS = 40;

const SUBSCRIBE_AGAIN_MS = 30_000;

export interface WakeupsOptions {
  port: RedisPort;
  channel: string;
  clock: Clock;
  random: () => number;
  /** Each message: the name of a record that has changed. */
  onMessage?: (name: string) => void;
  onSubscribeFailed: () => void;
}

type Subscription =
  | { readonly kind: 'none'; readonly againAtMs: number }
  | { readonly kind: 'pending' }
  | { readonly kind: 'subscribed'; readonly sinceMs: number; readonly stop: () => Promise<void> }
  | { readonly kind: 'closed' };

export class Wakeups {
  readonly #options: WakeupsOptions;
  readonly #watches = new Map<string, Set<Watch>>();
  #subscription: Subscription = { kind: 'none', againAtMs: Number.NEGATIVE_INFINITY };

  constructor(options: WakeupsOptions) {
    this.#options = options;
  }

  get isSubscribed(): boolean {
    return this.#subscription.kind === 'subscribed';
  }

  /** Whether a message sent since that monotonic time arrives. */
  hears(sinceMs: number): boolean {
    return this.#subscription.kind === 'subscribed' && this.#subscription.sinceMs <= sinceMs;
  }

  /** Begins to listen for a record. Call it before the record is read, so that no message is missed in between. */
  watch(name: string): Watch {
    void this.#subscribe();
    const watches = this.#watches.get(name) ?? new Set();
    const watch = new Watch(this.#options, this, () => {
      watches.delete(watch);
      if (watches.size === 0) this.#watches.delete(name);
    });
    this.#watches.set(name, watches.add(watch));
    return watch;
  }

  async close(): Promise<void> {
    const before = this.#subscription;
    this.#subscription = { kind: 'closed' };
    // The connection is the user's, and may be gone already.
    if (before.kind === 'subscribed') await before.stop().catch(() => {});
  }

  async #subscribe(): Promise<void> {
    const { port, channel, clock, onMessage, onSubscribeFailed } = this.#options;
    if (this.#subscription.kind !== 'none' || !port.subscribe) return;
    if (clock.monotonic() < this.#subscription.againAtMs) return;
    this.#subscription = { kind: 'pending' };
    const wake = (name: string) => {
      for (const watch of this.#watches.get(name) ?? []) watch.wake();
      onMessage?.(name);
    };
    try {
      const stop = await port.subscribe(channel, wake);
      // Closed meanwhile.
      if (this.#subscription.kind === 'pending') {
        this.#subscription = { kind: 'subscribed', sinceMs: clock.monotonic(), stop };
      } else await stop().catch(() => {});
    } catch {
      if (this.#subscription.kind !== 'pending') return;
      this.#subscription = { kind: 'none', againAtMs: clock.monotonic() + SUBSCRIBE_AGAIN_MS };
      onSubscribeFailed();
    }
  }
}

/** One call's wait for one record. */
export class Watch {
  readonly stop: () => void;
  readonly #options: Pick<WakeupsOptions, 'clock' | 'random'>;
  readonly #wakeups: Pick<Wakeups, 'hears'>;
  #polls = 0;
  #woken = false;
  #onWake: () => void = () => {};

  constructor(options: Pick<WakeupsOptions, 'clock' | 'random'>, wakeups: Pick<Wakeups, 'hears'>, stop: () => void) {
    this.#options = options;
    this.#wakeups = wakeups;
    this.stop = stop;
  }

  wake(): void {
    this.#woken = true;
    this.#onWake();
  }

  /**
   * Settles when it is time to read the record again: after a message, at the end of the lease, at the next poll, or when
   * the signal is aborted.
   *
   * @param readAtMs the monotonic time at which the record was last read. Only a message since then needs to be heard.
   */
  async next(leaseMs: number, readAtMs: number, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options;
    const afterLeaseMs = leaseMs + random() * AFTER_LEASE_MS;
    const ms = this.#wakeups.hears(readAtMs) ? afterLeaseMs : Math.min(afterLeaseMs, this.#pollMs());
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

  #pollMs(): number {
    const { first, last } = POLL_MS;
    return Math.min(first * 2 ** Math.min(this.#polls++, 10), last) * (0.5 + this.#options.random() / 2);
  }
}
