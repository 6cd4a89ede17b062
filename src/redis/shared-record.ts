/**
 * The operations on the shared record, as the rest speaks of them: names to keys, and a script's words to types. Each
 * answers `undefined` when Redis is of no help now.
 */

import * as scripts from './record-scripts.ts';
import type { RedisLink, Reply } from './redis-link.ts';

/** A sealed token as the record holds it. `nowUs` is always the server's time of the answer. */
export interface StoredToken {
  readonly what: 'token' | 'superseded';
  readonly nowUs: number;
  readonly generation: number;
  readonly sealed: string;
}

export interface StandingFailure {
  readonly what: 'failure';
  readonly nowUs: number;
  readonly remainingMs: number;
  readonly payload: string;
}

export type Acquired =
  | StoredToken
  | StandingFailure
  | { readonly what: 'wait'; readonly nowUs: number; readonly remainingMs: number }
  | { readonly what: 'lead'; readonly nowUs: number; readonly generation: number };

/** A failure as it is recorded: what others are told, and how long it stands. See the script `fail`. */
export interface RecordedFailure {
  readonly payload: string;
  readonly baseMs: number;
  readonly capMs: number;
}

export interface Entered {
  readonly what: 'open' | 'probe';
  readonly nowUs: number;
}

/** What a request showed of the endpoint; see the script `settle`. */
export interface EndpointSign extends Partial<RecordedFailure> {
  readonly outcome: 'passed' | 'answered' | 'blamed' | 'struck' | 'released';
  readonly scope?: 'client' | 'endpoint';
}

export interface SealedToken {
  readonly generation: number;
  readonly sealed: string;
  readonly usableUntilUs: number;
}

const NOTHING: RecordedFailure = { payload: '', baseMs: 0, capMs: 0 };

export class SharedRecord {
  readonly #link: RedisLink;
  readonly #channel: string;
  readonly #leaseMs: number;
  readonly #maxHoldMs: number;

  constructor(link: RedisLink, options: { channel: string; leaseMs: number; maxHoldMs: number }) {
    this.#link = link;
    this.#channel = options.channel;
    this.#leaseMs = options.leaseMs;
    this.#maxHoldMs = options.maxHoldMs;
  }

  async acquire(name: string, call: string, avoid = 0, leastLifeMs = 0): Promise<Acquired | undefined> {
    const args = [call, this.#leaseMs, avoid, Math.ceil(leastLifeMs)];
    // After the deadline a lease is one that nobody will use: it is given back.
    const onLate = ([what]: Reply) => void (what === 'lead' && this.fail(name, call));
    return acquired(await this.#link.run(scripts.ACQUIRE, name, args, onLate));
  }

  /** False: the lease is another's by now, or was held for too long. */
  async renew(name: string, call: string): Promise<boolean | undefined> {
    const words = await this.#link.run(scripts.RENEW, name, [call, this.#leaseMs, this.#maxHoldMs]);
    return words && words[0] === 'held';
  }

  /** Gives the newer token, where one is stored already. */
  async publish(name: string, call: string, token: SealedToken): Promise<StoredToken | undefined> {
    const answer = acquired(await this.#link.run(scripts.PUBLISH, name, this.#storing(name, call, token)));
    return answer?.what === 'superseded' ? answer : undefined;
  }

  async offer(name: string, call: string, token: SealedToken): Promise<void> {
    await this.#link.run(scripts.OFFER, name, this.#storing(name, call, token));
  }

  /** Without a failure to share the lease is just given back. */
  async fail(name: string, call: string, { payload, baseMs, capMs } = NOTHING): Promise<void> {
    await this.#link.run(scripts.FAIL, name, [call, this.#channel, name, payload, baseMs, capMs]);
  }

  /** @param freshMs a token rejected so soon after it was published counts towards the failure. */
  async reject(name: string, generation: number, freshMs: number, third: RecordedFailure): Promise<void> {
    const args = [generation, Math.floor(freshMs), third.payload, third.baseMs, third.capMs];
    await this.#link.run(scripts.REJECT, name, args);
  }

  /** Of the endpoint's record: whether a request may be made. */
  async enter(name: string, call: string): Promise<StandingFailure | Entered | undefined> {
    const words = await this.#link.run(scripts.ENTER, name, [call, this.#leaseMs]);
    if (words?.[0] === 'open' || words?.[0] === 'probe') return { what: words[0], nowUs: Number(words[1]) };
    const answer = acquired(words);
    return answer?.what === 'failure' ? answer : undefined;
  }

  /**
   * To the endpoint's record: what became of the request that entered at that time. Gives for how much longer a failure
   * of all stands, if it was one.
   */
  async settle(name: string, call: string, enteredUs: number, owner: string, sign: EndpointSign): Promise<number> {
    const { scope = '', payload, baseMs, capMs } = { ...NOTHING, ...sign };
    const args = [call, enteredUs, sign.outcome, scope, owner, payload, baseMs, capMs];
    const words = await this.#link.run(scripts.SETTLE, name, args);
    return Math.ceil(Number(words?.[2] ?? 0) / 1000) || 0;
  }

  #storing(name: string, call: string, token: SealedToken): (string | number)[] {
    return [call, this.#channel, name, token.generation, token.sealed, Math.floor(token.usableUntilUs)];
  }
}

/** The answers that carry more than a word; undefined for any other. */
function acquired(reply: Reply | undefined): Acquired | undefined {
  if (!reply) return undefined;
  const [what, now, number, text = ''] = reply;
  const nowUs = Number(now);
  const amount = Number(number);
  if (!(amount >= 0)) return undefined;
  switch (what) {
    case 'token':
    case 'superseded':
      return { what, nowUs, generation: amount, sealed: text };
    case 'failure':
      return { what, nowUs, remainingMs: Math.ceil(amount / 1000), payload: text };
    case 'wait':
      return { what, nowUs, remainingMs: Math.ceil(amount / 1000) };
    case 'lead':
      return { what, nowUs, generation: amount };
    default:
      return undefined;
  }
}
