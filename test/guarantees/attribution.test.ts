/** M. Isolation and attribution: who is blamed for a failure, and who is not. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, TokenEndpoint } from '../../src/index.ts';
import { LoopbackService, status, token } from '../helpers/loopback-service.ts';
import { asTimePasses, settle } from '../helpers/manual-clock.ts';
import { errorOf, overHttp, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const bare401 = () => new OwnerTokenError('owner_refused', 'answered 401', { status: 401 });

describe('M1', () => {
  it.each([3, 1_000])('M1 %d wrong keys: no healthy owner is refused, each wrong key is its owner’s', async (count) => {
    await using service = await LoopbackService.start();
    service.always((call) => (String(call.accessKey).startsWith('wrong') ? status(401) : token())(call));
    const { registry } = overHttp(service);
    await registry.getToken('first');
    for (let index = 0; index < count; index++) {
      const error = await errorOf(registry.getToken(`wrong-${index}`));
      expect(error).toMatchObject({ code: 'owner_refused', failureScope: 'owner' });
    }
    await registry.getToken('healthy');
    expect(registry.stats().pauses.client).toBeUndefined();
    await registry.close();
  });

  it('M1 the code follows the scope: in errors, refusals, descriptions, stats and reports', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.fail(bare401()));
    for (const key of ['a', 'b']) expect((await errorOf(registry.getToken(key))).code).toBe('owner_refused');
    const escalated = { code: 'client_refused', failureScope: 'client', retryable: false };
    expect(await errorOf(registry.getToken('c'))).toMatchObject(escalated);
    expect(await errorOf(registry.getToken('healthy'))).toMatchObject(escalated);
    for (const key of ['c', 'healthy']) expect(registry.describe(key)).toMatchObject({ code: 'client_refused' });
    expect(registry.stats().pauses.client).toMatchObject({ code: 'client_refused' });
    const report = await asTimePasses(registry.warmUp(['healthy']), clock, 1_000);
    expect(report.failed).toMatchObject([{ code: 'client_refused' }]);
    registry.resume();
    clock.advance(300_000);
    source.script((call) => call.fail(new OwnerTokenError('invalid_response', 'nonsense')));
    for (const key of ['d', 'e']) expect((await errorOf(registry.getToken(key))).code).toBe('invalid_response');
    expect(await errorOf(registry.getToken('f'))).toMatchObject({ code: 'endpoint_unavailable', retryable: true });
  });
});

describe('M2', () => {
  it.each([0.2, 1, 5])(
    'M2 wrong keys of newcomers, %d a second for an hour: healthy newcomers are served',
    async (rate) => {
      const { registry, clock, source } = scripted();
      source.script((call) => {
        source.calls.length = 0;
        if (call.accessKey.startsWith('wrong')) call.fail(bare401());
        else call.succeed();
      });
      await registry.getToken('known');
      let refused = 0;
      for (let second = 0, wrong = 0; second < 3_600; second += 5) {
        for (; wrong < second * rate; wrong++) await registry.getToken(`wrong-${wrong}`).catch(() => {});
        await registry.getToken(`healthy-${second}`).catch(() => refused++);
        clock.advance(5_000);
      }
      expect(refused).toBe(0);
    },
  );

  it('M2 a first start among wrong keys: after the first pause, new owners are tried one after the other', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => (call.accessKey === 'healthy' ? call.succeed() : call.fail(bare401())));
    const scopes = new Set<unknown>();
    for (let wrong = 0; wrong < 300; wrong++) {
      const { failureScope, retryAtMs = 0 } = await errorOf(registry.getToken(`wrong-${wrong}`));
      scopes.add(failureScope);
      expect(registry.describe('new').retryAtMs ?? 0).toBeLessThanOrEqual(clock.now() + (wrong < 8 ? 1_000 : 50));
      expect(retryAtMs).toBeGreaterThan(clock.now());
      clock.advance(200);
    }
    expect(scopes).toEqual(new Set(['owner', 'client']));
    expect(source.calls.length).toBeGreaterThan(290);
    await registry.getToken('healthy');
    await errorOf(registry.getToken('wrong')); // Lifted for all: this failure is its owner's alone.
    expect(registry.stats().pauses.client).toBeUndefined();
  });

  it('M2 an isolated failure among wrong keys delays newcomers for a second, because a refusal shows that the service works', async () => {
    const { registry, clock, source } = scripted({ concurrency: 16 });
    const broken = new OwnerTokenError('endpoint_unavailable', 'broken', { status: 500 });
    source.script((call) => {
      if (call.accessKey === 'unlucky') call.fail(broken);
      else if (call.accessKey.startsWith('wrong')) call.fail(bare401());
      else call.succeed();
    });
    await registry.getToken('known');
    await errorOf(registry.getToken('unlucky'));
    const wrong = Array.from({ length: 20 }, (_, index) => errorOf(registry.getToken(`wrong-${index}`)));
    const healthy = registry.getToken('healthy');
    clock.advance(999);
    await settle();
    expect(registry.stats()).toMatchObject({ queued: 21, inFlight: 0 });
    clock.advance(1);
    await settle();
    expect(await healthy).toMatchObject({ tokenType: 'Bearer' });
    expect(new Set((await Promise.all(wrong)).map(({ code }) => code))).toEqual(new Set(['owner_refused']));
    await registry.close();
  });

  it('M2 an outage that only newcomers meet: one request a second in the end, and nobody who waits is lost', async () => {
    const { registry, clock, source } = scripted({ concurrency: 16 });
    let asked = 0;
    let isDown = false;
    source.script((call) => {
      source.calls.length = 0;
      asked++;
      if (isDown) call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { status: 503 }));
      else call.succeed();
    });
    const known = await registry.getToken('known');
    isDown = true;
    for (let second = 0; second < 60; second++) {
      for (let n = 0; n < 5; n++) void registry.getToken(`new-${second}-${n}`).catch(() => {});
      await settle();
      expect(await registry.getToken('known')).toBe(known);
      for (let step = 0; step < 4; step++) {
        clock.advance(250);
        await settle();
      }
    }
    expect(asked).toBeLessThanOrEqual(1 + 75);
    expect(asked).toBeGreaterThan(50);
    isDown = false;
    clock.advance(1_000);
    await settle();
    expect(registry.stats().queued).toBe(0);
  });
});

describe('M3', () => {
  it('M3 a route that always answers 401 beside twenty that accept: the owner goes on', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.succeed());
    for (let round = 0; round < 40; round++) {
      for (let call = 0; call < 20; call++) registry.accept('key', await registry.getToken('key'));
      for (let attempt = 0; attempt < 2; attempt++) registry.reject('key', await registry.getToken('key'));
      clock.advance(100);
    }
    expect(registry.describe('key').code).toBeUndefined();
  });

  it('M3 calls that are accepted late, with a token that was rejected meanwhile, lift the pause it led to', async () => {
    const { registry, source } = scripted();
    source.script((call) => call.succeed());
    const first = await registry.getToken('key');
    registry.reject('key', first);
    for (let n = 0; n < 2; n++) registry.reject('key', await registry.getToken('key'));
    expect((await errorOf(registry.getToken('key'))).code).toBe('token_rejected');
    registry.accept('key', first);
    await registry.getToken('key');
  });
});

/** A registry whose endpoint's circuit is half-open, with the trial request of owner `a` in flight. */
async function inTrial(source = new ScriptedSource()) {
  const { registry, clock } = scripted({}, source);
  source.script((call) => call.fail(new OwnerTokenError('rate_limited', 'slow down', { status: 429 })));
  await errorOf(registry.getToken('a'));
  clock.advance(1_000);
  source.script(undefined);
  const trial = registry.getToken('a').catch(() => {});
  await settle();
  return { registry, clock, source, trial };
}

describe('M8', () => {
  it('M8 a caller that waits until retryAtMs while a trial is in flight makes a handful of attempts', async () => {
    const { registry, clock, source, trial } = await inTrial();
    const startMs = clock.now();
    let attempts = 0;
    while (clock.now() < startMs + 10_000) {
      const { retryAtMs } = await errorOf(registry.getToken('b'));
      attempts++;
      expect(retryAtMs).toBeGreaterThanOrEqual(clock.now() + 100);
      expect(retryAtMs).toBeLessThanOrEqual(startMs + 30_000);
      clock.advance((retryAtMs as number) - clock.now());
    }
    expect(attempts).toBeLessThanOrEqual(10);
    source.call(-1).succeed();
    await trial;
  });
});

it.each([
  ['its own timeout', 10_000, 10_000],
  ['that of the registry, if its own is longer', 60_000, 30_000],
  ['that of the registry, if its own is none', Number.NaN, 30_000],
])('M8 no caller is told to retry after the trial’s deadline: by %s', async (_, timeoutMs, deadlineMs) => {
  const { registry, clock, source, trial } = await inTrial(Object.assign(new ScriptedSource(), { timeoutMs }));
  const startMs = clock.now();
  clock.advance(deadlineMs - 1_000);
  expect((await errorOf(registry.getToken('b'))).retryAtMs).toBe(startMs + deadlineMs);
  source.call(-1).succeed();
  await trial;
  expect(new TokenEndpoint({ baseUrl: 'https://x.test', clientId: 'c', clientSecret: 's' }).timeoutMs).toBe(10_000);
});

it('I3 Retry-After of an hour with a plain 400 pauses its owner no longer than the cap', async () => {
  const { registry, clock, source } = scripted();
  const odd = new OwnerTokenError('owner_refused', 'answered 400', { status: 400, retryAfterMs: 3_600_000 });
  source.script((call) => call.fail(odd));
  expect((await errorOf(registry.getToken('a'))).retryAtMs).toBe(clock.now() + 300_000);
});
