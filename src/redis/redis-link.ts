/**
 * The only way to Redis: each operation has its own deadline and passes the circuit breaker. Clients queue without limit
 * while Redis is unavailable, and none of them times out a hung server. So an operation returns at its deadline at the
 * latest. Callers may still wait for the late reply.
 */

import { type Clock, startTimer } from '../clock.ts';
import { type BreakerChange, MAX_FIRST_SILENCE_MS, MAX_SILENCE_MS, RedisCircuitBreaker } from './circuit-breaker.ts';
import type { RedisPort } from './ports.ts';
import type { RecordScript } from './record-scripts.ts';

/**
 * Why Redis is unavailable. `timeout`: no reply to any operation for 8 s (18 s while the replica has not had a reply yet).
 * `connection`: no connection, or a broken one. `read_only`: a replica or a server that accepts no writes. `full`: out of
 * memory. `denied`: missing permissions or credentials. `refused`: any other error of the server. `protocol_error`: a reply
 * that none of the scripts returns.
 *
 * @example
 * ```ts
 * const needsAPerson: RedisTrouble[] = ['denied', 'full'];
 * ```
 */
export type RedisTrouble = 'timeout' | 'connection' | 'read_only' | 'full' | 'denied' | 'refused' | 'protocol_error';

export interface RedisLinkOptions {
  port: RedisPort;
  deadlineMs: number;
  clock: Clock;
  random: () => number;
  diagnostics: { suspended(trouble: RedisTrouble): void; resumed(): void };
}

/** What became of an operation. */
export interface Ran {
  /** The reply, if it came before the deadline. */
  readonly reply?: Reply;
  /** Resolves with a reply that comes after the deadline, or with undefined if none will come. Never rejects. */
  readonly late: Promise<Reply | undefined>;
}

/** A script's reply: a word, the server's time in microseconds, and the word's arguments. */
export type Reply = readonly [what: string, nowUs: string, ...rest: string[]];

export class RedisLink {
  readonly #options: RedisLinkOptions;
  readonly #breaker: RedisCircuitBreaker;
  /** Settles with the trial while the breaker is half-open. */
  #trial: Promise<unknown> = Promise.resolve();
  readonly #timeline = new ServerTimeline();
  readonly #pending = new Set<Promise<unknown>>();
  /** The monotonic time of the first reply. */
  #firstReplyAtMs = Infinity;

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    this.#breaker = new RedisCircuitBreaker(options.random);
  }

  /** Whether operations are sent now. */
  get available(): boolean {
    return this.#breaker.isClosed;
  }

  /** Whether Redis has replied to this replica. */
  get hasReplied(): boolean {
    return this.#firstReplyAtMs !== Infinity;
  }

  /** How long Redis may leave operations unanswered before it counts as unavailable. */
  get maxSilenceMs(): number {
    if (this.hasReplied || this.#options.port.hasFailedToConnect?.()) return MAX_SILENCE_MS;
    return MAX_FIRST_SILENCE_MS;
  }

  /** The server's time (µs) at a monotonic moment of this process; undefined before the first reply. */
  serverTimeUs(monotonicMs: number): number | undefined {
    return this.#timeline.at(monotonicMs);
  }

  /** The server's time now (µs); undefined before the first reply. */
  get serverNowUs(): number | undefined {
    return this.#timeline.at(this.#options.clock.monotonic());
  }

  /** Whether a reply had come before that monotonic moment, so that the server's time was known. */
  hadReplyBefore(monotonicMs: number): boolean {
    return monotonicMs > this.#firstReplyAtMs;
  }

  /** Settles once every operation that was sent has a reply or has passed its deadline. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** Runs a script; never rejects. While the breaker is half-open it waits for the trial first. */
  async run(script: RecordScript, key: string, args: readonly (string | number)[]): Promise<Ran> {
    const { clock } = this.#options;
    let admission = this.#breaker.admit(clock.monotonic());
    while (admission === 'await') {
      await this.#trial;
      admission = this.#breaker.admit(clock.monotonic());
    }
    if (admission === 'refuse') return { late: NONE };
    const outcome = this.#send(script, key, args, admission === 'trial');
    if (admission === 'trial') this.#trial = outcome;
    this.#pending.add(outcome);
    void outcome.finally(() => this.#pending.delete(outcome));
    return outcome;
  }

  async #send(script: RecordScript, key: string, args: readonly (string | number)[], isTrial: boolean): Promise<Ran> {
    const { port, deadlineMs, clock } = this.#options;
    const sentAtMs = clock.monotonic();
    const sent = sendTwice(async () => replyOf(await port.run(script, key, args.map(String))));
    const { reply, trouble = 'protocol_error' } = await outcomeOf(sent, deadlineMs, clock);
    if (reply) {
      this.#answered(reply);
      return { reply, late: NONE };
    }
    const nowMs = clock.monotonic();
    if (trouble !== 'timeout') {
      this.#report(this.#breaker.failed(nowMs, isTrial), trouble);
      return { late: NONE };
    }
    this.#report(this.#breaker.unanswered(sentAtMs, nowMs, this.maxSilenceMs, isTrial), trouble);
    const answered = (reply: Reply | undefined) => {
      if (reply) this.#answered(reply);
      return reply;
    };
    return { late: sent.then(answered, () => undefined) };
  }

  #answered(reply: Reply): void {
    const nowMs = this.#options.clock.monotonic();
    this.#firstReplyAtMs = Math.min(this.#firstReplyAtMs, nowMs);
    this.#timeline.sample(Number(reply[1]), nowMs);
    this.#report(this.#breaker.succeeded(nowMs));
  }

  #report(change: BreakerChange | undefined, trouble: RedisTrouble = 'timeout'): void {
    const { diagnostics } = this.#options;
    if (change === 'opened') diagnostics.suspended(trouble);
    if (change === 'closed') diagnostics.resumed();
  }
}

const NONE: Promise<undefined> = Promise.resolve(undefined);

/** The timeline uses the samples of at least this period, and of at most twice that. */
const TIMELINE_WINDOW_MS = 3_600_000;

/**
 * The server's time as this replica estimates it: its monotonic clock, plus the largest difference seen in the last
 * hour or two. A failover to a server whose clock is behind therefore makes no token younger. Each sample counts from when
 * the reply came, so the timeline is never ahead of the furthest server.
 */
class ServerTimeline {
  #currentUs: number | undefined;
  #previousUs = Number.NEGATIVE_INFINITY;
  #windowEndsMs = 0;

  sample(serverUs: number, nowMs: number): void {
    const aheadUs = serverUs - Math.ceil(nowMs * 1000);
    if (this.#currentUs === undefined || nowMs >= this.#windowEndsMs) {
      this.#previousUs = this.#currentUs ?? aheadUs;
      this.#currentUs = aheadUs;
      this.#windowEndsMs = nowMs + TIMELINE_WINDOW_MS;
    }
    this.#currentUs = Math.max(this.#currentUs, aheadUs);
  }

  at(monotonicMs: number): number | undefined {
    if (this.#currentUs === undefined) return undefined;
    return Math.floor(monotonicMs * 1000) + Math.max(this.#currentUs, this.#previousUs);
  }
}

interface Outcome {
  readonly reply?: Reply | undefined;
  readonly trouble?: RedisTrouble;
}

async function outcomeOf(sent: Promise<Reply | undefined>, deadlineMs: number, clock: Clock): Promise<Outcome> {
  try {
    const reply = await within(sent, deadlineMs, clock);
    if (reply === TIMED_OUT) return { trouble: 'timeout' };
    return reply ? { reply } : { trouble: 'protocol_error' };
  } catch (error) {
    return { trouble: troubleOf(error) };
  }
}

/**
 * Retries once if the connection was lost during the operation. The scripts give the same call the same reply, and a client
 * that reconnects in time saves a token request.
 */
async function sendTwice(send: () => Promise<Reply | undefined>): Promise<Reply | undefined> {
  try {
    return await send();
  } catch (error) {
    if (troubleOf(error) !== 'connection') throw error;
    return send();
  }
}

const TIMED_OUT = Symbol('timed out');

/** The number of timers that a deadline consists of. */
const PARTS = 5;

/**
 * The result of the work, or {@link TIMED_OUT}. The deadline consists of several timers in a row: a process whose event loop
 * was blocked reads a reply that has already arrived before the last timer fires, and does not blame Redis.
 */
function within<T>(work: Promise<T>, deadlineMs: number, clock: Clock): Promise<T | typeof TIMED_OUT> {
  return new Promise((resolve, reject) => {
    let parts = 0;
    let cancel = () => {};
    const part = () => {
      if (parts++ === PARTS) resolve(TIMED_OUT);
      else cancel = startTimer(clock, part, deadlineMs / PARTS);
    };
    part();
    work.then(resolve, reject).finally(() => cancel());
  });
}

/** A reply as strings: some clients give numbers and buffers. Undefined for anything that the scripts do not return. */
function replyOf(raw: unknown): Reply | undefined {
  if (!Array.isArray(raw) || raw.length < 2 || raw.length > 4) return undefined;
  const words = raw.map((item) => (Buffer.isBuffer(item) || typeof item === 'number' ? String(item) : item));
  if (!words.every((word) => typeof word === 'string') || !(Number(words[1]) > 0)) return undefined;
  return words as unknown as Reply;
}

/**
 * Known error replies, wherever they stand in the message: an error inside a script is wrapped, in words that differ
 * between 6.2 and 7.
 */
const ERROR_REPLIES: readonly (readonly [RegExp, RedisTrouble])[] = [
  [/\bREADONLY\b/, 'read_only'],
  [/\bOOM\b|maxmemory/, 'full'],
  [/\b(NOPERM|NOAUTH|WRONGPASS)\b|executing the script can't (run|access)|No permissions/i, 'denied'],
];

/** Classifies an error: a server's error reply starts with an upper-case code; anything else is the connection. */
function troubleOf(error: unknown): RedisTrouble {
  const message = error instanceof Error ? error.message : '';
  const known = ERROR_REPLIES.find(([pattern]) => pattern.test(message));
  if (known) return known[1];
  return /^-?[A-Z]{2,}\b/.test(message) && !/^E[A-Z]{3,}\b/.test(message) ? 'refused' : 'connection';
}
