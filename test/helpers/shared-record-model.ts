import type { RedisPort } from '../../src/redis/ports.ts';
import { ANNOUNCED_MS, MAX_AHEAD_MS, MAX_COUNTED, MAX_SHARED_MS, MEMORY_MS } from '../../src/redis/record-scripts.ts';

/**
 * The shared record in TypeScript, for simulations: models Redis with our scripts on an injected clock. The suite
 * in `record-scripts.test.ts` runs the same operations here and on a real server and compares every answer, every stored
 * field and every message.
 */
export class SharedRecordModel {
  /** Fields of each hash, as Redis would hold them. */
  readonly keys = new Map<string, Map<string, string>>();
  /** Epoch milliseconds at which each key expires. */
  readonly expiries = new Map<string, number>();
  readonly #nowUs: () => number;
  readonly #listeners = new Set<(channel: string, message: string) => void>();

  /** @param nowUs returns the server's time in whole microseconds. */
  constructor(nowUs: () => number) {
    this.#nowUs = nowUs;
  }

  /** Runs the operation of the script with this name. */
  run(name: string, key: string, args: readonly string[]): string[] {
    const nowUs = this.#nowUs();
    if ((this.expiries.get(key) ?? Infinity) <= nowUs / 1000) this.#delete(key);
    const record = new RecordAt(nowUs, key, this.keys.get(key), (channel, message) => {
      this.tell(channel, message);
    });
    const [what, ...rest] = record.perform(name, args);
    if (record.fields.size === 0) this.#delete(key);
    else this.keys.set(key, record.fields);
    if (record.fields.size > 0 && record.expiresAtMs !== undefined) this.expiries.set(key, record.expiresAtMs);
    return [what, String(nowUs), ...rest];
  }

  /** Deletes everything, like FLUSHALL. */
  flush(): void {
    this.keys.clear();
    this.expiries.clear();
  }

  /** Sends a message, like PUBLISH. */
  tell(channel: string, message: string): void {
    for (const listener of this.#listeners) listener(channel, message);
  }

  listen(listener: (channel: string, message: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** A port for `SharedTokens` in place of a Redis client. `through` may delay, lose or fail an operation. */
  port(through: <T>(answer: () => T) => Promise<T> = async (answer) => answer()): RedisPort {
    return {
      run: (script, key, args) => through(() => this.run(script.name, key, args)),
      subscribe: async (channel, onMessage) => {
        const stop = this.listen((to, message) => {
          if (to === channel) void through(() => onMessage(message)).catch(() => {});
        });
        return async () => stop();
      },
    };
  }

  #delete(key: string): void {
    this.keys.delete(key);
    this.expiries.delete(key);
  }
}

type Answer = [what: string, ...rest: string[]];

/** One record during one operation. */
class RecordAt {
  readonly fields: Map<string, string>;
  expiresAtMs: number | undefined;
  readonly #now: number;
  readonly #key: string;
  readonly #tell: (channel: string, message: string) => void;
  readonly #waiting: string;

  constructor(
    now: number,
    key: string,
    fields: Map<string, string> | undefined,
    tell: (channel: string, message: string) => void,
  ) {
    this.#now = now;
    this.#key = key;
    this.fields = new Map(fields);
    this.#tell = tell;
    this.#waiting = this.fields.get('w') ?? '';
  }

  perform(name: string, args: readonly string[]): Answer {
    const s = (index: number) => args[index] ?? '';
    const n = (index: number) => Number(args[index]);
    switch (name) {
      case 'acquire':
        if (n(3) === this.#generation && this.#sealed !== undefined) {
          this.#clear('v', 'u');
          this.#tell(s(7), `${s(8)} rejected ${this.#generation} ${s(9)}`);
        }
        return this.#acquire(s(0), n(1), n(2), n(4), s(5), n(6));
      case 'publish':
        return this.#publish(s(0), [s(1), s(2)], n(3), s(4), n(5), s(6) === '1', s(7));
      case 'release':
        return this.#release(s(0), [s(1), s(2)], s(3));
      case 'forget':
        if (args.length < 5) return this.#forget([s(0), s(1)], n(2));
        this.#tell(s(0), `${s(1)} forgotten ${s(3)} ${s(4)}`);
        return ['told'];
      case 'announce':
        return this.#announce(s(0), s(1));
      default:
        throw new Error(`no such script: ${name}`);
    }
  }

  #acquire(call: string, leaseMs: number, avoid: number, followed: number, mode: string, longestMs: number): Answer {
    const [generation, fence, leased] = [this.#generation, this.#fence, this.#leased];
    if (this.#isGood && generation > avoid) return ['token', String(generation), this.#sealed ?? ''];
    const failure = this.fields.get('f');
    const isFailure = failure !== undefined && followed > 0 && this.#number('e', MAX_AHEAD_MS.generation) === followed;
    if (isFailure) return ['failure', failure];
    const leader = leased > this.#now ? this.fields.get('h') : undefined;
    if (leader === call && leaseMs > 0) return ['lead', String(fence)];
    if (leader !== undefined || leaseMs === 0) {
      if (!this.#waiting.includes(mode)) this.#save({ w: this.#waiting + mode });
      return leader === undefined ? ['free'] : ['wait', String(leased - this.#now), String(fence)];
    }
    const next = Math.max(this.#now, generation + 1, fence + 1, avoid + 1);
    const lapsed = this.fields.has('h') && this.#now - leased <= leased - fence ? leased - fence : 0;
    this.fields.set('l', String(this.#now + Math.max(leaseMs * 1000, Math.min(2 * lapsed, longestMs * 1000))));
    this.#save({ h: call, n: next });
    return ['lead', String(next)];
  }

  #publish(
    call: string,
    to: [string, string],
    mine: number,
    value: string,
    last: number,
    leaseless: boolean,
    proof: string,
  ): Answer {
    const held = this.#endLease(call);
    const unwanted = leaseless && (this.#isGood || mine > this.#now);
    const stored = mine > this.#generation && last > this.#now && !unwanted;
    if (stored) {
      this.fields.set('u', String(Math.min(last, this.#now + MAX_SHARED_MS * 1000)));
      this.#save({ v: value, g: mine });
      if (this.#leased <= this.#now) this.#clear('h', 'l');
    }
    if (stored && this.fields.has('f')) {
      this.#clear('f', 'e');
      this.#tell(to[0], `${to[1]} recovered ${mine} ${proof}`);
    }
    if (held || stored) this.#wake(to);
    return [stored ? 'stored' : 'refused'];
  }

  #release(call: string, to: [string, string], failure: string): Answer {
    const held = this.#leased > this.#now;
    if (!this.#endLease(call)) return ['lost'];
    if (held && failure !== '') this.#save({ f: failure, e: this.#fence });
    this.#wake(to);
    return ['released'];
  }

  #forget(to: [string, string], newest: number): Answer {
    const next = Math.max(this.#now, this.#generation + 1, this.#fence + 1, newest + 1);
    this.#clear('v', 'u', 'h', 'l', 'f', 'e');
    this.#save({ g: next });
    this.#wake(to);
    return ['forgotten', String(next)];
  }

  #announce(replica: string, said: string): Answer {
    this.fields.set(replica, said);
    this.expiresAtMs = Math.floor(this.#now / 1000) + ANNOUNCED_MS;
    for (const [field, value] of this.fields) {
      const seenUs = Number(/^\d+/.exec(value)?.[0] ?? Number.NaN);
      if (!(Math.abs(this.#now - seenUs) <= ANNOUNCED_MS * 1000)) this.#clear(field);
    }
    return ['listed', ...[...this.fields].slice(0, MAX_COUNTED).map(([name, said]) => `${said} ${name}`)];
  }

  #endLease(call: string): boolean {
    if (this.fields.get('h') !== call) return false;
    this.#clear('h', 'l');
    return true;
  }

  #wake([channel, name]: [string, string]): void {
    this.#clear('w');
    if (this.#waiting.includes('c')) this.#tell(channel, name);
    if (this.#waiting.includes('s')) this.#tell(this.#key, name);
  }

  get #sealed(): string | undefined {
    return this.fields.get('v');
  }

  get #generation(): number {
    return this.#number('g', MAX_AHEAD_MS.generation);
  }

  get #fence(): number {
    return this.#number('n', MAX_AHEAD_MS.generation);
  }

  get #leased(): number {
    return this.#number('l', MAX_AHEAD_MS.lease);
  }

  get #isGood(): boolean {
    return this.#sealed !== undefined && this.#generation > 0 && this.#number('u', MAX_AHEAD_MS.token) > this.#now;
  }

  /** A field as a number; 0 if it is not a number, or further ahead than any script writes. */
  #number(field: string, aheadMs: number): number {
    const value = Number(this.fields.get(field) ?? 0);
    return value >= 0 && value <= this.#now + aheadMs * 1000 ? value : 0;
  }

  #save(values: Record<string, string | number>): void {
    for (const [field, value] of Object.entries(values)) this.fields.set(field, String(value));
    const lastUs = Math.max(this.#now, this.#number('u', MAX_AHEAD_MS.token), this.#leased);
    this.expiresAtMs = Math.floor(lastUs / 1000) + MEMORY_MS;
  }

  #clear(...fields: string[]): void {
    for (const field of fields) this.fields.delete(field);
  }
}
