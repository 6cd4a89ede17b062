/** Row M4: whatever a source throws, returns or never does, its caller settles and its place is free. */

import { describe, expect, it } from 'vitest';
import { isOwnerTokenError, OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import { asTimePasses, ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf, isSettled, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { seeded } from '../helpers/seeded.mjs';
import { strangeReturn, strangeThrow } from '../helpers/strange-values.ts';

/** How many of each are tried; a longer run: `STRANGE_VALUES=100000 npx vitest run strange-sources`. */
const VALUES = Number(process.env.STRANGE_VALUES ?? 2_000);
const SEED = Number(process.env.STRANGE_SEED ?? 1);
const TIMEOUT_MS = 30_000 + VALUES * 20;

const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

const refused = () => new OwnerTokenError('owner_refused', 'no');

/** Each is thrown by the trial request of a half-open circuit: were its place lost, every owner would be refused. */
const THROWN: [string, () => unknown][] = [
  ['a Proxy around an OwnerTokenError', () => new Proxy(refused(), {})],
  ['a revoked Proxy', revoked],
  [
    'an OwnerTokenError with another code',
    () => Object.defineProperty(refused(), 'code', { value: 'of no such kind' }),
  ],
  [
    'an OwnerTokenError whose code is an object that converts to another code each time',
    () => {
      let reads = 0;
      const convert = () => (reads++ > 1 ? 'unknown' : 'rate_limited');
      return Object.defineProperty(refused(), 'code', { value: { toString: convert } });
    },
  ],
  ['an OwnerTokenError whose code is an array', () => Object.defineProperty(refused(), 'code', { value: ['closed'] })],
  [
    'an OwnerTokenError whose scope is an array',
    () =>
      Object.defineProperty(new OwnerTokenError('rate_limited', 'no', { failureScope: 'client' }), 'failureScope', {
        value: ['client'],
      }),
  ],
  ['an OwnerTokenError whose message is no string', () => Object.defineProperty(refused(), 'message', { value: 7 })],
  [
    'an OwnerTokenError whose message throws',
    () =>
      Object.defineProperty(refused(), 'message', {
        get() {
          throw new Error('read me not');
        },
      }),
  ],
  ['an object without a prototype', () => Object.create(null)],
  ['undefined', () => undefined],
  ['a symbol', () => Symbol('thrown')],
];

describe('M4 a source that throws', () => {
  it.each(THROWN)('%s fails its call, and the trial request leaves its place', async (_, thrown) => {
    const { registry, source, clock } = scripted();
    source.script((call) =>
      call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint' })),
    );
    await errorOf(registry.getToken('key-1'));
    clock.advance(60_000);
    source.script((call) => call.fail(thrown()));
    const error = await errorOf(registry.getToken('key-2'));
    // As the trial of an open circuit, it says whose circuit stays open.
    expect(['source_failed', 'client_refused']).toContain(error.code);
    await settle();
    expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0, waiting: 0 });
    expect(registry.stats().pauses.endpoint?.probing ?? false).toBe(false);
    source.script((call) => call.succeed());
    clock.advance(60_000);
    expect((await registry.getToken('key-3')).value).toMatch(/-of-key-3$/);
    await registry.close();
  });
});

describe('M4 an object that becomes a thenable', () => {
  /** Its `then` never settles once it is a function. */
  const changing = (readsBefore: number) => {
    let reads = 0;
    const never = () => {};
    return Object.defineProperty({ token: 'a-token' }, 'then', {
      get: () => (reads++ < readsBefore ? undefined : never),
    });
  };

  it.each([1, 2, 3, 4])('after %d reads is a token like any other if a source returns it', async (reads) => {
    const registry = new OwnerTokenRegistry({ source: { requestToken: () => changing(reads) as never } });
    expect((await registry.getToken('key')).value).toBe('a-token');
    await registry.close();
  });

  it.each([1, 2, 3, 4])('after %d reads delays no close if close() of a source returns it', async (reads) => {
    const source = Object.assign(new ScriptedSource(), { close: () => changing(reads) as never });
    const { registry, clock } = scripted({}, source);
    await registry.close();
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('M4 a token', () => {
  it.each(['\t a-token\r\n', 'x'.repeat(65_536)])(
    'with white space around it, or of 64 KB, is served: %#',
    async (token) => {
      const registry = new OwnerTokenRegistry({ source: { requestToken: async () => ({ token }) } });
      expect((await registry.getToken('key')).authorization).toBe(`Bearer ${token.trim()}`);
      await registry.close();
    },
  );

  it.each<[string, unknown, string]>([
    ['is missing', undefined, 'it is not an object'],
    ['has no value', {}, 'the token is not a string'],
    ['is empty', { token: ' ' }, 'the token is empty'],
    ['is too long', { token: 'x'.repeat(65_537) }, 'the token is longer than 65536 characters'],
    ['would split a header', { token: 'a\r\nb' }, 'the token has characters that are not allowed in a header'],
    ['has a type that is not a string', { token: 'a', tokenType: 7 }, 'the token type is not a string'],
    ['has an invalid request time', { token: 'a', requestedAtMs: 'now' }, 'requestedAtMs is not a finite number'],
    ['has an invalid service time', { token: 'a', serviceTimeMs: 'now' }, 'serviceTimeMs is not a finite number'],
  ])('that %s is an invalid_response that says why', async (_, returned, problem) => {
    const registry = new OwnerTokenRegistry({ source: { requestToken: async () => returned as never } });
    const message = `the token source returned no usable token: ${problem}`;
    expect(await errorOf(registry.getToken('key'))).toMatchObject({ code: 'invalid_response', message });
    await registry.close();
  });
});

describe('M4 a source that does not settle', () => {
  it('is given up after requestTimeoutMs: its signal is aborted and its place serves the next owner', async () => {
    const { registry, source, clock } = scripted({ concurrency: 1, requestTimeoutMs: 5_000 });
    const first = registry.getToken('key-1');
    const second = registry.getToken('key-2');
    await settle();
    clock.advance(4_999);
    expect(await isSettled(first)).toBe(false);
    clock.advance(1);
    expect(await errorOf(first)).toMatchObject({ code: 'endpoint_unavailable', retryable: true });
    await settle();
    expect(source.call(0).request.signal.aborted).toBe(true);
    source.call(1).succeed();
    expect((await second).value).toMatch(/-of-key-2$/);
    // Its late answer changes nothing.
    source.call(0).succeed();
    await settle();
    expect(registry.peek('key-1')).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
    await registry.close();
  });

  it('is given up after 30 seconds by default, as the trial request too', async () => {
    const { registry, source, clock } = scripted();
    source.script((call) =>
      call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint' })),
    );
    await errorOf(registry.getToken('key-1'));
    clock.advance(60_000);
    source.script(undefined);
    const trial = registry.getToken('key-2');
    await settle();
    clock.advance(29_999);
    expect(await isSettled(trial)).toBe(false);
    clock.advance(1);
    expect((await errorOf(trial)).code).toBe('endpoint_unavailable');
    expect(registry.stats().pauses.endpoint?.probing).toBe(false);
    await registry.close();
  });
});

describe('M4 random values', () => {
  /** Calls with a source that answers so, once per owner, and checks that every call settles in a way of ours. */
  async function tryAll(answer: (random: () => number) => () => unknown): Promise<void> {
    const random = seeded(SEED);
    const clock = new ManualClock();
    let current: () => unknown = () => undefined;
    const source = { requestToken: async () => current() as never };
    const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, requestTimeoutMs: 1_000 });
    for (let number = 0; number < VALUES; number++) {
      current = answer(random);
      const key = `key-${number % 50}`;
      let outcome: unknown;
      const call = registry.getToken(key).then(
        (token) => (outcome = token.value),
        (error) => (outcome = error),
      );
      for (let turn = 0; turn < 20 && outcome === undefined; turn++) await Promise.resolve();
      // A request that is sent again draws another value, which may hang like the first.
      if (outcome === undefined) await asTimePasses(call, clock, 1_000);
      if (typeof outcome !== 'string' && !isOwnerTokenError(outcome)) {
        throw new Error(`value ${number} of seed ${SEED} gave something else`, { cause: outcome });
      }
      registry.forget(key);
      registry.resume();
    }
    await settle();
    expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0, waiting: 0 });
    expect(clock.pendingTimers).toBe(0);
    current = () => ({ token: 'good' });
    expect((await registry.getToken('at the end')).value).toBe('good');
    await registry.close();
  }

  it(
    'thrown by a source settle every call',
    async () => {
      await tryAll((random) => () => {
        throw strangeThrow(random);
      });
    },
    TIMEOUT_MS,
  );

  it(
    'returned by a source settle every call',
    async () => {
      await tryAll((random) => () => strangeReturn(random));
    },
    TIMEOUT_MS,
  );
});
