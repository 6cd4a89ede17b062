/** O. First, do no harm: what one owner, a trickle of failures, an outage or a limit may cost the others. O1 is the arena's. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/index.ts';
import { type ManualClock, settle } from '../helpers/manual-clock.ts';
import { keys, scripted, shut } from '../helpers/registries.ts';
import { type ScriptedCall, ScriptedSource } from '../helpers/scripted-source.ts';

type Fail = (call: ScriptedCall, clock: ManualClock) => void;

const failing =
  (code: OwnerTokenError['code'], options?: OwnerTokenErrorOptions): Fail =>
  (call) =>
    call.fail(new OwnerTokenError(code, 'no', options));

/** Every kind of failure that a request can have. */
const KINDS: Record<string, Fail> = {
  '429': failing('rate_limited', { status: 429 }),
  '429 with Retry-After of an hour': failing('rate_limited', { status: 429, retryAfterMs: 3_600_000 }),
  '503 with Retry-After of a minute': failing('endpoint_unavailable', { status: 503, retryAfterMs: 60_000 }),
  '500': failing('endpoint_unavailable', { status: 500 }),
  'a refused connection': failing('endpoint_unavailable'),
  'a redirect': failing('redirect_refused', { status: 302 }),
  'an unusable answer': failing('invalid_response', { status: 200 }),
  '405': failing('client_refused', { status: 405 }),
  'a 401 without a code': failing('owner_refused', { status: 401 }),
  ...Object.fromEntries(
    ['invalid_client', 'unauthorized_client', 'invalid_request', 'invalid_grant'].map((oauthError) => [
      oauthError,
      failing(oauthError === 'invalid_grant' ? 'owner_refused' : 'client_refused', { status: 400, oauthError }),
    ]),
  ),
  'a source that throws': (call) => call.fail(new Error('no')),
  'a hang': (call, clock) =>
    clock.setTimeout(() => call.fail(new OwnerTokenError('endpoint_unavailable', 'no response')), 10_000),
};

/** A registry before a service that answers after 20 ms, except requests that are to fail. */
function stage(toFail: (key: string) => Fail | undefined, options: Parameters<typeof scripted>[0] = {}) {
  const source = new ScriptedSource();
  const { registry, clock } = scripted(options, source);
  const counts = { sent: 0, inFlight: 0, most: 0 };
  source.script((call) => {
    source.calls.length = 0;
    counts.sent++;
    counts.most = Math.max(counts.most, ++counts.inFlight);
    const counted = {
      ...call,
      succeed: () => {
        counts.inFlight--;
        call.succeed({ response: { expires_in: 60 } });
      },
      fail: (error: unknown) => {
        counts.inFlight--;
        call.fail(error);
      },
    };
    const fail = toFail(call.accessKey);
    if (fail) fail(counted, clock);
    else clock.setTimeout(() => counted.succeed(), 20);
  });
  /** How long each call took, and its error. */
  const outcomes: { key: string; tookMs: number; error?: OwnerTokenError }[] = [];
  const call = (key: string) => {
    const startMs = clock.monotonic();
    registry.getToken(key).then(
      () => outcomes.push({ key, tookMs: clock.monotonic() - startMs }),
      (error: OwnerTokenError) => outcomes.push({ key, tookMs: clock.monotonic() - startMs, error }),
    );
  };
  const pass = async (ms: number, stepMs: number) => {
    for (let passed = 0; passed < ms; passed += stepMs) {
      await settle();
      clock.advance(stepMs);
    }
    await settle();
  };
  return { registry, clock, counts, outcomes, call, pass };
}

describe('O2', () => {
  it.each(Object.entries(KINDS))('%s for one owner that polls: everybody else is served at once', async (_, fail) => {
    const { registry, clock, outcomes, call, pass } = stage((key) => (key === 'ill' ? fail : undefined));
    for (let second = 0; second < 60; second++) {
      for (let poll = 0; poll < 5; poll++) call('ill');
      for (const key of ['known', `new-${second}`]) call(key);
      await pass(1_000, 20);
      expect(registry.stats().pauses).not.toMatchObject({ client: {} });
      expect(registry.stats().pauses).not.toMatchObject({ endpoint: {} });
    }
    const others = outcomes.filter(({ key }) => key !== 'ill');
    expect(others).toHaveLength(120);
    expect(others.filter(({ tookMs, error }) => error || tookMs > 20)).toEqual([]);
    await shut(registry, clock);
  });
});

describe('O3', () => {
  it.each(Object.entries(KINDS))(
    '%s for one request in a hundred: only the callers that it hits notice',
    async (_, fail) => {
      let asked = 0;
      const hit = new Set<string>();
      const { registry, clock, outcomes, call, pass } = stage((key) => {
        if (++asked % 100 !== 50) return undefined;
        hit.add(key);
        return fail;
      });
      for (const key of keys(1_000)) {
        call(key);
        await pass(20, 20);
      }
      await pass(11_000, 500);
      expect(outcomes).toHaveLength(1_000);
      expect(hit.size).toBeGreaterThanOrEqual(10);
      expect(outcomes.filter(({ key, tookMs, error }) => !hit.has(key) && (error || tookMs > 20))).toEqual([]);
      await shut(registry, clock);
    },
  );
});

describe('O4', () => {
  it.each(['500', '429', 'a refused connection', 'invalid_client', 'a redirect', 'a hang'])(
    '%s for everybody for five minutes: a tenth of the requests at most, and all are back within the cap',
    async (kind) => {
      let isDown = false;
      const { registry, clock, counts, outcomes, call, pass } = stage(() => (isDown ? KINDS[kind] : undefined));
      const owners = keys(50);
      const run = async (seconds: number) => {
        for (let second = 0; second < seconds; second++) {
          for (const key of owners) call(key);
          await pass(1_000, 100);
        }
      };
      await run(10);
      expect(outcomes.every(({ error }) => error === undefined)).toBe(true);
      isDown = true;
      counts.sent = 0;
      await run(300);
      // Without protection, each call of an owner whose token has ended would send one.
      const failed = outcomes.filter(({ error }) => error).length;
      expect(failed).toBeGreaterThan(8_000);
      expect(counts.sent).toBeLessThanOrEqual(failed / 10);
      isDown = false;
      await run(70);
      const before = outcomes.length;
      await run(5);
      expect(outcomes.slice(before).filter(({ error }) => error)).toEqual([]);
      await shut(registry, clock);
    },
  );
});

describe('O5', () => {
  it.each([
    ['one request at a time', { concurrency: 1 }],
    ['a quota of one request a second', { requestsPerSecond: 1 }],
  ])('with %s, no call is queued longer than maxQueueMs, and those that can be served are', async (_, limit) => {
    const { registry, outcomes, call, pass } = stage(() => undefined, { ...limit, maxQueueMs: 3_000 });
    for (let tick = 0; tick < 100; tick++) {
      for (let n = 0; n < 20; n++) call(`key-${tick}-${n}`);
      await pass(100, 20);
    }
    await pass(4_000, 20);
    expect(outcomes).toHaveLength(2_000);
    expect(Math.max(...outcomes.map(({ tookMs }) => tookMs))).toBeLessThanOrEqual(3_000 + 20);
    const refused = outcomes.filter(({ error }) => error);
    expect(new Set(refused.map(({ error }) => error?.code))).toEqual(new Set(['queue_timeout']));
    expect(outcomes.length - refused.length).toBeGreaterThanOrEqual('concurrency' in limit ? 450 : 10);
    await registry.close();
  });

  it('the wait for a retry counts too', async () => {
    let asked = 0;
    const fail: Fail = (call, clock) => clock.setTimeout(() => failing('rate_limited')(call, clock), 20);
    const { registry, clock, outcomes, call, pass } = stage(() => (++asked > 100 ? fail : undefined), {
      concurrency: 1,
      maxQueueMs: 2_000,
    });
    for (const key of keys(100)) {
      call(key);
      await pass(20, 20);
    }
    for (const key of keys(30)) call(`late-${key}`);
    await pass(4_000, 20);
    const late = outcomes.slice(100);
    expect(late).toHaveLength(30);
    // Six requests of one call at most, each of 20 ms.
    expect(Math.max(...late.map(({ tookMs }) => tookMs))).toBeLessThanOrEqual(2_000 + 6 * 20);
    await shut(registry, clock);
  });
});

describe('O6', () => {
  it.each([1, 4, 16])('a concurrency of %i is never exceeded, but by as many slow requests', async (concurrency) => {
    let slow = 0;
    const hang: Fail = (call, clock) => clock.setTimeout(() => call.succeed(), 9_000);
    const { registry, counts, call, pass } = stage((key) => (key.startsWith('slow') ? hang : undefined), {
      concurrency,
    });
    for (const key of keys(100)) call(key);
    await pass(3_000, 20);
    expect(counts.most).toBe(concurrency);
    for (let tick = 0; tick < 100; tick++) {
      if (slow < 3 * concurrency) call(`slow-${slow++}`);
      call(`key-${tick}-again`);
      await pass(100, 20);
    }
    expect(counts.most).toBe(2 * concurrency);
    await pass(40_000, 100);
    await registry.close();
  });
});
