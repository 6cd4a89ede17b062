/** O7 to O9: a part of the service fails, all of it does, or it slows down under load. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/index.ts';
import { play } from '../arena/play.ts';
import type { Scene } from '../arena/scene.ts';
import { plain, registry as withRegistry } from '../arena/subjects.ts';
import { settle } from '../helpers/manual-clock.ts';
import { errorOf, keys, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { collapsing, deadKeys, during, failed, refusal } from '../world/rules.ts';
import { type Answer, MIN, SEC } from '../world/setting.ts';

const STEP_MS = 50;
const ANSWER_MS = 20;

describe('O7', () => {
  const shard = (share: number, answer: Answer): Scene => ({
    name: 'a part of the service fails while tokens are refreshed',
    minutes: 3,
    tokenLifeS: 60,
    tenants: [
      { name: 'well', count: 300 * (1 - share), everyMs: 3 * SEC, burstMs: 5 * SEC },
      { name: 'shard', count: 300 * share, everyMs: 3 * SEC, burstMs: 5 * SEC, illFromMs: MIN, illUntilMs: 3 * MIN },
    ],
    rules: () => [during([MIN, 2 * MIN], deadKeys('shard', answer))],
  });

  it.each([
    [0.1, refusal(503)],
    [0.2, refusal(503)],
    [0.4, refusal(503)],
    [0.4, failed],
  ])(
    '%d of the owners fail with %j: the others notice nothing, and the failing ones are told at once',
    async (...row) => {
      const run = await play(shard(...row), withRegistry, 5);
      expect(run).toMatchObject({ inTime: 100, refused: 0, pending: 0 });
      expect(run.waitsMs.at(-1)).toBeLessThanOrEqual(1_500);
      expect(run.illP99Ms).toBeLessThanOrEqual(1_500);
    },
  );
});

describe('O8', () => {
  const failing = (code: OwnerTokenError['code'], options?: OwnerTokenErrorOptions) => () =>
    new OwnerTokenError(code, 'no', options);

  /** A registry whose service fails in this way from now on. */
  const outage = (error: () => OwnerTokenError) => {
    const source = ScriptedSource.answering(3_600);
    const { registry, clock } = scripted({}, source);
    const state = { isDown: true, sent: 0 };
    source.script((call) => {
      state.sent++;
      clock.setTimeout(
        () => (state.isDown ? call.fail(error()) : call.succeed({ response: { expires_in: 3_600 } })),
        ANSWER_MS,
      );
    });
    /** These owners call once a second each, spread over it. Gives the longest wait. */
    const called = async (owners: readonly string[], seconds: number) => {
      let worstMs = 0;
      let pending = 0;
      const perStep = Math.ceil(owners.length / (1_000 / STEP_MS));
      const call = (owner: string) => {
        const beganMs = clock.monotonic();
        pending++;
        const over = () => {
          pending--;
          worstMs = Math.max(worstMs, clock.monotonic() - beganMs);
        };
        registry.getToken(owner).then(over, over);
      };
      for (let step = 0; step < seconds * (1_000 / STEP_MS); step++) {
        for (let n = 0; n < perStep; n++) call(owners[(step * perStep + n) % owners.length] as string);
        await settle();
        clock.advance(STEP_MS);
        await settle();
      }
      for (let step = 0; pending > 0 && step < 100; step++) {
        clock.advance(STEP_MS);
        await settle();
      }
      return { worstMs, pending };
    };
    return { registry, clock, state, called };
  };

  it.each([
    ['503s', failing('endpoint_unavailable', { status: 503 })],
    ['429s', failing('rate_limited', { status: 429 })],
    ['500s', failing('endpoint_unavailable', { status: 500 })],
    ['invalid_client', failing('client_refused', { status: 401, oauthError: 'invalid_client' })],
  ])(
    'a registry starts in an outage of %s: no call waits for longer than a second and its own answer',
    async (...row) => {
      const { registry, state, called } = outage(row[1]);
      const { worstMs, pending } = await called(keys(200), 30);
      expect(pending).toBe(0);
      expect(worstMs).toBeLessThanOrEqual(1_000 + ANSWER_MS + 2 * STEP_MS);
      expect(state.sent).toBeLessThanOrEqual(80);
      await registry.close();
    },
  );

  it('an outage begins: no call waits through several pauses', async () => {
    const { registry, state, called } = outage(failing('endpoint_unavailable', { status: 503 }));
    state.isDown = false;
    await called(keys(20), 2);
    state.isDown = true;
    const { worstMs } = await called(
      keys(200).map((key) => `new ${key}`),
      20,
    );
    expect(worstMs).toBeLessThanOrEqual(1_000 + ANSWER_MS + 2 * STEP_MS);
    await registry.close();
  });

  it.each([1, 2])('the circuit closes although only owners with a fresh token call: after trial %d', async (trials) => {
    const { registry, clock, state, called } = outage(failing('endpoint_unavailable', { status: 503 }));
    state.isDown = false;
    await called(keys(20), 2);
    state.isDown = true;
    for (const key of keys(3)) await Promise.all([errorOf(registry.getToken(`new ${key}`)), called(keys(20), 1)]);
    while ((registry.stats().pauses.endpoint?.failures ?? 0) < trials) await called(keys(20), 1);
    state.isDown = false;
    const sinceMs = clock.monotonic();
    while (registry.stats().pauses.endpoint && clock.monotonic() - sinceMs < 60_000) await called(keys(20), 1);
    expect(registry.stats().pauses.endpoint).toBeUndefined();
    await registry.close();
  });

  it('an error says when the next attempt is made, before the first success too', async () => {
    const { registry, clock } = outage(failing('endpoint_unavailable', { status: 503 }));
    const failures = Promise.all(keys(16).map((key) => errorOf(registry.getToken(key))));
    await settle();
    clock.advance(ANSWER_MS);
    const retryAtMs = (await failures)
      .filter(({ failureScope }) => failureScope === 'endpoint')
      .map((e) => e.retryAtMs);
    expect(retryAtMs).toEqual(Array(7).fill(registry.stats().pauses.endpoint?.retryAtMs));
    await registry.close();
  });
});

describe('O9', () => {
  it.each([
    [2, 1],
    [3, 4],
  ])(
    'latency grows with the requests at once, to the power of %d, in %d waves: served as with 32 at once',
    async (power, waves) => {
      const scene: Scene = {
        name: 'a service that slows down',
        minutes: 3,
        lateMs: 15 * SEC,
        latencyMs: collapsing(100, 24, power),
        tenants: Array.from({ length: waves }, (_, wave) => ({
          name: `wave${wave}`,
          count: 1_500 / waves,
          burstMs: SEC,
          fromMs: 30 * SEC * wave,
        })),
      };
      const run = await play(scene, withRegistry, 3);
      const reference = await play(scene, plain, 3);
      expect(run).toMatchObject({ inTime: 100, refused: 0 });
      expect(run.p99Ms).toBeLessThanOrEqual(2.2 * reference.p99Ms);
    },
  );
});
