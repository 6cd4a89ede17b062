/**
 * The only way to Redis: each operation has its own deadline and passes the circuit breaker. Client libraries do not protect
 * their callers: they queue commands without limit while Redis is unavailable, and none of them times out on a hung server.
 *
 * | circuit | an operation | Redis fails |
 * |---|---|---|
 * | closed | is sent | opens it |
 * | open | is refused, until the pause ends; then it waits for the probe | no change: that operation was sent before |
 * | half-open | waits for the probe | opens it if it is the probe |
 *
 * Redis fails with an error, with a lost connection, or by leaving an operation without a reply for a second. Only the probe
 * closes the circuit: it writes, so reads that succeed while writes fail prove nothing.
 *
 * Each reply has the server's time, by which the link keeps the fleet's: {@link ServerTime}.
 */

import { type Clock, within } from '../clock.ts';
import type { RedisPort } from './ports.ts';
import type { RecordScript } from './record-scripts.ts';

/**
 * Why Redis is unavailable. `timeout`: no reply within a second. `connection`: the client is not connected. `read_only`: a
 * replica or a server that accepts no writes. `full`: out of memory. `denied`: missing permissions or credentials.
 * `refused`: any other error of the server. `protocol_error`: a reply that none of the scripts returns.
 *
 * @example
 * ```ts
 * const needsAPerson: RedisTrouble[] = ['denied', 'full'];
 * ```
 */
export type RedisTrouble = 'timeout' | 'connection' | 'read_only' | 'full' | 'denied' | 'refused' | 'protocol_error';

/** A script's reply: a word, the server's time in microseconds, and the word's arguments. */
export type Reply = readonly [what: string, nowUs: string, ...rest: string[]];

/** One script over one key. */
export type Operation = readonly [script: RecordScript, key: string, args: readonly (string | number)[]];

/** The operation that undoes one that took effect too late for its call. */
type Undo = (late: Reply) => Operation | undefined;

export interface RedisLinkOptions {
  port: RedisPort;
  clock: Clock;
  random: () => number;
  deadlineMs: number;
  /** An operation that writes, to find out whether Redis is back, and what to do with its reply. */
  probe: { operation(): Operation; onReply(reply: Reply): void };
  /** Called when Redis becomes unavailable, and when it is available again. */
  onChange(failure: RedisFailure | undefined): void;
  /** Called when the server's clock is behind the fleet's time. */
  onBehind(behindMs: number): void;
}

/** Why Redis is unavailable, and the code of the server's error reply, such as `MISCONF`, if it was one. */
export interface RedisFailure {
  readonly trouble: RedisTrouble;
  readonly redisCode?: string | undefined;
}

/** An operation that has no reply after this long shows that Redis is unavailable. Only refreshes wait that long. */
export const SILENCE_MS = 1_000;

/**
 * How long the circuit stays open, less up to half as jitter, so that the replicas do not probe in step. After a lost
 * connection the client says when it is back. Otherwise the pause is long enough for a client that restarts its socket
 * timeout of 2 s with each command to notice that the connection is dead.
 */
const PAUSE_MS = { connection: 1_000, other: 4_000 } as const;

export class RedisLink {
  readonly time: ServerTime;
  /** When Redis replied last (monotonic). */
  heardAtMs = Number.NEGATIVE_INFINITY;
  readonly #options: RedisLinkOptions;
  readonly #pending = new Set<Promise<unknown>>();
  #probing: Promise<void> | undefined;
  #wasReady = false;
  /** When the circuit's pause ends (monotonic); undefined while it is closed. */
  #openUntilMs: number | undefined;

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    this.time = new ServerTime(options.onBehind);
  }

  /** Whether operations are sent now. */
  get isAvailable(): boolean {
    return this.#openUntilMs === undefined;
  }

  /** Settles once every operation that was sent has a reply or has passed its deadline. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /**
   * The reply, or undefined if there is none in time. Never rejects. While a probe is in flight it waits for that first.
   *
   * @param undo what to send, even while the circuit is open, once a reply has come too late.
   */
  async run(operation: Operation, deadlineMs = this.#options.deadlineMs, undo?: Undo): Promise<Reply | undefined> {
    if (this.#openUntilMs !== undefined) {
      if (this.#openUntilMs <= this.#options.clock.monotonic()) await this.#probe();
      if (!this.isAvailable) return undefined;
    }
    return this.#send(operation, deadlineMs, false, undo);
  }

  async #probe(): Promise<void> {
    const { probe, deadlineMs, onChange } = this.#options;
    this.#probing ??= this.#send(probe.operation(), deadlineMs, true).then((reply) => {
      this.#probing = undefined;
      if (!reply) return;
      this.#openUntilMs = undefined;
      onChange(undefined);
      probe.onReply(reply);
    });
    await this.#probing;
  }

  async #send(operation: Operation, deadlineMs: number, isProbe = false, undo?: Undo): Promise<Reply | undefined> {
    const { clock, port } = this.#options;
    const isReady = port.isReady?.();
    if (isReady) this.#wasReady = true;
    // A client that was never ready may still be connecting, so the deadline decides. Some receive replies before they are ready.
    if (isReady === false && this.#wasReady) return this.#openCircuit({ trouble: 'connection' }, isProbe);
    const answer = this.#answerTo(operation);
    const inTime = within(answer, deadlineMs, clock, SILENCE_MS);
    this.#pending.add(inTime);
    const outcome = (await inTime) ?? TIMEOUT;
    this.#pending.delete(inTime);
    if (!('trouble' in outcome)) return outcome;
    if (isProbe || outcome !== TIMEOUT) return this.#openCircuit(outcome, isProbe);
    void within(answer, Math.max(0, SILENCE_MS - deadlineMs), clock, SILENCE_MS).then((later = TIMEOUT) => {
      if ('trouble' in later) this.#openCircuit(later, false);
    });
    void answer.then((late) => {
      const undoing = 'trouble' in late ? undefined : undo?.(late);
      if (undoing) void this.#answerTo(undoing);
    });
    return undefined;
  }

  async #answerTo([script, key, args]: Operation): Promise<Reply | RedisFailure> {
    const { port, clock } = this.#options;
    try {
      const sentMs = clock.monotonic();
      const raw = await port.run(script, key, args.map(String));
      if (!Array.isArray(raw) || !(Number(raw[1]) > 0)) return { trouble: 'protocol_error' };
      // Some clients give numbers and buffers.
      const reply = raw.map(String) as unknown as Reply;
      this.heardAtMs = clock.monotonic();
      this.time.sample(Number(reply[1]), sentMs, this.heardAtMs);
      return reply;
    } catch (error) {
      return classifyError(error);
    }
  }

  #openCircuit(failure: RedisFailure, isProbe: boolean): undefined {
    const { clock, random, onChange } = this.#options;
    const wasAvailable = this.isAvailable;
    if (!wasAvailable && !isProbe) return;
    const pauseMs = PAUSE_MS[failure.trouble === 'connection' ? 'connection' : 'other'];
    this.#openUntilMs = clock.monotonic() + pauseMs * (0.5 + random() / 2);
    if (wasAvailable) onChange(failure);
  }
}

const TIMEOUT: RedisFailure = { trouble: 'timeout' };

/**
 * Known error replies, wherever they stand in the message: an error inside a script is wrapped, in words that differ
 * between 6.2 and 7.
 */
const ERROR_REPLIES: readonly (readonly [RegExp, RedisTrouble])[] = [
  [/\b(READONLY)\b/, 'read_only'],
  [/\b(OOM)\b|maxmemory/, 'full'],
  [/\b(NOPERM|NOAUTH|WRONGPASS)\b|executing the script can't (?:run|access)|No permissions/i, 'denied'],
];

/** A server's error reply starts with its code in upper case, unlike the errors of Node's sockets. */
const CODE = /^-?(?!E[A-Z]{3,}\b)([A-Z]{2,20})\b/;

/** Classifies an error: a server's error reply has a code; anything else is the connection. The rest of it may quote arguments. */
function classifyError(error: unknown): RedisFailure {
  const message = error instanceof Error ? error.message : '';
  const [pattern, trouble] = ERROR_REPLIES.find(([each]) => each.test(message)) ?? [];
  const redisCode = pattern?.exec(message)?.[1]?.toUpperCase() ?? CODE.exec(message)?.[1];
  return { trouble: trouble ?? (redisCode === undefined ? 'connection' : 'refused'), redisCode };
}

/** Uses the samples of at least this period, and of at most twice that. */
const WINDOW_MS = 3_600_000;

/** A server that is behind by no more than this is trusted. More than clocks drift apart in two windows. */
export const MAX_BEHIND_MS = 10_000;

/**
 * The fleet's time as this replica estimates it: its monotonic clock, plus the largest difference to the server's clock seen in
 * the last hour or two. So it does not step back with that clock, as after a failover to a server whose clock is behind, and
 * no token seems younger than it is. Each sample counts from when the reply came, so the estimate is never ahead of the
 * furthest server.
 *
 * While the server is far behind, tokens are dated by the fleet's time. A replica that starts then learns it from the others.
 */
export class ServerTime {
  readonly #onBehind: (behindMs: number) => void;
  #currentUs = Number.NEGATIVE_INFINITY;
  #previousUs = Number.NEGATIVE_INFINITY;
  #windowEndsMs = Number.NEGATIVE_INFINITY;
  /** The last server's difference. */
  #lastUs = Number.NEGATIVE_INFINITY;
  #reportedMs = 0;

  /** @param onBehind called when the server is behind the fleet's time, and again only if it is even further behind. */
  constructor(onBehind: (behindMs: number) => void = () => {}) {
    this.#onBehind = onBehind;
  }

  /** @param sentMs before the server read its clock. @param nowMs after that. */
  sample(serverUs: number, sentMs: number, nowMs: number): void {
    this.#lastUs = serverUs - Math.ceil(nowMs * 1000);
    this.learn(serverUs, nowMs);
    const behindMs = Math.floor((this.at(sentMs) - serverUs) / 1000);
    if (behindMs <= this.#reportedMs + MAX_BEHIND_MS) return;
    this.#reportedMs = behindMs;
    this.#onBehind(behindMs);
  }

  /** @param fleetUs a time that another replica knows to have passed. */
  learn(fleetUs: number, nowMs: number): void {
    if (nowMs >= this.#windowEndsMs) {
      this.#previousUs = this.#currentUs;
      this.#currentUs = Number.NEGATIVE_INFINITY;
      this.#windowEndsMs = nowMs + WINDOW_MS;
    }
    this.#currentUs = Math.max(this.#currentUs, fleetUs - Math.ceil(nowMs * 1000));
  }

  /** Microseconds at a monotonic moment of this process; 0 before the first sample. */
  at(monotonicMs: number): number {
    return Math.max(0, Math.floor(monotonicMs * 1000) + Math.max(this.#currentUs, this.#previousUs));
  }

  /** The same by the clock of the server that replied last. */
  onServer(monotonicMs: number): number {
    return Math.max(0, Math.floor(monotonicMs * 1000) + this.#lastUs);
  }

  /** The fleet's time when the server's clock shows this, unless the two are close. */
  since(serverUs: number, monotonicMs: number): number {
    const fleetUs = this.at(monotonicMs);
    return fleetUs - serverUs > MAX_BEHIND_MS * 1000 ? fleetUs : serverUs;
  }
}
