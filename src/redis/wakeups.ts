/**
 * How a follower learns that the leader's request has ended: with a subscription by a message, or at the latest when
 * the lease ends; without one by polling. Each wait has jitter, so that followers do not read in step.
 *
 * A port subscribes in one of two modes. `c`, common: one channel for all records, subscribed to once. `s`, sharded: a
 * channel for each record, on the cluster's node that holds it, from the first follower in this process that waits
 * until the last has left. The script publishes on the channels that the waiting followers listen to.
 *
 * If a lease has ended and no message came, either its leader died or the subscription is dead and nothing closed its
 * connection. So the replica subscribes again, which makes a client notice, and its followers poll until a message comes.
 */

import { type Clock, startTimer } from '../clock.ts';
import type { RedisPort } from './ports.ts';

/** The wait between two polls doubles from the first to the last. */
const POLL_MS = { first: 15, last: 150 } as const;

/**
 * The poll interval, before jitter, is at least this share of the time that the last read took. A slow Redis tells a leader
 * of its lease when it tells the followers to wait, so a poll right after that would come before the leader's token.
 */
const POLL_SHARE = 1 / 8;

/** After a lease has ended without a message, its followers read the record spread over this time. */
const AFTER_LEASE_MS = 40;

const SUBSCRIBE_AGAIN_MS = 30_000;

/** How a replica listens: on the common channel, or on the record's own. */
export type WakeMode = 'c' | 's';

export interface WakeupsOptions {
  port: RedisPort;
  /** The common channel. */
  channel: string;
  clock: Clock;
  random: () => number;
  /** Each message: the name of a record that has changed. */
  onMessage?: (name: string) => void;
  onSubscribeFailed: () => void;
}

type Subscription =
  | { readonly kind: 'pending' }
  | { readonly kind: 'subscribed'; readonly sinceMs: number; readonly stop: () => Promise<void> };

export class Wakeups {
  readonly mode: WakeMode;
  readonly #options: WakeupsOptions;
  readonly #watches = new Map<string, Set<Watch>>();
  /** By channel. */
  readonly #subscriptions = new Map<string, Subscription>();
  /** The records whose messages are wanted even while no call waits. */
  readonly #permanent = new Set<string>();
  #subscribeAgainAtMs = Number.NEGATIVE_INFINITY;
  /** A message was missed, and none has come since. */
  #mayBeDead = false;
  #isClosed = false;

  constructor(options: WakeupsOptions) {
    this.#options = options;
    this.mode = options.port.subscribeSharded ? 's' : 'c';
  }

  /** Whether a message about the record would arrive if it were sent now. */
  isSubscribed(name: string): boolean {
    return !this.#mayBeDead && this.#subscriptions.get(this.#channelOf(name))?.kind === 'subscribed';
  }

  /** Whether every message about the record since that monotonic time arrives. */
  isSubscribedSince(name: string, sinceMs: number): boolean {
    const subscription = this.#subscriptions.get(this.#channelOf(name));
    return !this.#mayBeDead && subscription?.kind === 'subscribed' && subscription.sinceMs <= sinceMs;
  }

  /** A call waited for a whole lease and got no message about its end. */
  missed(name: string, sinceMs: number): void {
    if (this.#isClosed || !this.isSubscribedSince(name, sinceMs)) return;
    this.#mayBeDead = true;
    void this.#unsubscribe(this.#channelOf(name));
    void this.subscribe(name);
  }

  /** Listens for a record from now on, whether a call waits or not. */
  listen(name: string): void {
    this.#permanent.add(name);
    void this.subscribe(name);
  }

  /** Begins to listen for a record. Call it before the record is read, so that no message is missed in between. */
  watch(name: string): Watch {
    // Subscribing to a record's own channel is worth its cost only once the call waits.
    if (this.mode === 'c') void this.subscribe(name);
    const watches = this.#watches.get(name) ?? new Set();
    const watch = new Watch(this.#options, this, name, () => {
      watches.delete(watch);
      if (watches.size > 0) return;
      this.#watches.delete(name);
      if (this.mode === 's' && !this.#permanent.has(name)) void this.#unsubscribe(name);
    });
    this.#watches.set(name, watches.add(watch));
    return watch;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#subscriptions.keys()].map((channel) => this.#unsubscribe(channel)));
  }

  /** Subscribes to the record's channel, unless that was done already. */
  async subscribe(name: string): Promise<void> {
    const { port, clock, onSubscribeFailed } = this.#options;
    const channel = this.#channelOf(name);
    const subscribe = port.subscribeSharded ?? port.subscribe;
    if (!subscribe || this.#isClosed || this.#subscriptions.has(channel)) return;
    if (clock.monotonic() < this.#subscribeAgainAtMs) return;
    const pending: Subscription = { kind: 'pending' };
    this.#subscriptions.set(channel, pending);
    try {
      const stop = await subscribe(channel, (message) => this.#wake(message));
      // Unsubscribed in the meantime.
      if (this.#subscriptions.get(channel) !== pending) return void (await stop().catch(() => {}));
      this.#subscriptions.set(channel, { kind: 'subscribed', sinceMs: clock.monotonic(), stop });
    } catch {
      if (this.#subscriptions.get(channel) !== pending) return;
      this.#subscriptions.delete(channel);
      if (clock.monotonic() < this.#subscribeAgainAtMs) return;
      this.#subscribeAgainAtMs = clock.monotonic() + SUBSCRIBE_AGAIN_MS;
      onSubscribeFailed();
    }
  }

  async #unsubscribe(channel: string): Promise<void> {
    const subscription = this.#subscriptions.get(channel);
    this.#subscriptions.delete(channel);
    // The connection is the user's, and may be gone already.
    if (subscription?.kind === 'subscribed') await subscription.stop().catch(() => {});
  }

  #wake(name: string): void {
    this.#mayBeDead = false;
    for (const watch of this.#watches.get(name) ?? []) watch.wake();
    this.#options.onMessage?.(name);
  }

  #channelOf(name: string): string {
    return this.mode === 's' ? name : this.#options.channel;
  }
}

/** One call's wait for one record. */
export class Watch {
  readonly #options: Pick<WakeupsOptions, 'clock' | 'random'>;
  readonly #wakeups: Pick<Wakeups, 'isSubscribedSince' | 'missed' | 'subscribe'>;
  readonly #name: string;
  readonly #leave: () => void;
  #polls = 0;
  #woken = false;
  /** When the record was read before a wait that lasted as long as the lease. */
  #waitedSinceMs: number | undefined;
  #onWake: () => void = () => {};

  constructor(
    options: Pick<WakeupsOptions, 'clock' | 'random'>,
    wakeups: Pick<Wakeups, 'isSubscribedSince' | 'missed' | 'subscribe'>,
    name: string,
    leave: () => void,
  ) {
    this.#options = options;
    this.#wakeups = wakeups;
    this.#name = name;
    this.#leave = leave;
  }

  /** The call waits no more. */
  stop(): void {
    if (this.#waitedSinceMs !== undefined) this.#wakeups.missed(this.#name, this.#waitedSinceMs);
    this.#leave();
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
    const tookMs = clock.monotonic() - readAtMs;
    void this.#wakeups.subscribe(this.#name);
    const afterLeaseMs = leaseMs + random() * AFTER_LEASE_MS;
    const heard = this.#wakeups.isSubscribedSince(this.#name, readAtMs);
    // A leader that renews its lease ends no wait: this one began because it did.
    this.#waitedSinceMs = undefined;
    const lapsed = await this.#wait(heard ? afterLeaseMs : Math.min(afterLeaseMs, this.#pollMs(tookMs)), signal);
    if (heard && lapsed) this.#waitedSinceMs = readAtMs;
  }

  /** Settles after a message, or when the signal is aborted. */
  async woken(signal: AbortSignal): Promise<void> {
    void this.#wakeups.subscribe(this.#name);
    await this.#wait(Infinity, signal);
  }

  /** Returns whether the time passed without a message. */
  async #wait(ms: number, signal: AbortSignal): Promise<boolean> {
    await new Promise<void>((resolve) => {
      if (this.#woken || signal.aborted) return resolve();
      const done = () => {
        cancel();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const cancel = ms === Infinity ? () => {} : startTimer(this.#options.clock, done, ms);
      signal.addEventListener('abort', done, { once: true });
      this.#onWake = done;
    });
    const lapsed = !this.#woken && !signal.aborted;
    this.#onWake = () => {};
    this.#woken = false;
    return lapsed;
  }

  /** @param tookMs how long the last read took. */
  #pollMs(tookMs: number): number {
    const { first, last } = POLL_MS;
    const intervalMs = Math.min(first * 2 ** Math.min(this.#polls++, 10), last);
    return Math.max(intervalMs, tookMs * POLL_SHARE) * (0.5 + this.#options.random() / 2);
  }
}
