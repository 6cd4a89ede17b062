/** M. Isolation and attribution: who is blamed for a failure, and who is not. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/index.ts';
import { LoopbackService, status, token } from '../helpers/loopback-service.ts';
import { asTimePasses, type ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf, keys, overHttp, scripted, shut } from '../helpers/registries.ts';
import type { ScriptedCall } from '../helpers/scripted-source.ts';

const bare401 = () => new OwnerTokenError('owner_refused', 'answered 401', { status: 401 });

describe('M1', () => {
  it('1,000 wrong keys: no healthy owner is refused, each wrong key counts against its owner alone', async () => {
    await using service = await LoopbackService.start();
    service.always((call) => (String(call.accessKey).startsWith('wrong') ? status(401) : token())(call));
    const { registry } = overHttp(service);
    await registry.getToken('first');
    for (let index = 0; index < 1_000; index++) {
      const error = await errorOf(registry.getToken(`wrong-${index}`));
      expect(error).toMatchObject({ code: 'owner_refused', failureScope: 'owner' });
    }
    await registry.getToken('healthy');
    expect(registry.stats().pauses.client).toBeUndefined();
    await registry.close();
  });

  it('the code follows the scope: in errors, refusals, descriptions, stats and reports', async () => {
    const pauses = { client: { baseMs: 10_000, capMs: 30_000 } };
    const { registry, clock, source } = scripted({ pauses });
    source.script((call) => call.fail(bare401()));
    const owners = keys(10);
    for (const key of owners.slice(0, 9)) {
      expect(await errorOf(registry.getToken(key))).toMatchObject({ code: 'owner_refused', failureScope: 'owner' });
    }
    const escalated = { code: 'client_refused', failureScope: 'client', retryable: false };
    expect(await errorOf(registry.getToken('key-10'))).toMatchObject(escalated);
    clock.advance(7_500);
    expect(await errorOf(registry.getToken('trial'))).toMatchObject(escalated);
    expect(await errorOf(registry.getToken('healthy'))).toMatchObject(escalated);
    for (const key of ['key-10', 'healthy']) expect(registry.describe(key)).toMatchObject({ code: 'client_refused' });
    expect(registry.stats().pauses.client).toMatchObject({ code: 'client_refused' });
    const report = await asTimePasses(registry.warmUp(['healthy']), clock, 1_000);
    expect(report.failed).toMatchObject([{ code: 'client_refused' }]);
    await registry.close();
  });

  it.each([
    ['invalid_response', 'endpoint_unavailable'],
    ['rate_limited', 'rate_limited'],
    ['redirect_refused', 'redirect_refused'],
    ['source_failed', 'source_failed'],
  ] as const)('%s is %s once it is everybody’s', async (code, escalated) => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.fail(new OwnerTokenError(code, 'no')));
    const errorFor = (key: string) => asTimePasses(errorOf(registry.getToken(key)), clock, 100);
    for (const key of keys(9)) expect((await errorFor(key)).code).toBe(code);
    const error = await errorFor('key-10');
    expect([error.code, error.failureScope !== 'owner']).toEqual([escalated, true]);
    await registry.close();
  });
});

describe('M2', () => {
  const ANSWERS = {
    'a 401 without a code': (call: ScriptedCall) => call.fail(bare401()),
    'a 500': (call: ScriptedCall) => call.fail(new OwnerTokenError('endpoint_unavailable', 'no', { status: 500 })),
    'no token': (call: ScriptedCall) => call.fail(new OwnerTokenError('invalid_response', 'no token')),
    'a hang': (call: ScriptedCall, clock: ManualClock) =>
      clock.setTimeout(() => call.fail(new OwnerTokenError('endpoint_unavailable', 'no response')), 10_000),
  };

  it.each(Object.keys(ANSWERS).flatMap((answer) => [0.2, 1, 5].map((rate) => [answer, rate] as const)))(
    'newcomers’ wrong keys get %s, %d/s for 5 min: every healthy newcomer is served within a second',
    async (answer, rate) => {
      const { registry, clock, source } = scripted();
      source.script((call) => {
        source.calls.length = 0;
        if (call.accessKey.startsWith('wrong')) ANSWERS[answer as keyof typeof ANSWERS](call, clock);
        else call.succeed();
      });
      await registry.getToken('known');
      const outcomes: { lateMs: number; error?: unknown }[] = [];
      for (let second = 0, wrong = 0; second < 300; second++) {
        for (; wrong < second * rate; wrong++) registry.getToken(`wrong-${wrong}`).catch(() => {});
        const startMs = clock.monotonic();
        registry.getToken(`healthy-${second}`).then(
          () => outcomes.push({ lateMs: clock.monotonic() - startMs }),
          (error: unknown) => outcomes.push({ lateMs: 0, error }),
        );
        for (let step = 0; step < 4; step++) {
          await settle();
          clock.advance(250);
        }
      }
      await settle();
      expect(outcomes).toHaveLength(300);
      expect(outcomes.filter(({ lateMs, error }) => error !== undefined || lateMs > 1_000)).toEqual([]);
      await shut(registry, clock);
    },
  );

  it('a first start among wrong keys: a healthy owner is served soon, then nobody is refused because of another', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => (call.accessKey === 'healthy' ? call.succeed() : call.fail(bare401())));
    for (let wrong = 0; wrong < 30; wrong++) {
      const { retryAtMs } = await asTimePasses(errorOf(registry.getToken(`wrong-${wrong}`)), clock, 50);
      expect(retryAtMs).toBeGreaterThan(clock.now());
    }
    expect(registry.stats().pauses.client).toBeDefined();
    let attempts = 0;
    for (let served = false; !served; attempts++) {
      const call = registry.getToken('healthy').then(
        () => undefined,
        (error: OwnerTokenError) => error.retryAtMs,
      );
      const retryAtMs = await asTimePasses(call, clock, 50);
      served = retryAtMs === undefined;
      if (retryAtMs !== undefined) clock.advance(retryAtMs - clock.now());
    }
    expect(attempts).toBeLessThanOrEqual(3);
    for (let wrong = 0; wrong < 100; wrong++) {
      expect((await errorOf(registry.getToken(`late-${wrong}`))).failureScope).toBe('owner');
    }
    expect(registry.stats().pauses.client).toBeUndefined();
    await registry.close();
  });
});

describe('M3', () => {
  it('a route that always answers 401 beside twenty that accept: the owner goes on', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.succeed());
    for (let round = 0; round < 40; round++) {
      for (let call = 0; call < 20; call++) registry.accept('key', await registry.getToken('key'));
      for (let attempt = 0; attempt < 2; attempt++) registry.reject('key', await registry.getToken('key'));
      clock.advance(100);
    }
    expect(registry.describe('key').code).toBeUndefined();
    expect(source.calls).toHaveLength(2);
  });
});

/** A registry whose endpoint's circuit is open, and whose first trial, by a canary, has hung for a second. */
async function afterHangingTrial() {
  const { registry, clock, source } = scripted();
  source.script((call) => call.succeed());
  await registry.getToken('canary');
  const down = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 5_000 });
  source.script((call) => call.fail(down));
  await errorOf(registry.getToken('a'));
  source.script(undefined);
  clock.advance(5_000);
  await settle();
  clock.advance(1_000);
  await settle();
  return { registry, clock, source };
}

describe('M8', () => {
  it('a caller that waits until retryAtMs while trials hang makes a handful of attempts', async () => {
    const { registry, clock } = await afterHangingTrial();
    const startMs = clock.now();
    let attempts = 0;
    while (clock.now() < startMs + 60_000) {
      const { retryAtMs } = await asTimePasses(errorOf(registry.getToken('b')), clock, 50);
      attempts++;
      expect(retryAtMs).toBeGreaterThanOrEqual(clock.now() + 100);
      expect(retryAtMs).toBeLessThanOrEqual(clock.now() + 30_000);
      clock.advance((retryAtMs as number) - clock.now());
    }
    expect(attempts).toBeLessThanOrEqual(10);
    await shut(registry, clock);
  });

  it('a token that arrives after all serves everybody again', async () => {
    const { registry, source } = await afterHangingTrial();
    expect(registry.stats().pauses.endpoint).toMatchObject({ probing: false });
    source.call(-1).succeed();
    await settle();
    source.script((call) => call.succeed());
    await registry.getToken('b');
    await registry.close();
  });
});
