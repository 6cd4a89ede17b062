/** What is promised of the registry and no row above says in its own words: sentence by sentence. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { json, LoopbackService, silence, status, token } from '../helpers/loopback-service.ts';
import { settle } from '../helpers/manual-clock.ts';
import { callAtOnce, errorOf, isSettled, keys, overHttp, scripted, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const unavailable = () => new OwnerTokenError('endpoint_unavailable', 'down');
const failWith = (make: () => unknown) => new ScriptedSource((call) => call.fail(make()));

describe('getToken', () => {
  it('past the refresh point starts no request while a pause of any scope is in force', async () => {
    for (const scope of ['client', 'endpoint'] as const) {
      const source = ScriptedSource.answering(100);
      const { registry, clock } = scripted({}, source);
      const held = await registry.getToken('key-1');
      clock.advance(80_000);
      source.script((call) =>
        call.fail(new OwnerTokenError('rate_limited', 'no', { failureScope: scope, retryAfterMs: 5_000 })),
      );
      await errorOf(registry.getToken('key-2'));
      for (let call = 0; call < 10; call++) expect(await registry.getToken('key-1')).toBe(held);
      await settle();
      expect(source.calls).toHaveLength(2);
      source.script((call) => call.succeed());
      clock.advance(5_000);
      expect(await registry.getToken('key-1')).toBe(held);
      await settle();
      expect(source.calls).toHaveLength(3);
      expect(registry.stats().pauses).toEqual({ owners: 0 });
    }
  });

  it('asks an injected clock for both its times at each hit, and for nothing else', async () => {
    const asked: string[] = [];
    const tell = (name: string, time: number) => () => {
      asked.push(name);
      return time;
    };
    const clock = { now: tell('now', 1e12), monotonic: tell('monotonic', 5) };
    const registry = new OwnerTokenRegistry({ source: ScriptedSource.answering(), clock });
    await registry.getToken('key-1');
    asked.length = 0;
    await registry.getToken('key-1');
    expect(asked.sort()).toEqual(['monotonic', 'now']);
    await registry.close();
  });

  it('is asked for with the reason, what is held, and what must not come again', async () => {
    const { registry, source, clock } = scripted({}, ScriptedSource.answering(100));
    const first = await registry.getToken('key-1');
    clock.advance(80_000);
    await registry.getToken('key-1');
    await settle();
    const second = await registry.getToken('key-1');
    clock.advance(100_000);
    const third = await registry.getToken('key-1');
    registry.reject('key-1', third);
    await registry.getToken('key-1');
    const told = source.calls.map(({ request: { reason, held, rejected } }) => ({ reason, held, rejected }));
    expect(told).toEqual([
      { reason: 'absent' },
      { reason: 'refresh', held: first },
      { reason: 'expired' },
      { reason: 'rejected', rejected: third },
    ]);
    expect(second).not.toBe(first);
    for (const { request } of source.calls) expect(request.signal.aborted).toBe(false);
  });

  it("tells a source what the registry's policy makes of a grant", async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    await registry.getToken('key-1');
    const { lifetimeMs } = source.call(0).request;
    expect(lifetimeMs({ token: 'opaque', response: { expires_in: 60 } })).toBe(60_000);
    expect(lifetimeMs({ token: 'opaque', response: { expires_in: -1 } })).toBe(300_000);
    expect(lifetimeMs({ token: 'opaque' })).toBe(300_000);
  });

  it('never has more under way than concurrency allows, as the service counts it', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const { registry } = overHttp(service, { concurrency: 3 });
    const all = keys(30).map((key) => registry.getToken(key));
    for (let answered = 0; answered < 30; answered += 3) {
      await service.arrived(answered + 3);
      await settle();
      expect(service.calls).toHaveLength(answered + 3);
      for (const call of service.calls.slice(answered)) call.answer(token());
    }
    await Promise.all(all);
    await registry.close();
  });

  it('takes a grant dated in the time to come, or of another scheme, for what it can be', async () => {
    const { registry, clock, source } = scripted({}, ScriptedSource.answering(100));
    const startMs = clock.now();
    source.script((call) =>
      call.succeed({ requestedAtMs: startMs + 3_600_000, tokenType: 'bearer', response: { expires_in: 100 } }),
    );
    expect(await registry.getToken('key-1')).toMatchObject({
      issuedAtMs: startMs,
      expiresAtMs: startMs + 95_000,
      tokenType: 'Bearer',
    });
    source.script((call) => call.succeed({ token: 'abc', tokenType: 'DPoP' }));
    expect((await registry.getToken('key-2')).authorization).toBe('DPoP abc');
    for (const bad of [
      { token: '' },
      { token: 'a b' },
      { token: 'a\r\nb' },
      { tokenType: 'a b' },
      { requestedAtMs: Number.NaN },
    ]) {
      source.script((call) => call.succeed(bad));
      expect((await errorOf(registry.getToken(`bad ${JSON.stringify(bad)}`))).code).toBe('invalid_response');
      registry.resume();
    }
  });
});

describe('what is held', () => {
  it('the least recently used owner goes first; looking at one is no use of it', async () => {
    const { registry, source } = scripted({ maxOwners: 3 }, ScriptedSource.answering());
    for (const key of keys(3)) await registry.getToken(key);
    await registry.getToken('key-1');
    registry.peek('key-2');
    registry.describe('key-2');
    registry.fingerprint('key-2');
    registry.stats();
    await registry.getToken('key-4');
    expect(keys(4).map((key) => registry.peek(key) !== undefined)).toEqual([true, false, true, true]);
    expect(registry.stats()).toMatchObject({ owners: 3, evictions: 1 });
    expect(source.calls).toHaveLength(4);
  });

  it('forget is true if a token, a pause or a request was held, and leaves none of them', async () => {
    const source = ScriptedSource.answering();
    const { registry } = scripted({}, source);
    expect(registry.forget('key-1')).toBe(false);
    await registry.getToken('key-1');
    expect([registry.forget('key-1'), registry.forget('key-1')]).toEqual([true, false]);
    source.script((call) => call.fail(new Error('no')));
    await errorOf(registry.getToken('key-1'));
    expect([registry.forget('key-1'), registry.forget('key-1')]).toEqual([true, false]);
    source.script(undefined);
    const waiting = registry.getToken('key-1'); // No pause is left: it asks at once.
    await settle();
    expect(source.calls).toHaveLength(3);
    expect([registry.forget('key-1'), registry.forget('key-1')]).toEqual([true, false]);
    source.call(2).succeed();
    await waiting;
    expect(registry.stats()).toMatchObject({ owners: 0, inFlight: 0 });
  });

  it('forgetAll drops every token, pause and request of an owner, and lets those who wait have theirs', async () => {
    const source = ScriptedSource.answering();
    const { registry } = scripted({}, source);
    await registry.getToken('key-1');
    source.script((call) => call.fail(new Error('no')));
    await errorOf(registry.getToken('key-2'));
    source.script(undefined);
    const waiting = registry.getToken('key-3');
    await settle();
    registry.forgetAll();
    expect(keys(3).map((key) => registry.describe(key).phase)).toEqual(['empty', 'empty', 'empty']);
    source.call(2).succeed();
    expect((await waiting).value).toBe('token-2-of-key-3');
    expect(registry.stats()).toMatchObject({ owners: 0, usable: 0, pauses: { owners: 0 } });
  });

  it('describe tells the phase of an owner, and with it only what is so', async () => {
    const { registry, clock, source } = scripted();
    const phase = () => registry.describe('key-1');
    expect(phase()).toEqual({ phase: 'empty' });
    const first = registry.getToken('key-1');
    expect(phase()).toEqual({ phase: 'requesting' });
    await settle();
    source.call(0).fail(new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' }));
    await errorOf(first);
    expect(phase()).toEqual({ phase: 'backing-off', code: 'owner_refused', retryAtMs: clock.now() + 750 });
    clock.advance(750);
    expect(phase()).toEqual({ phase: 'empty', code: 'owner_refused', retryAtMs: clock.now() });
    const second = registry.getToken('key-1');
    await settle();
    source.call(1).succeed({ response: { expires_in: 100 } });
    const { expiresAtMs } = await second;
    expect(phase()).toEqual({ phase: 'fresh', expiresAtMs });
    clock.advance(70_000);
    expect(phase()).toEqual({ phase: 'refresh-due', expiresAtMs });
    await registry.getToken('key-1');
    await settle();
    source.call(2).fail(new OwnerTokenError('rate_limited', 'no', { retryAfterMs: 60_000 }));
    await settle();
    const paused = { code: 'rate_limited', retryAtMs: clock.now() + 60_000 };
    expect(phase()).toEqual({ phase: 'refresh-due', expiresAtMs, ...paused });
    clock.advance(25_000);
    expect(phase()).toEqual({ phase: 'backing-off', ...paused });
    clock.advance(35_000);
    expect(phase().phase).toBe('expired');
    expect(source.calls).toHaveLength(3);
  });

  it('stats are counted as they happen', async () => {
    const { registry, clock, source } = scripted({ concurrency: 1, maxOwners: 2 }, ScriptedSource.answering(100));
    await callAtOnce(3, registry, 'key-1');
    await registry.getToken('key-1');
    clock.advance(80_000);
    await registry.getToken('key-1');
    await settle();
    registry.reject('key-1', await registry.getToken('key-1'));
    source.script((call) => call.fail(new Error('no')));
    await errorOf(registry.getToken('key-2'));
    source.script(undefined);
    const left = new AbortController();
    const waiting = [
      registry.getToken('key-1'),
      registry.getToken('key-1'),
      registry.getToken('key-3', { signal: left.signal }),
    ];
    await settle();
    const { pauses, ...counts } = registry.stats();
    expect(counts).toEqual({
      ...{ owners: 2, usable: 0, inFlight: 1, queued: 1, waiting: 3 },
      ...{ hits: 3, joined: 3, requests: 4, refreshes: 1, failures: 1, rejections: 1, evictions: 0 },
    });
    expect(pauses).toEqual({ owners: 1 });
    left.abort();
    await errorOf(waiting[2] as never).catch(() => {});
    source.script((call) => call.succeed());
    source.call(3).succeed();
    await Promise.all(waiting.slice(0, 2));
    await registry.getToken('key-4');
    expect(registry.stats()).toMatchObject({ owners: 2, evictions: 1, inFlight: 0, queued: 0, waiting: 0 });
    expect(JSON.parse(JSON.stringify(registry.stats()))).toEqual(registry.stats());
  });

  it('an owner goes by one name in errors, descriptions and reports', async () => {
    const { registry } = scripted(
      { ownerLabel: (key) => `customer ${key.length}` },
      failWith(() => new Error('no')),
    );
    const error = await errorOf(registry.getToken('key-1'));
    expect([error.owner, (await errorOf(registry.getToken('key-1'))).owner, registry.fingerprint('key-1')]).toEqual(
      Array(3).fill('customer 5'),
    );
    expect(await registry.warmUp(['key-1'])).toEqual({
      ...{ total: 1, ready: 0, failedCount: 1 },
      failed: [{ owner: 'customer 5', code: 'source_failed' }],
    });
  });
});

describe('failures', () => {
  it('tell when they happened, how long ago that is, and when the next attempt may be made', async () => {
    const { registry, clock, source } = scripted(
      {},
      failWith(() => new Error('no')),
    );
    const failedAtMs = clock.now();
    const first = await errorOf(registry.getToken('key-1'));
    expect(first).toMatchObject({ failedAtMs, retryAtMs: failedAtMs + 750 });
    clock.advance(200);
    const second = await errorOf(registry.getToken('key-1'));
    expect(second).toMatchObject({ code: first.code, failedAtMs, retryAtMs: failedAtMs + 750, retryable: true });
    expect(second.message).toMatch(/in 0\.\d s; 0\.2 s ago/);
    // Drawn once: however often it is asked, the moment stays.
    for (let call = 0; call < 20; call++)
      expect((await errorOf(registry.getToken('key-1'))).retryAtMs).toBe(failedAtMs + 750);
    expect(source.calls).toHaveLength(1);
  });

  it('jitter takes at most half of a pause, and a random of any kind keeps to that', async () => {
    for (const [drawn, pauseMs] of [
      [0, 500],
      [0.999, 1_000],
      [Number.NaN, 750],
      [7, 750],
      [-3, 750],
      ['x', 750],
    ] as const) {
      const { registry, clock } = scripted(
        { random: () => drawn as number },
        failWith(() => new Error('no')),
      );
      const { retryAtMs } = await errorOf(registry.getToken('key-1'));
      expect(Math.abs((retryAtMs ?? 0) - clock.now() - pauseMs)).toBeLessThanOrEqual(1);
    }
  });

  it('of three distinct owners in a row are the endpoint’s, of whatever kinds; of one owner they are its own', async () => {
    const kinds = [unavailable, () => new OwnerTokenError('invalid_response', 'nonsense'), unavailable];
    const source = new ScriptedSource((call, index) => call.fail((kinds[index % 3] as () => unknown)()));
    const { registry, clock } = scripted({}, source);
    for (let round = 0; round < 6; round++) {
      expect((await errorOf(registry.getToken('key-1'))).failureScope).toBe('owner');
      clock.advance(300_000);
    }
    expect((await errorOf(registry.getToken('key-2'))).failureScope).toBe('owner');
    expect((await errorOf(registry.getToken('key-3'))).failureScope).toBe('endpoint');
    expect((await errorOf(registry.getToken('key-4'))).failureScope).toBe('endpoint');
    expect(source.calls).toHaveLength(8);
  });

  it('that are an owner’s on purpose never count for others, and a success begins the count anew', async () => {
    const source = new ScriptedSource();
    const { registry } = scripted({}, source);
    const outcome = async (
      key: string,
      script: (call: Parameters<NonNullable<Parameters<ScriptedSource['script']>[0]>>[0]) => void,
    ) => {
      source.script(script);
      return registry.getToken(key).then(
        () => 'ok',
        (error: OwnerTokenError) => error.failureScope,
      );
    };
    const onPurpose = () => new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'owner' });
    for (const key of keys(10)) {
      expect(await outcome(key, (call) => call.fail(onPurpose()))).toBe('owner');
      expect(await outcome(`${key} throws`, (call) => call.fail(new Error('no')))).toBe('owner');
    }
    for (const round of [1, 2, 3]) {
      for (const n of [1, 2])
        expect(await outcome(`anybody's ${round} ${n}`, (call) => call.fail(unavailable()))).toBe('owner');
      expect(await outcome(`good ${round}`, (call) => call.succeed())).toBe('ok');
    }
  });

  it.each([
    ['names the owner', 'invalid_grant', [true, true]],
    ['has no code', undefined, [false, true]],
  ] as const)(
    'a probe that is refused and %s lifts what it disproves',
    async (_, oauthError, [liftsClient, liftsEndpoint]) => {
      for (const [scope, lifts] of [
        ['client', liftsClient],
        ['endpoint', liftsEndpoint],
      ] as const) {
        const { registry, clock, source } = scripted(
          {},
          failWith(() => new OwnerTokenError('rate_limited', 'no', { failureScope: scope })),
        );
        await errorOf(registry.getToken('key-1'));
        clock.advance(1_000);
        source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no', { oauthError })));
        await errorOf(registry.getToken('key-2'));
        expect(registry.stats().pauses[scope] === undefined).toBe(lifts);
      }
    },
  );

  it('a probe whose caller leaves at once, or whose owner is forgotten, does not leave the pause without one', async () => {
    const { registry, clock, source } = scripted(
      {},
      failWith(() => new OwnerTokenError('rate_limited', 'no')),
    );
    await errorOf(registry.getToken('key-1'));
    clock.advance(1_000);
    source.script(undefined);
    const caller = new AbortController();
    const left = registry.getToken('key-2', { signal: caller.signal });
    caller.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    await settle();
    const probe = registry.getToken('key-3');
    await settle();
    expect(source.calls).toHaveLength(2);
    registry.forget('key-3');
    await errorOf(registry.getToken('key-4'));
    source.call(1).succeed();
    await probe;
    expect(registry.stats().pauses.endpoint).toBeUndefined();
    source.script((call) => call.succeed());
    await registry.getToken('key-4');
  });

  it('Retry-After is kept in the scope of the failure that carries it', async () => {
    await using service = await LoopbackService.start();
    service.next(
      status(503, '', { 'retry-after': '120' }),
      json(400, { error: 'invalid_grant' }, { 'retry-after': '60' }),
    );
    const { registry, clock } = overHttp(service);
    expect(await errorOf(registry.getToken('key-1'))).toMatchObject({
      failureScope: 'owner',
      retryAtMs: clock.now() + 120_000,
    });
    expect(await errorOf(registry.getToken('key-2'))).toMatchObject({
      failureScope: 'owner',
      retryAtMs: clock.now() + 60_000,
    });
    await registry.getToken('key-3');
    clock.advance(60_000);
    await registry.getToken('key-2');
    expect((await errorOf(registry.getToken('key-1'))).status).toBe(503);
    await registry.close();
  });

  it('resume lifts one owner’s pause, or every one', async () => {
    const { registry, source } = scripted(
      {},
      failWith(() => new Error('no')),
    );
    for (const key of keys(3)) await errorOf(registry.getToken(key));
    source.script((call) => call.succeed());
    registry.resume('key-1');
    await registry.getToken('key-1');
    await errorOf(registry.getToken('key-2'));
    registry.resume();
    await Promise.all(keys(3).map((key) => registry.getToken(key)));
    expect(source.calls).toHaveLength(6);
  });
});

describe('warmUp', () => {
  it('obtains a token for each owner, no more at once than concurrency, and rides out a rate limit', async () => {
    await using service = await LoopbackService.start();
    const { registry, clock } = overHttp(service, { concurrency: 4 });
    await registry.getToken('key-1');
    service.next(token(), json(429, {}, { 'retry-after': '5' }));
    let done = false;
    const progress: number[] = [];
    const report = registry.warmUp(keys(30), { onProgress: ({ ready }) => void progress.push(ready) });
    void report.finally(() => (done = true));
    while (!done) {
      await settle();
      clock.advance(500);
    }
    expect(await report).toEqual({ total: 30, ready: 30, failedCount: 0, failed: [] });
    expect(progress).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
    expect(service.countFor('key-1')).toBe(1);
    expect(new Set(service.calls.map((call) => call.accessKey)).size).toBe(30);
    await registry.close();
  });

  it('aborted rejects with the reason, and leaves what is under way to those who wait for it', async () => {
    await using service = await LoopbackService.start();
    service.always(silence());
    const { registry } = overHttp(service, { concurrency: 2 });
    const caller = new AbortController();
    const warmedUp = registry.warmUp(keys(10), { signal: caller.signal });
    await service.arrived(2);
    const waiting = registry.getToken('key-1');
    const reason = new Error('enough');
    caller.abort(reason);
    await expect(warmedUp).rejects.toBe(reason);
    expect(await isSettled(waiting)).toBe(false);
    for (const call of service.calls) call.answer(token());
    await waiting;
    expect(service.calls).toHaveLength(2);
    await registry.close();
  });

  it('with credentials that are refused it counts the owners, and makes no POST for each', async () => {
    await using service = await LoopbackService.start();
    service.always(json(401, { error: 'invalid_client' }));
    const { registry } = overHttp(service);
    const report = await registry.warmUp(keys(500));
    expect(report).toMatchObject({ total: 500, ready: 0, failedCount: 500 });
    expect(report.failed).toHaveLength(100);
    expect(service.calls.length).toBeLessThanOrEqual(16);
    await registry.close();
  });
});

describe('ownerFetch', () => {
  it('sends tokens only where they come from, unless told otherwise', async () => {
    await using service = await LoopbackService.start();
    await using elsewhere = await LoopbackService.start();
    for (const each of [service, elsewhere])
      each.always((call) => (call.method === 'GET' ? status(200, 'ok') : token())(call));
    const client = { clientId: 'the-client', clientSecret: 'the-secret' };
    await using registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl: service.url, ...client }) });
    expect((await registry.ownerFetch('key-1')(`${service.url}/x`)).status).toBe(200);
    expect((await errorOf(registry.ownerFetch('key-1')(`${elsewhere.url}/x`))).code).toBe('origin_refused');
    expect(elsewhere.calls).toHaveLength(0);
    const allowed = registry.ownerFetch('key-1', { allowedOrigins: [elsewhere.url] });
    expect((await allowed(`${elsewhere.url}/x`)).status).toBe(200);
    expect((await errorOf(allowed(`${service.url}/x`))).code).toBe('origin_refused');
    expect(elsewhere.calls[0]?.headers.authorization).toBe('Bearer token-1-of-key-1');
    const { registry: originless } = scripted({}, ScriptedSource.answering());
    expect((await errorOf(originless.ownerFetch('key-1')(service.url))).code).toBe('origin_refused');
  });
});

it('nothing happens until somebody calls: no request, no timer', async () => {
  const { clock, source, registry } = scripted({}, ScriptedSource.answering());
  await settle();
  clock.advance(1e9);
  await settle();
  expect([source.calls.length, clock.pendingTimers]).toEqual([0, 0]);
  expect(tally(await callAtOnce(1, registry, 'key-1')).tokens).toHaveLength(1);
});
