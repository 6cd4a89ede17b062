import { MAX_SILENCE_MS } from '../../src/redis/circuit-breaker.ts';
import type { RedisPort } from '../../src/redis/ports.ts';
import { MAX_AHEAD_MS, MAX_SHARED_MS, MEMORY_MS } from '../../src/redis/record-scripts.ts';

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
    const record = new RecordAt(nowUs, this.keys.get(key), (channel, message) => {
      for (const listener of this.#listeners) listener(channel, message);
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

/** The common channel, the record's name, and how the publisher's own replica listens. */
type WakeTarget = [channel: string, name: string, mode: string];

type Answer = [what: string, ...rest: string[]];

/** One record during one operation. */
class RecordAt {
  readonly fields: Map<string, string>;
  expiresAtMs: number | undefined;
  readonly #now: number;
  readonly #publish: (channel: string, message: string) => void;
  #sealed: string | undefined;
  readonly #generation: number;
  #usable: number;
  readonly #leader: string | undefined;
  #leased: number;
  readonly #fence: number;
  #failure: string | undefined;
  #failed: number;
  #waiting: string | undefined;

  constructor(now: number, fields: Map<string, string> | undefined, publish: (channel: string, text: string) => void) {
    this.#now = now;
    this.fields = new Map(fields);
    this.#publish = publish;
    this.#sealed = this.fields.get('v');
    this.#generation = this.#number('g', MAX_AHEAD_MS.generation);
    this.#usable = this.#number('u', MAX_AHEAD_MS.token);
    this.#leader = this.fields.get('h');
    this.#leased = this.#number('l', MAX_AHEAD_MS.lease);
    this.#fence = this.#number('n', MAX_AHEAD_MS.generation);
    this.#failure = this.fields.get('f');
    this.#failed = this.#number('x', MAX_AHEAD_MS.failure);
    this.#waiting = this.fields.get('w');
  }

  perform(name: string, args: readonly string[]): Answer {
    const s = (index: number) => args[index] ?? '';
    const n = (index: number) => Number(args[index]);
    switch (name) {
      case 'acquire':
        return this.#acquire(s(0), n(1), n(2), n(3), n(4), s(5), s(6), n(7));
      case 'renew':
        return this.#renew(s(0), n(1), n(2));
      case 'publish':
        return this.#publishToken(s(0), [s(1), s(2), s(7)], n(3), s(4), n(5), s(6) === '1');
      case 'release':
        return this.#release(s(0), [s(1), s(2), s(7)], s(3), s(4), n(5), s(6) === '1');
      case 'reserve':
        return this.#reserve(n(0), n(1));
      case 'announce':
        return this.#announce(s(0), s(1), n(2));
      default:
        throw new Error(`no such script: ${name}`);
    }
  }

  #acquire(
    call: string,
    leaseMs: number,
    avoid: number,
    lifeMs: number,
    rejected: number,
    unreadable: string,
    mode: string,
    sentUs: number,
  ): Answer {
    const mostUs = MAX_SILENCE_MS * 1000;
    const lateUs = sentUs > 0 ? Math.min(Math.max(this.#now - sentUs, 0), mostUs) : mostUs;
    if (this.#sealed !== undefined && this.#generation === rejected) {
      this.#clear('v', 'u');
      this.#sealed = undefined;
      this.#usable = 0;
    }
    if (this.#failure !== undefined && this.#failure === unreadable) {
      this.#clear('f', 'x');
      this.#failure = undefined;
      this.#failed = 0;
    }
    const longEnough = this.#usable > this.#now + lifeMs * 1000;
    if (this.#good() && this.#generation > avoid && longEnough) return this.#token('token');
    if (this.#failure !== undefined && this.#failed > this.#now) {
      return ['failure', String(this.#failed - this.#now), this.#failure];
    }
    if (this.#leader !== undefined && this.#leased + lateUs > this.#now) {
      if (this.#leader === call) return ['lead', String(this.#fence), this.#failure ?? ''];
      if (!this.#waits(mode)) this.fields.set('w', (this.#waiting ?? '') + mode);
      return ['wait', String(Math.max(this.#leased + (sentUs > 0 ? lateUs : 0) - this.#now, 0))];
    }
    if (leaseMs < 0 && !this.#waits(mode)) this.#save({ w: (this.#waiting ?? '') + mode });
    if (leaseMs <= 0) return ['free', '0', this.#failure ?? ''];
    const fence = Math.max(this.#now, this.#generation + 1, this.#fence + 1, avoid + 1);
    this.#leased = this.#now + leaseMs * 1000 + lateUs;
    this.#save({ h: call, l: this.#leased, n: fence, s: this.#now });
    return ['lead', String(fence), this.#failure ?? ''];
  }

  #renew(call: string, leaseMs: number, maxHoldMs: number): Answer {
    if (this.#leader !== call || this.#now > this.#number('s', 0) + maxHoldMs * 1000) return ['lost'];
    this.#leased = this.#now + leaseMs * 1000;
    this.#save({ l: this.#leased });
    return ['held'];
  }

  #publishToken(call: string, to: WakeTarget, mine: number, value: string, last: number, leaseless: boolean): Answer {
    const held = this.#endLease(call);
    if (mine === this.#generation && this.#sealed === value) return ['stored'];
    const unwanted = leaseless && (this.#good() || mine > this.#now);
    let reply: Answer = ['stored'];
    if (mine <= this.#generation && this.#good()) reply = this.#token('superseded');
    else if (mine <= this.#generation || mine < this.#fence || last <= this.#now || unwanted) reply = ['refused'];
    else {
      this.#failed = 0;
      this.#usable = Math.min(last, this.#now + MAX_SHARED_MS * 1000);
      this.#save({ v: value, g: mine, u: this.#usable });
      this.#clear('f', 'x');
    }
    if (held || reply[0] === 'stored') this.#wake(to, false);
    return reply;
  }

  #release(call: string, to: WakeTarget, outcome: string, payload: string, last: number, all: boolean): Answer {
    const held = this.#endLease(call);
    let changed = false;
    if (outcome === 'failed' && last > Math.max(this.#now, this.#failed)) {
      changed = true;
      this.#failed = Math.min(last, this.#now + MAX_AHEAD_MS.failure * 1000);
      this.#save({ f: payload, x: this.#failed });
    } else if (outcome === 'passed' && held && this.#failure !== undefined) {
      changed = true;
      this.#clear('f', 'x');
    }
    if (held || changed) this.#wake(to, all && changed);
    return [changed ? 'changed' : 'released'];
  }

  #announce(replica: string, keyId: string, windowMs: number): Answer {
    if (windowMs === 0) {
      this.#clear(replica);
      return ['left'];
    }
    this.fields.set(replica, `${keyId} ${this.#now}`);
    this.expiresAtMs = Math.floor(this.#now / 1000) + windowMs;
    let mismatched = 0;
    for (const [field, value] of this.fields) {
      const [id, seen] = value.split(' ');
      if (!(Number(seen) >= this.#now - windowMs * 1000)) this.#clear(field);
      else if (id !== keyId) mismatched++;
    }
    return ['listed', String(this.fields.size), String(mismatched)];
  }

  #endLease(call: string): boolean {
    if (this.#leader !== call) return false;
    this.#clear('h', 'l', 's');
    this.#leased = 0;
    return true;
  }

  #wake([channel, name, mode]: WakeTarget, all: boolean): void {
    const [common, sharded] = ['c', 's'].map((each) => this.#waits(each) || (all && mode === each));
    if (this.#waiting !== undefined) this.#clear('w');
    if (common) this.#publish(channel, name);
    if (sharded) this.#publish(name, name);
  }

  #waits(mode: string): boolean {
    return this.#waiting?.includes(mode) ?? false;
  }

  #reserve(count: number, intervalUs: number): Answer {
    const stored = Number(this.fields.get('t') ?? 0);
    const isAhead = stored > this.#now && stored <= this.#now + MAX_AHEAD_MS.sendTime * 1000;
    const first = isAhead ? stored : this.#now;
    const next = first + count * intervalUs;
    this.fields.set('t', String(next));
    this.expiresAtMs = Math.floor(next / 1000) + MEMORY_MS;
    return ['reserved', String(first - this.#now)];
  }

  #good(): boolean {
    return this.#sealed !== undefined && this.#generation > 0 && this.#usable > this.#now;
  }

  #token(what: 'token' | 'superseded'): Answer {
    return [what, String(this.#generation), this.#sealed ?? ''];
  }

  /** A field as a number; 0 if it is not a number, or further ahead than any script writes. */
  #number(field: string, aheadMs: number): number {
    const value = Number(this.fields.get(field) ?? 0);
    return value >= 0 && value <= this.#now + aheadMs * 1000 ? value : 0;
  }

  #save(values: Record<string, string | number>): void {
    for (const [field, value] of Object.entries(values)) this.fields.set(field, String(value));
    const lastMs = Math.floor(Math.max(this.#now, this.#usable, this.#leased, this.#failed) / 1000);
    this.expiresAtMs = lastMs + MEMORY_MS;
  }

  #clear(...fields: string[]): void {
    for (const field of fields) this.fields.delete(field);
  }
}
