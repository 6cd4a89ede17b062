import { beforeAll, describe, expect, it } from 'vitest';
import { Time } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { type WarmUpOptions, type WarmUpReport, warmUp } from '../../src/registry/warm-up.ts';
import { asTimePasses, ManualClock, settle } from '../helpers/manual-clock.ts';
import { keys as keysUpTo } from '../helpers/registries.ts';

/** One key that is being tried, waiting for the test to answer. */
interface Try {
  readonly accessKey: string;
  succeed(): void;
  fail(error: unknown): void;
}

/** Tokens that are obtained when the test says so, or as a script says. */
class ScriptedTokens {
  readonly clock = new ManualClock();
  readonly tries: Try[] = [];
  underWay = 0;
  mostUnderWay = 0;

  readonly script: ((tried: Try, index: number) => void) | undefined;

  constructor(script?: (tried: Try, index: number) => void) {
    this.script = script;
  }

  run(keys: Iterable<string> | AsyncIterable<string>, options?: WarmUpOptions, concurrency = 4): Promise<WarmUpReport> {
    const time = new Time(this.clock);
    const getToken = (accessKey: string, signal: AbortSignal) => this.#getToken(accessKey, signal);
    const parts = { getToken, concurrency, closing: new AbortController().signal, time };
    return warmUp({ ...parts, maxOwners: 1_000, diagnostics: { emit: () => {} } }, keys, options);
  }

  get keys(): string[] {
    return this.tries.map(({ accessKey }) => accessKey);
  }

  #getToken(accessKey: string, signal: AbortSignal): Promise<void> {
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay);
    let leave = () => {};
    return new Promise<void>((succeed, fail) => {
      leave = () => fail(signal.reason);
      if (signal.aborted) leave();
      signal.addEventListener('abort', leave);
      const tried = { accessKey, succeed, fail };
      this.tries.push(tried);
      this.script?.(tried, this.tries.length - 1);
    }).finally(() => {
      this.underWay--;
      signal.removeEventListener('abort', leave);
    });
  }
}

const succeeding = () => new ScriptedTokens((tried) => tried.succeed());

/** An iterable that says whether it was closed. */
class Keys implements AsyncIterableIterator<string> {
  pulled = 0;
  closed = 0;
  readonly give: (index: number) => Promise<IteratorResult<string>> | IteratorResult<string>;

  constructor(give: Keys['give']) {
    this.give = give;
  }

  static upTo(count: number): Keys {
    return new Keys((index) =>
      index < count ? { done: false, value: `key-${index + 1}` } : { done: true, value: undefined },
    );
  }

  async next(): Promise<IteratorResult<string>> {
    return this.give(this.pulled++);
  }

  async return(): Promise<IteratorResult<string>> {
    this.closed++;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

const refused = (facts: object = {}) => new OwnerTokenError('owner_refused', 'no', { owner: 'an-owner', ...facts });

// The first warm-up of a process loads it.
beforeAll(() => import('p-limit'));

describe('warmUp', () => {
  it('obtains a token for each access key, as many at once as allowed', async () => {
    const tokens = new ScriptedTokens();
    const report = tokens.run(keysUpTo(10), {}, 3);
    for (let answered = 0; answered < 10; answered++) {
      await settle();
      expect(tokens.tries.length).toBe(Math.min(10, answered + 3));
      tokens.tries[answered]?.succeed();
    }
    expect(await report).toEqual({ total: 10, ready: 10, failedCount: 0, failed: [] });
    expect(tokens.keys).toEqual(keysUpTo(10));
    expect(tokens.mostUnderWay).toBe(3);
  });

  it('takes any iterable, also an empty one', async () => {
    const generator = function* () {
      yield* keysUpTo(3);
    };
    for (const keys of [keysUpTo(3), new Set(keysUpTo(3)), generator(), Keys.upTo(3)]) {
      expect(await succeeding().run(keys)).toMatchObject({ total: 3, ready: 3 });
    }
    expect(await succeeding().run([])).toEqual({ total: 0, ready: 0, failedCount: 0, failed: [] });
  });

  it('names the owners that failed, and the index of anything that is no access key', async () => {
    const outcomes = [refused(), new OwnerTokenError('invalid_access_key', 'no')];
    const tokens = new ScriptedTokens((tried, index) => (index < 2 ? tried.fail(outcomes[index]) : tried.succeed()));
    expect(await tokens.run(keysUpTo(3))).toEqual({
      total: 3,
      ready: 1,
      failedCount: 2,
      failed: [
        { owner: 'an-owner', code: 'owner_refused' },
        { owner: 'key 2', code: 'invalid_access_key' },
      ],
    });
  });

  it('refuses arguments that must be mistakes, such as a lone access key', async () => {
    for (const keys of ['one-key', 7, null, {}]) {
      await expect(succeeding().run(keys as string[])).rejects.toMatchObject({ code: 'invalid_options' });
    }
    const wrong = [{ signal: {} }, { onProgress: true }, { onprogress: () => {} }, null];
    for (const options of wrong) {
      await expect(succeeding().run([], options as object)).rejects.toMatchObject({ code: 'invalid_options' });
    }
  });
});

it('the progress of a warm-up is reported after each access key, in reports that do not change later', async () => {
  const seen: WarmUpReport[] = [];
  const tokens = new ScriptedTokens((tried, index) => (index % 2 ? tried.fail(refused()) : tried.succeed()));
  await tokens.run(keysUpTo(4), { onProgress: (done) => seen.push(done) }, 1);
  expect(seen.map(({ ready, failedCount, failed }) => [ready, failedCount, failed.length])).toEqual([
    [1, 0, 0],
    [1, 1, 1],
    [2, 1, 1],
    [2, 2, 2],
  ]);
  expect(seen.every(({ total }) => total === 4)).toBe(true);
});

it('a warm-up ends when onProgress throws', async () => {
  const thrown = new Error('of the listener');
  const keys = Keys.upTo(100);
  const onProgress = () => {
    throw thrown;
  };
  const tokens = new ScriptedTokens((tried, index) => index === 2 && tried.succeed());
  await expect(tokens.run(keys, { onProgress })).rejects.toBe(thrown);
  await settle();
  expect([keys.closed, tokens.underWay]).toEqual([1, 0]);
});

it('a warm-up that is aborted rejects with the reason, lets every request go and closes the iterable', async () => {
  const aborting = new AbortController();
  const reason = new Error('enough');
  const tokens = new ScriptedTokens();
  const keys = Keys.upTo(100);
  let told = 0;
  const report = tokens.run(keys, { signal: aborting.signal, onProgress: () => told++ });
  await settle();
  aborting.abort(reason);
  await expect(report).rejects.toBe(reason);
  await settle();
  expect([tokens.tries.length, tokens.underWay, keys.closed, told]).toEqual([4, 0, 1, 0]);
});

it('a warm-up with a signal that is already aborted pulls nothing', async () => {
  const keys = Keys.upTo(100);
  const reason = new Error('before');
  await expect(succeeding().run(keys, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  expect(keys.pulled).toBe(0);
});

it('a warm-up that is aborted is not held up by an iterable that gives no next access key', async () => {
  const aborting = new AbortController();
  let answer = (_: IteratorResult<string>) => {};
  const keys = new Keys((index) =>
    index === 0 ? { done: false, value: 'key' } : new Promise((resolve) => (answer = resolve)),
  );
  const report = succeeding().run(keys, { signal: aborting.signal });
  await settle();
  aborting.abort(new Error('enough'));
  await expect(report).rejects.toThrow('enough');
  answer({ done: false, value: 'late' });
  await settle();
  expect(keys.closed).toBe(1);
});

it('a warm-up whose iterable throws ends once the requests in flight are let go', async () => {
  const thrown = new Error('of the iterable');
  const tokens = new ScriptedTokens();
  const keys = function* () {
    yield 'key-1';
    yield 'key-2';
    throw thrown;
  };
  await expect(tokens.run(keys())).rejects.toBe(thrown);
  await settle();
  expect(tokens.underWay).toBe(0);
});

describe('in a warm-up', () => {
  /** A service that rate-limits: from this try on, for this long. */
  const limiting = (from: number, forMs: number) => {
    let untilMs: number | undefined;
    const tokens: ScriptedTokens = new ScriptedTokens((tried, index) => {
      if (index < from) return tried.succeed();
      untilMs ??= tokens.clock.now() + forMs;
      return tokens.clock.now() < untilMs
        ? tried.fail(new OwnerTokenError('rate_limited', 'later', { owner: 'an-owner', retryAtMs: untilMs }))
        : tried.succeed();
    });
    return tokens;
  };

  it('a pause of all owners is waited out, and no owner counts as failed', async () => {
    const tokens = limiting(5, 20_000);
    const report = tokens.run(keysUpTo(50));
    await settle();
    const triedBefore = tokens.tries.length;
    tokens.clock.advance(19_999);
    await settle();
    expect(tokens.tries.length).toBe(triedBefore);
    expect(triedBefore).toBeLessThan(5 + 5);
    tokens.clock.advance(1);
    expect(await report).toEqual({ total: 50, ready: 50, failedCount: 0, failed: [] });
    expect(tokens.clock.pendingTimers).toBe(0);
  });

  it('a pause of all owners is waited for a minute, then the rest count as failed', async () => {
    const tokens = limiting(5, 60_001);
    const seen: number[] = [];
    const report = await tokens.run(keysUpTo(50), { onProgress: ({ failedCount }) => seen.push(failedCount) });
    expect(report).toMatchObject({ total: 50, ready: 5, failedCount: 45 });
    expect(report.failed[0]).toEqual({ owner: 'an-owner', code: 'rate_limited' });
    expect(tokens.clock.pendingTimers).toBe(0);
  });

  it.each([
    ['a refused owner', 1, new OwnerTokenError('owner_refused', 'no', { retryAtMs: 1 })],
    ['an owner whose failure is not retryable', 1, new OwnerTokenError('redirect_refused', 'no', { retryAtMs: 1 })],
    ['an owner whose failure may pass', 3, new OwnerTokenError('endpoint_unavailable', 'no', { retryAtMs: 1 })],
    ['an owner of a refused client', 3, new OwnerTokenError('client_refused', 'no', { retryAtMs: 1 })],
  ])('%s counts as failed at try %d', async (_, tries, error) => {
    const tokens = new ScriptedTokens((tried) => tried.fail(error));
    const report = await asTimePasses(tokens.run(keysUpTo(120)), tokens.clock);
    expect(report).toMatchObject({ total: 120, ready: 0, failedCount: 120 });
    expect(report.failed).toHaveLength(100);
    expect(tokens.tries.length).toBe(120 * tries);
  });

  it.each(['rate_limited', 'queue_timeout', 'queue_full'] as const)(
    '%s is waited out like a pause of all owners',
    async (code) => {
      const tokens: ScriptedTokens = new ScriptedTokens((tried) => {
        if (tokens.clock.monotonic() < 30_000) tried.fail(new OwnerTokenError(code, 'no', { failureScope: 'owner' }));
        else tried.succeed();
      });
      expect(await asTimePasses(tokens.run(keysUpTo(5)), tokens.clock)).toMatchObject({ ready: 5, failedCount: 0 });
    },
  );

  it('a wait for the end of a pause ends with the signal, and leaves no timer', async () => {
    const aborting = new AbortController();
    const tokens = limiting(0, 30_000);
    const report = tokens.run(keysUpTo(50), { signal: aborting.signal });
    await settle();
    expect(tokens.clock.pendingTimers).toBe(4);
    aborting.abort(new Error('enough'));
    await expect(report).rejects.toThrow('enough');
    expect(tokens.clock.pendingTimers).toBe(0);
  });
});
