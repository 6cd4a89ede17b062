/**
 * The only way to Redis: each operation within our own deadline and past the breaker. Clients queue without end while
 * Redis is away, and none of them gives up on a server that hangs; so nothing here waits for a client.
 */

import { type Clock, startTimer } from '../clock.ts';
import { Breaker } from './circuit-breaker.ts';
import type { RedisPort } from './ports.ts';
import type { RecordScript } from './record-scripts.ts';

/** Why Redis was of no help. */
export type RedisTrouble = 'timeout' | 'connection' | 'read_only' | 'full' | 'denied' | 'refused' | 'nonsense';

export interface RedisLinkOptions {
  port: RedisPort;
  deadlineMs: number;
  clock: Clock;
  events: { suspended(trouble: RedisTrouble): void; resumed(): void };
}

/** What a script answered: a word, the server's time, and what belongs to that word. */
export type Words = readonly [what: string, nowUs: string, ...rest: string[]];

export class RedisLink {
  readonly #options: RedisLinkOptions;
  readonly #breaker = new Breaker();
  #serverAheadUs: number | undefined;

  constructor(options: RedisLinkOptions) {
    this.#options = options;
  }

  /** Whether the breaker lets operations out. */
  get helps(): boolean {
    return !this.#breaker.open;
  }

  /** The server's time (µs) at a moment of this process, never ahead of the truth; undefined before its first answer. */
  serverTimeUs(monotonicMs: number): number | undefined {
    return this.#serverAheadUs === undefined ? undefined : Math.floor(monotonicMs * 1000) + this.#serverAheadUs;
  }

  /**
   * Runs a script, and gives its answer, or `undefined` when Redis is of no help now. Never throws. An answer that
   * comes after the deadline goes to `onLate`.
   */
  async run(
    script: RecordScript,
    key: string,
    args: readonly (string | number)[],
    onLate: (answer: Words) => void = () => {},
  ): Promise<Words | undefined> {
    const { port, deadlineMs, clock, events } = this.#options;
    const admitted = this.#breaker.admit(clock.monotonic());
    if (admitted === 'refuse') return undefined;
    const sent = sendTwice(async () => wordsOf(await port.run(script, key, args.map(String))));
    const { answer, trouble } = await outcomeOf(sent, deadlineMs, clock);
    const nowMs = clock.monotonic();
    if (answer) {
      this.#serverAheadUs = Number(answer[1]) - Math.ceil(nowMs * 1000);
      if (this.#breaker.succeeded(nowMs) === 'closed') events.resumed();
      return answer;
    }
    if (trouble === 'timeout') {
      sent.then(
        (words) => words && onLate(words),
        () => {},
      );
    }
    const opened = this.#breaker.failed(nowMs, admitted === 'trial') === 'opened';
    if (opened) events.suspended(trouble ?? 'nonsense');
    return undefined;
  }
}

interface Outcome {
  readonly answer?: Words | undefined;
  readonly trouble?: RedisTrouble;
}

async function outcomeOf(sent: Promise<Words | undefined>, deadlineMs: number, clock: Clock): Promise<Outcome> {
  try {
    const answer = await within(sent, deadlineMs, clock);
    if (answer === TIMED_OUT) return { trouble: 'timeout' };
    return answer ? { answer } : { trouble: 'nonsense' };
  } catch (error) {
    return { trouble: troubleOf(error) };
  }
}

/**
 * Once more when the connection was lost under it: the scripts give the same flight the same answer, and a client that
 * reconnects in time saves a request.
 */
async function sendTwice(send: () => Promise<Words | undefined>): Promise<Words | undefined> {
  try {
    return await send();
  } catch (error) {
    if (troubleOf(error) !== 'connection') throw error;
    return send();
  }
}

const TIMED_OUT = Symbol('timed out');

/** In so many parts a deadline is waited for. */
const PARTS = 5;

/**
 * What the work gives, or {@link TIMED_OUT}. The time is waited for in parts: a process that was busy itself for all of
 * it comes to read what Redis answered long ago before the last part is over, and does not blame Redis.
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

/** The answer of a script, with numbers and buffers, which some clients give, as strings. */
function wordsOf(raw: unknown): Words | undefined {
  if (!Array.isArray(raw) || raw.length < 2 || raw.length > 4) return undefined;
  const words = raw.map((item) => (Buffer.isBuffer(item) || typeof item === 'number' ? String(item) : item));
  if (!words.every((word) => typeof word === 'string') || !(Number(words[1]) > 0)) return undefined;
  return words as unknown as Words;
}

const REPLIES: Readonly<Record<string, RedisTrouble>> = {
  READONLY: 'read_only',
  OOM: 'full',
  NOPERM: 'denied',
  NOAUTH: 'denied',
  WRONGPASS: 'denied',
};

/** Of an error only its class is told: a reply of the server begins with a code in capitals; all else is the way there. */
function troubleOf(error: unknown): RedisTrouble {
  const message = error instanceof Error ? error.message : '';
  const code = /^-?([A-Z]{2,})\b/.exec(message)?.[1];
  if (code === undefined) return /maxmemory/.test(message) ? 'full' : 'connection';
  return REPLIES[code] ?? 'refused';
}
