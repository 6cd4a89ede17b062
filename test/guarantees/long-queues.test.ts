/** What concerns many owners at once is done in slices: the event loop turns in between, so other work goes on. */

import { describe, expect, it } from 'vitest';
import { SLICE } from '../../src/clock.ts';
import { OwnerTokenError } from '../../src/index.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { settle } from '../helpers/manual-clock.ts';
import { keys, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const OWNERS = 5_000;
/** No more calls settle between two looks than this: two slices, as the looks fall between them. */
const MOST_AT_ONCE = 2 * SLICE + 22;

/** Counts what settles in each turn of the event loop, until nothing more does. */
async function perTurn(calls: Promise<unknown>[], begin: () => void): Promise<number[]> {
  let settled = 0;
  const count = () => void settled++;
  for (const call of calls) call.then(count, count);
  begin();
  const turns: number[] = [];
  for (let before = settled; settled < calls.length; before = settled) {
    await new Promise((resolve) => setImmediate(resolve));
    turns.push(settled - before);
    if (turns.length > 1_000) throw new Error(`${settled} of ${calls.length} settled`);
  }
  return turns;
}

describe('a queue of 5,000 owners', () => {
  /** Opens the circuit for longer than calls wait for it. */
  const down = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 60_000 });

  it('is refused in one slice per turn when a circuit opens, however many requests fail at the same time', async () => {
    const { registry, source } = scripted({ concurrency: 16 });
    const calls = keys(OWNERS).map((key) => registry.getToken(key));
    await settle();
    const turns = await perTurn(calls, () => {
      for (const call of source.calls) call.fail(down);
    });
    expect(Math.max(...turns)).toBeLessThanOrEqual(MOST_AT_ONCE);
    expect(registry.stats()).toMatchObject({ queued: 0, inFlight: 0, waiting: 0 });
    expect(source.calls).toHaveLength(16);
    await registry.close();
  });

  it('times out without a break, even if its slices together take longer than a standstill', async () => {
    const { registry, clock, source } = scripted({ concurrency: 1, maxQueueMs: 5_000 });
    const first = registry.getToken('first');
    await settle();
    const handled = keys(1_000).map((key) => registry.getToken(key).catch(() => clock.standStill(2)));
    clock.moveTo(clock.nextDueMs);
    while (clock.runNext()) await settle();
    expect(registry.stats()).toMatchObject({ queued: 0, queueTimeouts: 1_000 });
    source.call(0).succeed();
    await Promise.all([first, ...handled]);
  });

  it('is ended in slices when the registry closes', async () => {
    const { registry, source } = scripted({ concurrency: 1 });
    const calls = keys(OWNERS).map((key) => registry.getToken(key));
    await settle();
    const turns = await perTurn(calls, () => {
      void registry.close();
      source.call(0).fail(new Error('aborted'));
    });
    expect(Math.max(...turns)).toBeLessThanOrEqual(MOST_AT_ONCE);
    expect(source.calls).toHaveLength(1);
  });
});

it('resume with 5,000 owners that back off ends every pause at once, and reports each recovery once', async () => {
  const lifted: unknown[] = [];
  const info = (line: object) => {
    const { event, owner } = shortNames(line);
    if (event === 'pause.lifted') lifted.push(owner);
  };
  const logger = { debug: () => {}, info, warn: () => {} };
  const { registry, source } = scripted({ maxOwners: OWNERS, maxQueued: OWNERS, logger });
  const refused = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
  source.script((call) => call.fail(refused));
  await Promise.allSettled(keys(OWNERS).map((key) => registry.getToken(key)));
  expect(registry.stats().pauses.owners).toBe(OWNERS);

  registry.resume();
  expect(registry.stats().pauses.owners).toBe(0);
  expect(lifted).toHaveLength(OWNERS);
  expect(registry.describe(`key-${OWNERS}`)).toEqual({ phase: 'empty' });
  const again = `key-${OWNERS - 1}`;
  await expect(registry.getToken(again)).rejects.toMatchObject({ code: 'owner_refused' });
  expect(source.countFor(again)).toBe(2);
  registry.resume();
  const fails = `key-${OWNERS - 2}`;
  await expect(registry.getToken(fails)).rejects.toMatchObject({ code: 'owner_refused' });

  expect(lifted).toHaveLength(OWNERS + 1);
  expect(new Set(lifted).size).toBe(OWNERS);
  expect(lifted.filter((owner) => owner === registry.fingerprint(again))).toHaveLength(2);
  expect(registry.stats().pauses.owners).toBe(1);
  expect(registry.describe(fails)).toMatchObject({ phase: 'backing-off' });
  await registry.close();
});

it('resume with 5,000 owners that back off counts the rejected tokens of an owner anew at once', async () => {
  const { registry } = scripted({ maxOwners: OWNERS }, ScriptedSource.answering(86_400));
  const rejectFresh = async (key: string, times: number) => {
    for (let n = 0; n < times; n++) registry.reject(key, await registry.getToken(key));
  };
  for (const key of keys(1_000)) await rejectFresh(key, 3);
  const held = await registry.getToken('key-1001');
  registry.resume();
  registry.reject('key-1000', held);
  await rejectFresh('key-1000', 2);
  await expect(registry.getToken('key-1000')).resolves.toBeDefined();
  await registry.close();
});

describe('a warm-up', () => {
  it('over owners with a token yields to the event loop', async () => {
    const { registry } = scripted({ maxOwners: OWNERS, concurrency: 100 }, ScriptedSource.answering(86_400));
    await registry.warmUp(keys(OWNERS));
    let turns = 0;
    let over = false;
    const turn = () => {
      turns++;
      if (!over) setImmediate(turn);
    };
    setImmediate(turn);
    const report = await registry.warmUp(keys(OWNERS));
    over = true;
    expect(report).toMatchObject({ ready: OWNERS, failedCount: 0 });
    expect(turns).toBeGreaterThan(OWNERS / MOST_AT_ONCE);
    await registry.close();
  });

  it('counts at most maxOwners as ready, and warns once', async () => {
    const warned: object[] = [];
    const logger = { debug: () => {}, info: () => {}, warn: (fields: object) => warned.push(shortNames(fields)) };
    const { registry } = scripted({ maxOwners: 3, logger }, ScriptedSource.answering(86_400));
    expect(await registry.warmUp(keys(5))).toEqual({ total: 5, ready: 3, failedCount: 0, failed: [] });
    expect(warned).toEqual([{ event: 'warmup.exceeded', registry: 'default', maxOwners: 3 }]);
    await registry.close();
  });
});

it('a signal shared by a thousand queued calls aborts: they leave at once, and none is requested or served', async () => {
  const { registry, source } = scripted({ concurrency: 1, maxQueued: 2_000 });
  const leaving = new AbortController();
  const reason = new Error('enough');
  const first = registry.getToken('first');
  const outcomes = Array.from({ length: 1_000 }, (_, n) => registry.getToken(`key-${n}`, { signal: leaving.signal }));
  const joined = registry.getToken('first', { signal: leaving.signal });
  for (const outcome of [...outcomes, joined]) outcome.catch(() => {});
  await settle();
  leaving.abort(reason);
  expect(registry.stats()).toMatchObject({ queued: 0, waiting: 1 });
  source.call(0).succeed();
  await first;
  await expect(joined).rejects.toBe(reason);
  for (const outcome of outcomes) await expect(outcome).rejects.toBe(reason);
  expect(source.calls).toHaveLength(1);
  expect(registry.stats()).toMatchObject({ queued: 0, waiting: 0 });
});
