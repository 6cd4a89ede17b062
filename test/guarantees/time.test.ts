/**
 * P2 to P4. Clocks that differ from the service's, tokens in their last moment, and a process that stood still.
 *
 * The reports: WSO2 API Manager returns a cached token with the seconds left; machines without NTP; suspended functions.
 */

import { describe, expect, it } from 'vitest';
import {
  type ExpiryPolicy,
  fixedLifetime,
  type IssuedToken,
  type OwnerTokenRegistryOptions,
  untilRejected,
} from '../../src/index.ts';
import { jwt } from '../helpers/jwt.ts';
import { settle } from '../helpers/manual-clock.ts';
import { scripted } from '../helpers/registries.ts';
import { type ScriptedCall, ScriptedSource } from '../helpers/scripted-source.ts';

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;

/** A registry that notes the events of its warnings, with a service in the same virtual time. */
function scene(answer: (nowMs: number, call: ScriptedCall) => Partial<IssuedToken>, options: Partial<Options> = {}) {
  const warned: Record<string, unknown>[] = [];
  const warn = (fields: object) => void warned.push(fields as Record<string, unknown>);
  const logger = { debug: () => {}, info: () => {}, warn, error: warn };
  const source = new ScriptedSource((call) => call.succeed(answer(made.clock.now(), call)));
  const made = scripted({ logger, ...options }, source);
  const events = () => warned.map((fields) => fields['owner_token.event']);
  return { ...made, warned, events };
}
type Options = Omit<OwnerTokenRegistryOptions, 'source' | 'clock'>;

/** A service that issues the same token until it ends, with its own clock `aheadMs` ahead of ours. */
function repeating(
  lifeMs: number,
  options: { aheadMs?: number; leftMs?: (leftMs: number) => unknown; isJwt?: boolean },
) {
  const { aheadMs = 0, leftMs = (ms) => Math.floor(ms / SECOND), isJwt = false } = options;
  let current = { token: '', endsAtMs: Number.NEGATIVE_INFINITY };
  return {
    isLive: (token: string, nowMs: number) => token === current.token && nowMs < current.endsAtMs,
    answer(nowMs: number): Partial<IssuedToken> {
      if (nowMs >= current.endsAtMs) {
        const iat = Math.floor((nowMs + aheadMs) / SECOND);
        const endsAtMs = nowMs + lifeMs;
        const token = isJwt ? jwt({ iat, exp: iat + lifeMs / SECOND }) : `opaque-${nowMs}`;
        current = { token, endsAtMs };
      }
      const left = leftMs(current.endsAtMs - nowMs);
      const serviceTimeMs = Math.floor((nowMs + aheadMs) / SECOND) * SECOND;
      return { token: current.token, serviceTimeMs, response: isJwt ? {} : { expires_in: left } };
    },
  };
}

/** One owner calls every `everyMs`. Returns how many calls got a dead token, and how many requests there were. */
async function play(
  service: ReturnType<typeof repeating>,
  { forMs, everyMs, expiry }: { forMs: number; everyMs: number; expiry?: ExpiryPolicy },
) {
  const { registry, clock, source, events } = scene((nowMs) => service.answer(nowMs), expiry && { expiry });
  let dead = 0;
  const calls = forMs / everyMs;
  for (let call = 0; call < calls; call++) {
    const token = await registry.getToken('owner');
    if (!service.isLive(token.value, clock.now())) dead++;
    clock.advance(everyMs);
    await settle(1);
  }
  return { deadShare: dead / calls, requests: source.calls.length, events: events() };
}

describe('P2', () => {
  it.each([-24 * HOUR, -10 * MINUTE, -MINUTE, MINUTE, HOUR, 24 * HOUR])(
    'the service’s clock is %d ms ahead: a JWT is held as long as it lives, and the difference is logged once',
    async (aheadMs) => {
      const { registry, clock, source, warned } = scene((nowMs) => {
        const iat = Math.floor((nowMs + aheadMs) / SECOND);
        return { token: jwt({ iat, exp: iat + 600 }), serviceTimeMs: iat * SECOND };
      });
      for (const step of [0, 300, 60, 0]) {
        clock.advance(step * SECOND);
        await registry.getToken('owner');
      }
      expect(source.calls.length).toBe(1);
      clock.advance(240 * SECOND);
      await registry.getToken('owner');
      expect(source.calls.length).toBe(2);
      const differences = warned.filter((fields) => fields['owner_token.event'] === 'clock.differs');
      expect(differences.map((fields) => fields['owner_token.difference_ms'])).toEqual([aheadMs]);
    },
  );

  it.each([0, -10 * MINUTE, HOUR])(
    'a service issues the same JWT until it ends, its clock %d ms ahead: no call gets a dead one',
    async (aheadMs) => {
      for (const lifeMs of [MINUTE, 10 * MINUTE]) {
        const service = repeating(lifeMs, { aheadMs, isJwt: true });
        const { deadShare, requests } = await play(service, { forMs: 6 * lifeMs, everyMs: 500 });
        expect(deadShare).toBe(0);
        expect(requests).toBeLessThan(6 * 12);
      }
    },
  );

  it('a Date header of another machine bounds nothing: the token is served for its stated lifetime, with one warning', async () => {
    for (const gatewayAheadMs of [HOUR, -HOUR]) {
      const { registry, clock, source, events } = scene((nowMs) => {
        const iat = Math.floor(nowMs / SECOND);
        return { token: jwt({ iat, exp: iat + 600 }), serviceTimeMs: nowMs + gatewayAheadMs };
      });
      for (let minute = 0; minute < 30; minute++) {
        await registry.getToken('owner');
        clock.advance(MINUTE);
        await settle(1);
      }
      expect(source.calls.length).toBeLessThanOrEqual(5);
      expect(events().filter((event) => event === 'exp.ignored')).toHaveLength(1);
    }
  });

  it('a lifetime that the user has set holds beyond exp', async () => {
    for (const expiry of [fixedLifetime(HOUR), untilRejected(), { lifetimeMs: () => Number.POSITIVE_INFINITY }]) {
      const { registry, clock, source } = scene(
        (nowMs) => ({ token: jwt({ iat: nowMs / SECOND, exp: nowMs / SECOND + 60 }), serviceTimeMs: nowMs }),
        { expiry },
      );
      await registry.getToken('owner');
      clock.advance(30 * MINUTE);
      await registry.getToken('owner');
      expect(source.calls.length).toBe(1);
    }
  });
});

describe('P3', () => {
  it.each([
    ['rounded down', (ms: number) => Math.floor(ms / SECOND)],
    ['rounded', (ms: number) => Math.round(ms / SECOND)],
    ['as strings', (ms: number) => String(Math.floor(ms / SECOND))],
    ['less than none', (ms: number) => Math.floor(ms / SECOND) - 1],
  ])(
    'a service returns its cached token with the seconds left, %s: hardly a call gets a dead one',
    async (_, leftMs) => {
      for (const lifeMs of [MINUTE, 5 * MINUTE]) {
        const service = repeating(lifeMs, { leftMs });
        const { deadShare, requests, events } = await play(service, { forMs: 20 * lifeMs, everyMs: 250 });
        expect(deadShare).toBeLessThan(0.01);
        expect(requests / 20).toBeLessThan(16);
        expect(events).toEqual([]);
      }
    },
  );

  it('a lifetime of 0 from the start counts as unknown, not as a last moment', async () => {
    const service = repeating(HOUR, { leftMs: () => 0 });
    const { requests } = await play(service, { forMs: HOUR, everyMs: 10 * SECOND });
    expect(requests).toBeLessThanOrEqual(40);
  });

  it('a service that states 0 for good after a positive lifetime is asked twice a second at most', async () => {
    let isFirst = true;
    const { registry, clock, source, events } = scene(() => {
      const left = isFirst ? 60 : 0;
      isFirst = false;
      return { token: 'the-one', response: { expires_in: left } };
    });
    const seconds = 300;
    for (let tenth = 0; tenth < seconds * 10; tenth++) {
      await registry.getToken('owner');
      clock.advance(SECOND / 10);
      await settle(1);
    }
    expect(source.calls.length).toBeLessThanOrEqual(2 * seconds);
    expect(source.calls.length).toBeGreaterThan((seconds - 60) / 2);
    expect(events()).toEqual([]);
  });

  it('a token that ended while its slow answer was on the way is requested once more within the call', async () => {
    const { registry, clock, source } = scripted();
    const waiting = registry.getToken('owner');
    await settle();
    clock.advance(2_000);
    source.call(0).succeed({ response: { expires_in: 1 } });
    await settle();
    source.call(1).succeed({ response: { expires_in: 60 } });
    expect((await waiting).value).toContain('token-2');
    expect(registry.stats()).toMatchObject({ requests: 2, failures: 0 });
  });
});

describe('P4', () => {
  it('the process stands still with requests in flight: each is sent again once, and nothing counts as a failure', async () => {
    const { registry, clock, source } = scripted({ requestTimeoutMs: 10_000 }, ScriptedSource.answering(60));
    await registry.getToken('known');
    source.script(undefined);
    const waiting = ['a', 'b', 'c', 'd'].map((owner) => registry.getToken(owner));
    await settle();
    clock.standStill(10 * MINUTE);
    clock.advance(0);
    await settle(30);
    expect(registry.stats()).toMatchObject({ failures: 0, pauses: {} });
    for (const call of source.calls.slice(-4)) call.succeed({ response: { expires_in: 60 } });
    expect((await Promise.all(waiting)).every(({ value }) => value.startsWith('token-'))).toBe(true);
    expect(source.calls.length).toBe(1 + 4 + 4);
  });

  it('the machine sleeps with a request in flight: a connection that broke meanwhile is no failure either', async () => {
    const { registry, clock, source } = scripted();
    const waiting = registry.getToken('owner');
    await settle();
    clock.jumpWall(HOUR);
    source.call(0).fail(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
    await settle();
    source.call(1).succeed({ response: { expires_in: 60 } });
    expect((await waiting).value).toContain('token-1');
    expect(registry.stats().failures).toBe(0);
  });

  it('a request that is sent again waits for another permit where requests are paced', async () => {
    const { registry, clock, source } = scripted({ requestsPerSecond: 1 });
    const waiting = registry.getToken('owner');
    await settle();
    clock.jumpWall(HOUR);
    source.call(0).fail(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
    await settle();
    expect(source.calls.length).toBe(1);
    clock.advance(SECOND);
    await settle();
    source.call(1).succeed();
    expect((await waiting).value).toContain('token-1');
  });

  it("a process that stands still again gets today's error", async () => {
    const { registry, clock, source } = scripted({ requestTimeoutMs: 10_000 });
    const waiting = registry.getToken('owner');
    for (let freeze = 0; freeze < 2; freeze++) {
      await settle();
      clock.standStill(MINUTE);
      clock.advance(0);
      await settle(30);
    }
    await expect(waiting).rejects.toMatchObject({ code: 'endpoint_unavailable' });
    expect(source.calls.length).toBe(2);
    expect(registry.stats().failures).toBe(1);
  });

  it.each([
    ['a limit noticed', 2_500, true],
    ['no limit has noticed yet', MINUTE, false],
  ])('an answer that was read after a standstill that %s does not count as a latency', async (_, ms, isNoticed) => {
    const { registry, clock, source } = scripted();
    for (const owner of ['first', 'second']) {
      const waiting = registry.getToken(owner);
      await settle();
      clock.advance(50);
      if (owner === 'second') clock.standStill(ms);
      if (isNoticed) clock.advance(0);
      source.call(-1).succeed({ response: { expires_in: 600 } });
      await waiting;
      expect(registry.stats().latencyMs).toBe(50);
    }
  });

  it('the latency of the first answer counts even after a standstill, because no other is known', async () => {
    const { registry, clock, source } = scripted();
    const waiting = registry.getToken('owner');
    await settle();
    clock.standStill(MINUTE);
    source.call(0).succeed({ response: { expires_in: 600 } });
    await waiting;
    expect(registry.stats().latencyMs).toBe(MINUTE);
  });

  it('time in which the process stood still does not count as waiting in the queue', async () => {
    const { registry, clock, source } = scripted({ concurrency: 1, maxQueueMs: 5_000 });
    const waiting = ['a', 'b'].map((owner) => registry.getToken(owner));
    await settle();
    clock.standStill(MINUTE);
    clock.advance(0);
    await settle(30);
    source.script((call) => call.succeed({ response: { expires_in: 600 } }));
    for (const call of source.calls) if (!call.settled) call.succeed({ response: { expires_in: 600 } });
    expect(await Promise.all(waiting)).toHaveLength(2);
  });
});
