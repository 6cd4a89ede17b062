/**
 * P. The API answers 401 to tokens that are not at fault. F is about the tokens, and `unauthorized-calls.test.ts` about calls
 * over real sockets; here owners call an API in virtual time, and a call that got a 401 is made once more.
 */

import { describe, expect, it } from 'vitest';
import { type AccessToken, OwnerTokenError, type OwnerTokenRegistryOptions } from '../../src/index.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, isSettled, keys, scripted, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const OWNERS = keys(20);
const MINUTE = 60_000;

/** An API in virtual time, which accepts what the test says. */
function withApi(options: Partial<Omit<OwnerTokenRegistryOptions, 'clock'>> = {}, lifetimeSeconds = 3_600) {
  const scene = scripted({ pauses: {}, ...options }, ScriptedSource.answering(lifetimeSeconds));
  const { registry, clock } = scene;
  const accepts = { token: (_token: AccessToken): boolean => true };
  /** Makes a call, at most twice; returns whether it was served. */
  const call = async (owner: string): Promise<boolean> => {
    for (let attempt = 0; attempt < 2; attempt++) {
      const token = await registry.getToken(owner);
      if (accepts.token(token)) {
        registry.accept(owner, token);
        return true;
      }
      registry.reject(owner, token);
    }
    return false;
  };
  /** Each owner calls once a second. Returns how many calls were served. */
  const pass = async (ms: number): Promise<number> => {
    let served = 0;
    for (let leftMs = ms; leftMs > 0; leftMs -= 1_000) {
      for (const owner of OWNERS) if (await call(owner)) served++;
      clock.advance(1_000);
    }
    return served;
  };
  return { ...scene, accepts, call, pass };
}

describe('P1', () => {
  it.each([
    // Two at once, and one after 10, 30, 70, 150 and 310 s; then every 300 s.
    { minutes: 1, most: 3 },
    { minutes: 5, most: 5 },
    { minutes: 20, most: 9 },
  ])(
    'the API refuses all for $minutes min: one request each time a token is kept; the first call after is served',
    async ({ minutes, most }) => {
      const { source, accepts, pass } = withApi();
      await pass(MINUTE);
      const before = source.calls.length;
      accepts.token = () => false;
      expect(await pass(minutes * MINUTE)).toBe(0);
      expect(source.calls.length - before).toBeLessThanOrEqual(most * OWNERS.length);
      expect(source.calls.length - before).toBeGreaterThanOrEqual((most - 1) * OWNERS.length);
      accepts.token = () => true;
      expect(await pass(1_000)).toBe(OWNERS.length);
    },
  );

  it.each([200, 2_000, 8_000])(
    'the API accepts a token only %i ms after its issue: two requests per life, and every later call is served',
    async (lateMs) => {
      const { registry, source, clock, accepts, call } = withApi();
      accepts.token = ({ issuedAtMs }) => clock.now() - issuedAtMs >= lateMs;
      let refused = 0;
      for (let tenth = 0; tenth < 18_000; tenth++) {
        if (!(await call('key-1'))) refused++;
        clock.advance(100);
      }
      expect(source.calls).toHaveLength(2);
      expect(refused).toBe(lateMs / 100);
      expect(registry.describe('key-1').code).toBeUndefined();
    },
  );

  it('one node of ten refuses all tokens for 5 min: second attempts are served; a 401 costs one request at most', async () => {
    const { source, accepts, pass } = withApi();
    await pass(MINUTE);
    const before = source.calls.length;
    let calls = 0;
    accepts.token = () => ++calls % 10 !== 0;
    expect(await pass(5 * MINUTE)).toBe(5 * 60 * OWNERS.length);
    expect(source.calls.length - before).toBeLessThanOrEqual(calls / 10);
  });

  it('all tokens are revoked while some owners are being refreshed: each gets a token that works, and none is kept', async () => {
    const { registry, source, clock, accepts, call, pass } = withApi();
    await pass(1_000);
    source.script(undefined);
    clock.advance(0.8 * 3_600_000);
    const refreshing = OWNERS.slice(0, 10);
    for (const owner of refreshing) await registry.getToken(owner);
    await settle();
    clock.advance(1);
    const revokedAtMs = clock.now();
    accepts.token = ({ issuedAtMs }) => issuedAtMs > revokedAtMs;
    for (const owner of OWNERS.slice(10))
      expect(registry.reject(owner, registry.peek(owner) as AccessToken)).toBe(true);
    for (const owner of refreshing) expect(registry.reject(owner, registry.peek(owner) as AccessToken)).toBe(true);
    // They were sent before the tokens were revoked.
    const response = { expires_in: 3_600 };
    for (let index = 20; index < 30; index++) source.call(index).succeed({ response });
    await settle();
    clock.advance(1);
    source.script((request) => request.succeed({ response }));
    for (const owner of OWNERS) expect(await call(owner)).toBe(true);
    expect(source.calls).toHaveLength(20 + 10 + 20);
    expect(registry.stats().pauses.owners).toBe(0);
  });
});

describe('P1 a 401 never makes getToken fail while a token lives', () => {
  const down = (code: 'endpoint_unavailable' | 'owner_refused' = 'endpoint_unavailable') =>
    new OwnerTokenError(code, 'down', { status: 503 });

  it('the token service fails: the call that asked gets the rejected token, and so do the calls in its backoff', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering());
    const token = await registry.getToken('key-1');
    source.script((call) => call.fail(down()));
    registry.reject('key-1', token);
    expect(registry.peek('key-1')).toBeUndefined();
    expect(tally(await callAtOnce(10, registry, 'key-1'))).toEqual({ tokens: [token.value], codes: {} });
    expect(await registry.getToken('key-1')).toBe(token);
    expect(registry.peek('key-1')).toBe(token);
    expect(source.calls).toHaveLength(2);
    expect(registry.describe('key-1')).toMatchObject({ phase: 'rejected', code: 'endpoint_unavailable' });
    // The next attempt is the backoff's, not the next call's.
    source.script((call) => call.succeed());
    clock.advance(300_000);
    expect((await registry.getToken('key-1')).value).not.toBe(token.value);
  });

  it('an accepted call restores a rejected token', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering());
    const token = await registry.getToken('key-1');
    source.script((call) => call.fail(down()));
    registry.reject('key-1', token);
    registry.accept('key-1', await registry.getToken('key-1'));
    source.script((call) => call.succeed());
    clock.advance(300_000);
    expect(await registry.getToken('key-1')).toBe(token);
    expect(source.calls).toHaveLength(2);
    expect(registry.reject('key-1', token)).toBe(true);
    expect(await registry.getToken('key-1')).not.toBe(token);
  });

  it('an open circuit gives out the rejected token at once', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const token = await registry.getToken('key-1');
    source.script((call) =>
      call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 5_000 })),
    );
    await registry.getToken('key-2').catch(() => {});
    registry.reject('key-1', token);
    const asked = source.calls.length;
    expect(await registry.getToken('key-1')).toBe(token);
    expect(registry.peek('key-1')).toBe(token);
    expect(source.calls).toHaveLength(asked);
  });

  it('a request that hangs: the call gets the rejected token in time', async () => {
    const { registry, source, clock } = scripted({ requestTimeoutMs: 10_000 }, ScriptedSource.answering());
    const token = await registry.getToken('key-1');
    source.script(undefined);
    registry.reject('key-1', token);
    const call = registry.getToken('key-1');
    await settle();
    clock.advance(9_999);
    expect(await isSettled(call)).toBe(false);
    clock.advance(1);
    expect(await call).toBe(token);
  });

  it('a full queue gives out the rejected token instead of queue_full', async () => {
    const { registry, source } = scripted({ concurrency: 1, maxQueued: 1 }, ScriptedSource.answering());
    const token = await registry.getToken('key-1');
    source.script(undefined);
    for (const owner of ['key-2', 'key-3']) void registry.getToken(owner).catch(() => {});
    await settle();
    registry.reject('key-1', token);
    expect(await registry.getToken('key-1')).toBe(token);
  });

  it('an exhausted quota gives out the rejected token after a second, and the request for a newer one goes on', async () => {
    const { registry, source, clock } = scripted({ requestsPerSecond: 0.1 }, ScriptedSource.answering());
    const token = await registry.getToken('key-1');
    registry.reject('key-1', token);
    const call = registry.getToken('key-1');
    for (let tenth = 0; tenth < 10; tenth++) {
      expect(await isSettled(call)).toBe(false);
      clock.advance(100);
    }
    expect(await call).toBe(token);
    // Its turn is due: later calls do not wait for a second again.
    expect(await registry.getToken('key-1')).toBe(token);
    expect(registry.peek('key-1')).toBe(token);
    clock.advance(10_000);
    await settle();
    expect(source.calls).toHaveLength(2);
    expect(registry.peek('key-1')).not.toBe(token);
  });

  it('warmUp counts an owner with a rejected token as ready', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    registry.reject('key-1', await registry.getToken('key-1'));
    source.script((call) => call.fail(down('owner_refused')));
    expect(await registry.warmUp(['key-1'])).toMatchObject({ ready: 1, failedCount: 0 });
  });

  it('a token that has ended is not given out, whatever fails', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100));
    registry.reject('key-1', await registry.getToken('key-1'));
    source.script((call) => call.fail(down()));
    clock.advance(100_000);
    await expect(registry.getToken('key-1')).rejects.toMatchObject({ code: 'endpoint_unavailable' });
  });
});
