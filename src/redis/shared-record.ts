/**
 * Typed operations on the shared record. They never reject. Without a reply in time they return undefined; `acquire` also
 * returns a promise of the late reply, and `announce` waits for it.
 */

import * as scripts from './record-scripts.ts';
import type { RedisLink, Reply } from './redis-link.ts';
import type { WakeMode } from './wakeups.ts';

/** A sealed token as the record holds it. `nowUs` is the server's time of every reply. */
export interface StoredToken {
  readonly what: 'token' | 'superseded';
  readonly nowUs: number;
  readonly generation: number;
  readonly sealed: string;
}

/** What ACQUIRE replies; see the script. `failure` is sealed, and empty where there is none. */
export type Acquired =
  | StoredToken
  | { readonly what: 'failure'; readonly nowUs: number; readonly remainingMs: number; readonly failure: string }
  | { readonly what: 'wait'; readonly nowUs: number; readonly remainingMs: number }
  | { readonly what: 'free'; readonly nowUs: number; readonly failure: string }
  | { readonly what: 'lead'; readonly nowUs: number; readonly generation: number; readonly failure: string };

/** An acquire's reply. */
export interface AcquireReply {
  /** If it came in time. */
  readonly inTime: Acquired | undefined;
  /** Resolves with a reply that comes later, or with undefined if none will come. */
  readonly late: Promise<Acquired | undefined>;
}

export interface AcquireOptions {
  /** Identifies the call across resends. */
  readonly call: string;
  /** Whether the call takes the lease if nobody holds it; otherwise it only reads. */
  readonly mayLead: boolean;
  /** Whether a call that may not lead yet wants a wake-up if a token arrives first. */
  readonly listens?: boolean;
  /** Only a token of a later generation is wanted. */
  readonly avoid?: number;
  /** Only a token with more life left than this is wanted. */
  readonly leastLifeMs?: number;
  /** The generation of a rejected token, which is dropped for all. */
  readonly rejected?: number;
  /** A stored failure that cannot be decrypted, which is dropped for all. */
  readonly unreadable?: string;
}

export interface SealedToken {
  readonly generation: number;
  readonly sealed: string;
  readonly usableUntilUs: number;
}

export interface SealedFailure {
  readonly sealed: string;
  readonly endsAtUs: number;
}

/** What the release of a lease reports about the failure in the record. */
export type ReleaseOutcome = SealedFailure | 'passed' | 'unknown';

export interface ReplicaCount {
  readonly replicas: number;
  /** Those of them with another naming key. */
  readonly mismatched: number;
}

export class SharedRecord {
  readonly #link: RedisLink;
  readonly #channel: string;
  readonly #mode: WakeMode;
  readonly #leaseMs: number;
  readonly #maxHoldMs: number;

  constructor(link: RedisLink, options: { channel: string; mode: WakeMode; leaseMs: number; maxHoldMs: number }) {
    this.#link = link;
    this.#channel = options.channel;
    this.#mode = options.mode;
    this.#leaseMs = options.leaseMs;
    this.#maxHoldMs = options.maxHoldMs;
  }

  /** Whether Redis is available. */
  get available(): boolean {
    return this.#link.available;
  }

  /** Whether Redis has replied to this replica. */
  get redisHasReplied(): boolean {
    return this.#link.hasReplied;
  }

  /** How long Redis may leave operations unanswered before it counts as unavailable. */
  get maxSilenceMs(): number {
    return this.#link.maxSilenceMs;
  }

  async acquire(name: string, options: AcquireOptions): Promise<AcquireReply> {
    const { call, mayLead, listens, avoid = 0, leastLifeMs = 0, rejected = 0, unreadable = '' } = options;
    const leaseMs = mayLead ? this.#leaseMs : listens ? -1 : 0;
    const args = [
      call,
      leaseMs,
      avoid,
      Math.ceil(leastLifeMs),
      rejected,
      unreadable,
      this.#mode,
      this.#link.serverNowUs ?? 0,
    ];
    const { reply, late } = await this.#link.run(scripts.ACQUIRE, name, args);
    return { inTime: acquired(reply), late: late.then(acquired) };
  }

  /** Gives back the lease of a call that no longer waits for the reply. */
  abandon(name: string, call: string, late: Promise<Acquired | undefined>): void {
    void late.then((reply) => {
      if (reply?.what === 'lead') void this.release(name, call, 'unknown');
    });
  }

  /** False: the lease is another's, or was held for the maximum. */
  async renew(name: string, call: string): Promise<boolean | undefined> {
    const { reply } = await this.#link.run(scripts.RENEW, name, [call, this.#leaseMs, this.#maxHoldMs]);
    return reply && reply[0] === 'held';
  }

  /**
   * Returns the stored token if it is usable and of the same or a later generation.
   *
   * @param leaseless the token was obtained without a lease.
   */
  async publish(name: string, call: string, token: SealedToken, leaseless = false): Promise<StoredToken | undefined> {
    const { generation, sealed, usableUntilUs } = token;
    const args = [
      call,
      this.#channel,
      name,
      generation,
      sealed,
      Math.floor(usableUntilUs),
      leaseless ? 1 : 0,
      this.#mode,
    ];
    const { reply } = await this.#link.run(scripts.PUBLISH, name, args);
    const newer = acquired(reply);
    return newer?.what === 'superseded' ? newer : undefined;
  }

  /** @param all whether to notify every replica of a changed failure, instead of followers alone. */
  async release(name: string, call: string, outcome: ReleaseOutcome, all = false): Promise<void> {
    const args =
      typeof outcome === 'string' ? [outcome, '', 0] : ['failed', outcome.sealed, Math.floor(outcome.endsAtUs)];
    await this.#link.run(scripts.RELEASE, name, [call, this.#channel, name, ...args, all ? 1 : 0, this.#mode]);
  }

  /** Reserves send times for this replica. Returns the milliseconds until the first. */
  async reserve(name: string, count: number, intervalMs: number): Promise<number | undefined> {
    const { reply } = await this.#link.run(scripts.RESERVE, name, [count, Math.ceil(intervalMs * 1000)]);
    const waitUs = Number(reply?.[2]);
    return reply?.[0] === 'reserved' && waitUs >= 0 ? waitUs / 1000 : undefined;
  }

  /** @param onCount called with the count, even if the reply arrives after the deadline. */
  async announce(
    name: string,
    replica: string,
    keyId: string,
    windowMs: number,
    onCount: (count: ReplicaCount) => void,
  ): Promise<void> {
    const { reply, late } = await this.#link.run(scripts.ANNOUNCE, name, [replica, keyId, windowMs]);
    const [what, , replicas, mismatched] = reply ?? (await late) ?? [];
    if (what === 'listed') onCount({ replicas: Number(replicas), mismatched: Number(mismatched) });
  }
}

/** Undefined for a reply without arguments. */
function acquired(reply: Reply | undefined): Acquired | undefined {
  if (!reply) return undefined;
  const [what, now, number, text = ''] = reply;
  const nowUs = Number(now);
  const amount = Number(number);
  if (!(amount >= 0)) return undefined;
  const remainingMs = Math.ceil(amount / 1000);
  switch (what) {
    case 'token':
    case 'superseded':
      return { what, nowUs, generation: amount, sealed: text };
    case 'failure':
      return { what, nowUs, remainingMs, failure: text };
    case 'wait':
      return { what, nowUs, remainingMs };
    case 'free':
      return { what, nowUs, failure: text };
    case 'lead':
      return { what, nowUs, generation: amount, failure: text };
    default:
      return undefined;
  }
}
