import type { RedisPort } from '../../src/redis/ports.ts';
import { MAX_AHEAD_MS, MAX_SHARED_MS, MEMORY_MS } from '../../src/redis/record-scripts.ts';

/**
 * The shared record in TypeScript, for simulations: what Redis with our scripts does, on a clock of one's own. The suite
 * in `record-scripts.test.ts` runs the same operations here and on a real server and compares every answer, every stored
 * field and every message.
 */
export class SharedRecordModel {
  /** Fields of each hash, as Redis would hold them. */
  readonly keys = new Map<string, Map<string, string>>();
  /** Epoch milliseconds at which each key vanishes. */
  readonly expiries = new Map<string, number>();
  readonly #nowUs: () => number;
  readonly #listeners = new Set<(channel: string, message: string) => void>();

  /** @param nowUs the server's time in microseconds, whole. */
  constructor(nowUs: () => number) {
    this.#nowUs = nowUs;
  }

  /** Runs the operation of that script at once. */
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

  /** Everything is gone, as after FLUSHALL. */
  flush(): void {
    this.keys.clear();
    this.expiries.clear();
  }

  listen(listener: (channel: string, message: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** What a registry's shared source is given instead of a Redis client. `through` may delay, lose or fail. */
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

/** One record at one moment. */
class RecordAt {
  readonly fields: Map<string, string>;
  expiresAtMs: number | undefined;
  readonly #now: number;
  readonly #publish: (channel: string, message: string) => void;
  readonly #sealed: string | undefined;
  readonly #generation: number;
  #usable: number;
  readonly #holder: string | undefined;
  #leased: number;
  readonly #fence: number;
  #failure: string | undefined;
  #failed: number;
  #count: number;

  constructor(now: number, fields: Map<string, string> | undefined, publish: (channel: string, text: string) => void) {
    this.#now = now;
    this.fields = new Map(fields);
    this.#publish = publish;
    this.#sealed = this.fields.get('v');
    this.#generation = this.#number('g', MAX_AHEAD_MS.generation);
    this.#usable = this.#number('u', MAX_AHEAD_MS.token);
    this.#holder = this.fields.get('h');
    this.#leased = this.#number('l', MAX_AHEAD_MS.lease);
    this.#fence = this.#number('n', MAX_AHEAD_MS.generation);
    this.#failure = this.fields.get('f');
    this.#failed = this.#number('x', MAX_AHEAD_MS.failure);
    this.#count = this.#number('c', 0);
  }

  perform(name: string, args: readonly string[]): Answer {
    const [flight = '', ...rest] = args;
    const n = (index: number) => Number(rest[index]);
    const s = (index: number) => rest[index] ?? '';
    switch (name) {
      case 'acquire':
        return this.#acquire(flight, n(0), n(1), n(2));
      case 'renew':
        return this.#renew(flight, n(0), n(1));
      case 'publish':
        return this.#publishToken(flight, s(0), s(1), n(2), s(3), n(4));
      case 'offer':
        return this.#offer(flight, s(0), s(1), n(2), s(3), n(4));
      case 'fail':
        return this.#fail(flight, s(0), s(1), s(2), n(3), n(4));
      case 'reject':
        return this.#reject(Number(flight), n(0), s(1), n(2), n(3));
      case 'enter':
        return this.#enter(flight, n(0));
      case 'settle':
        return this.#settle(flight, n(0), s(1), s(2), s(3), s(4), n(5), n(6));
      default:
        throw new Error(`no such script: ${name}`);
    }
  }

  #acquire(flight: string, leaseMs: number, avoid: number, lifeMs: number): Answer {
    const longEnough = this.#usable > this.#now + lifeMs * 1000;
    if (this.#good() && this.#generation > avoid && longEnough) return this.#token('token');
    if (this.#failure !== undefined && this.#failed > this.#now) return this.#standing(this.#failed);
    if (this.#holder !== undefined && this.#leased > this.#now) {
      if (this.#holder === flight) return ['lead', String(this.#fence)];
      return ['wait', String(this.#leased - this.#now)];
    }
    const fence = Math.max(this.#now, this.#generation + 1, this.#fence + 1, avoid + 1);
    this.#leased = this.#now + leaseMs * 1000;
    this.#save({ h: flight, l: this.#leased, n: fence, s: this.#now });
    return ['lead', String(fence)];
  }

  #renew(flight: string, leaseMs: number, maxHoldMs: number): Answer {
    if (this.#holder !== flight || this.#now > this.#number('s', 0) + maxHoldMs * 1000) return ['lost'];
    this.#leased = this.#now + leaseMs * 1000;
    this.#save({ l: this.#leased });
    return ['held'];
  }

  #publishToken(flight: string, channel: string, name: string, mine: number, value: string, last: number): Answer {
    this.#endOwnLease(flight);
    if (mine === this.#generation && this.#sealed === value) return ['stored'];
    if (mine <= this.#generation && this.#good()) {
      this.#refuse(flight, channel, name);
      return this.#token('superseded');
    }
    if (mine <= this.#generation || last <= this.#now) return this.#refuse(flight, channel, name);
    return this.#store(channel, name, mine, value, last);
  }

  #offer(flight: string, channel: string, name: string, mine: number, value: string, last: number): Answer {
    this.#endOwnLease(flight);
    const unwanted = this.#good() || mine <= this.#generation || mine > this.#now || last <= this.#now;
    return unwanted ? this.#refuse(flight, channel, name) : this.#store(channel, name, mine, value, last);
  }

  #fail(flight: string, channel: string, name: string, payload: string, baseMs: number, capMs: number): Answer {
    if (this.#holder !== flight) return ['lost'];
    this.#clear('h', 'l', 's');
    this.#leased = 0;
    if (payload !== '') this.#lapse(payload, baseMs, capMs);
    this.#publish(channel, name);
    return ['released'];
  }

  #reject(mine: number, freshMs: number, payload: string, baseMs: number, capMs: number): Answer {
    if (this.#sealed === undefined || mine !== this.#generation) return ['kept'];
    const fresh = this.#now <= this.#number('p', 0) + freshMs * 1000;
    const rejects = fresh ? this.#number('r', 0) + 1 : 0;
    this.#clear('v', 'u', 'p');
    this.#usable = 0;
    this.#save({ r: rejects });
    if (rejects >= 3) this.#lapse(payload, baseMs, capMs);
    return ['dropped'];
  }

  #enter(flight: string, leaseMs: number): Answer {
    if (this.#failure === undefined) return ['open'];
    if (this.#failed > this.#now) return this.#standing(this.#failed);
    const probedByAnother = this.#holder !== undefined && this.#leased > this.#now && this.#holder !== flight;
    if (probedByAnother) return this.#standing(this.#leased);
    this.#leased = this.#now + leaseMs * 1000;
    this.#save({ h: flight, l: this.#leased, s: this.#now });
    return ['probe'];
  }

  #settle(
    flight: string,
    entered: number,
    outcome: string,
    scope: string,
    owner: string,
    payload: string,
    baseMs: number,
    capMs: number,
  ): Answer {
    if (this.#holder === flight) {
      this.#clear('h', 'l', 's');
      this.#leased = 0;
    }
    if (outcome === 'released') return ['released'];
    const late = this.#failure !== undefined && entered <= this.#number('b', 0);
    if (late && !(outcome === 'blamed' && baseMs === 0)) return ['late', String(Math.max(0, this.#failed - this.#now))];
    if (outcome === 'passed') {
      this.fields.clear();
      return ['clear'];
    }
    const answers = this.#failure?.includes('"scope":"endpoint"') && scope === 'client' && outcome === 'struck';
    if (outcome === 'answered' || answers) this.#lift();
    if (outcome === 'answered') return ['clear'];
    if (outcome === 'struck' && this.#failure === undefined) {
      const stored = this.fields.get('k') ?? '';
      const [, ...known] = stored.startsWith(`${scope} `) ? stored.trimEnd().split(' ') : [];
      const struck = known.includes(owner) ? known : [...known, owner];
      if (struck.length < 3) {
        this.#save({ k: `${[scope, ...struck].join(' ')} ` });
        return ['struck'];
      }
    }
    this.#clear('k');
    this.#lapse(payload, baseMs, capMs);
    this.#save({ b: this.#now });
    return ['failed', String(this.#failed - this.#now)];
  }

  #store(channel: string, name: string, mine: number, value: string, last: number): Answer {
    this.#failed = 0;
    this.#usable = Math.min(last, this.#now + MAX_SHARED_MS * 1000);
    this.#save({ v: value, g: mine, u: this.#usable, p: this.#now });
    this.#clear('f', 'x', 'c');
    this.#publish(channel, name);
    return ['stored'];
  }

  #endOwnLease(flight: string): void {
    if (this.#holder !== flight) return;
    this.#clear('h', 'l', 's');
    this.#leased = 0;
  }

  #refuse(flight: string, channel: string, name: string): Answer {
    if (this.#holder === flight) this.#publish(channel, name);
    return ['refused'];
  }

  #lapse(payload: string, baseMs: number, capMs: number): void {
    let waitMs = capMs;
    if (baseMs > 0) {
      this.#count = Math.min(this.#count + 1, 32);
      waitMs = Math.floor(Math.min(capMs, baseMs * 2 ** (this.#count - 1)));
    }
    this.#failed = Math.max(this.#failed, this.#now + waitMs * 1000);
    this.#save({ f: payload, x: this.#failed, c: this.#count });
  }

  #lift(): void {
    this.#clear('f', 'x', 'c', 'b');
    this.#failure = undefined;
    this.#failed = 0;
    this.#count = 0;
  }

  #good(): boolean {
    return this.#sealed !== undefined && this.#generation > 0 && this.#usable > this.#now;
  }

  #token(what: 'token' | 'superseded'): Answer {
    return [what, String(this.#generation), this.#sealed ?? ''];
  }

  #standing(untilUs: number): Answer {
    return ['failure', String(untilUs - this.#now), this.#failure ?? ''];
  }

  /** A field as a number; 0 when it is none, or further ahead than any that we write. */
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
