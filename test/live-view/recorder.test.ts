import { channel } from 'node:diagnostics_channel';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenRegistry } from '../../src/index.ts';
import { liveView } from '../../src/live-view/index.ts';
import { DROPPED_AT_ONCE, KEPT_MS, MAX_REQUESTS, Recorder } from '../../src/live-view/recorder.ts';
import type { SharingMessage } from '../../src/redis/diagnostics.ts';
import type { PauseMessage, RejectionMessage, RequestMessage } from '../../src/reporting/channel-messages.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

let nowMs: number;
let recorder: Recorder;

beforeEach(() => {
  nowMs = 0;
  recorder = new Recorder(['shown'], () => nowMs);
});

describe('outages', () => {
  const publish = (message: Partial<PauseMessage>) =>
    channel('owner-token-registry:pause').publish({ registry: 'shown', ...message });

  it('of one scope are recorded one after another, and end without those of the other scope', () => {
    publish({ scope: 'endpoint', action: 'paused' });
    publish({ scope: 'client', action: 'paused' });
    nowMs = 10;
    publish({ scope: 'endpoint', action: 'paused' });
    publish({ scope: 'endpoint', action: 'lifted' });
    nowMs = 20;
    publish({ scope: 'endpoint', action: 'paused' });
    expect(recorder.outages).toMatchObject([
      { scope: 'endpoint', fromMs: 0, toMs: 10 },
      { scope: 'client', fromMs: 0 },
      { scope: 'endpoint', fromMs: 20 },
    ]);
    expect(recorder.outages.map(({ toMs }) => toMs)).toEqual([10, undefined, undefined]);
  });

  it('are kept up to a hundred, the newest ones', () => {
    for (nowMs = 1; nowMs <= 101; nowMs++) {
      publish({ scope: 'endpoint', action: 'paused' });
      publish({ scope: 'endpoint', action: 'lifted' });
    }
    expect([recorder.outages.length, recorder.outages[0]?.fromMs, recorder.outages.at(-1)?.fromMs]).toEqual([
      100, 2, 101,
    ]);
  });

  it('of owners are not recorded', () => {
    publish({ scope: 'owner', action: 'paused' });
    expect(recorder.outages).toEqual([]);
  });
});

it('the recorder knows since when tokens are not shared, and why', () => {
  const publish = (message: Partial<SharingMessage>) =>
    channel('owner-token-registry:sharing').publish({ registry: 'shown', ...message });
  publish({ event: 'suspended', trouble: 'denied', redisCode: 'NOPERM' });
  nowMs = 5;
  publish({ event: 'suspended', trouble: 'timeout' });
  publish({ event: 'suspended', registry: 'other', trouble: 'timeout' });
  publish({ event: 'unreadable', count: 1 });
  expect([...recorder.sharingOff]).toEqual([['shown', { sinceMs: 0, trouble: 'timeout' }]]);
  publish({ event: 'resumed' });
  publish({ event: 'suspended', trouble: 'denied', redisCode: 'NOPERM' });
  expect(recorder.sharingOff.get('shown')).toEqual({ sinceMs: 5, trouble: 'denied', redisCode: 'NOPERM' });
});

describe('requests', () => {
  const request = (token: string) => {
    const message = { registry: 'shown', owner: 'owner', reason: 'absent', queuedMs: 0 } as RequestMessage;
    channel('tracing:owner-token-registry:request:start').publish(message);
    channel('tracing:owner-token-registry:request:asyncEnd').publish(Object.assign(message, { token }));
  };
  const reject = (token: string) =>
    channel('owner-token-registry:rejection').publish({ token, wasHeld: true } as RejectionMessage);

  it('are all counted, and kept up to what fits: the oldest are dropped, and their rejections are not recorded', () => {
    for (let each = 0; each < MAX_REQUESTS; each++) request(`token-${each}`);
    const [first, second] = recorder.requests;
    expect([recorder.requests.length, first?.token]).toEqual([
      MAX_REQUESTS - DROPPED_AT_ONCE,
      `token-${DROPPED_AT_ONCE}`,
    ]);
    for (const each of [0, DROPPED_AT_ONCE]) reject(`token-${each}`);
    expect([first?.rejectedAtMs, second?.rejectedAtMs]).toEqual([0, undefined]);
    expect(recorder.timelines.get('shown')?.since(0)).toEqual([[0, MAX_REQUESTS, 0, 0, 0, 0, 0, 0]]);
  });

  it('are dropped after fifteen minutes, and the recorder says from when on it has all', () => {
    expect(recorder.completeSinceMs).toBe(0);
    for (nowMs = 1; nowMs <= DROPPED_AT_ONCE; nowMs++) request(`token-${nowMs}`);
    nowMs = KEPT_MS + DROPPED_AT_ONCE;
    request('token-new');
    expect([recorder.requests.length, recorder.completeSinceMs]).toEqual([DROPPED_AT_ONCE + 1, 0]);
    nowMs++;
    request('token-newer');
    expect([recorder.requests.length, recorder.completeSinceMs]).toEqual([2, DROPPED_AT_ONCE + 1]);
  });

  it('of other registries are not recorded', () => {
    channel('tracing:owner-token-registry:request:start').publish({ registry: 'other' } as RequestMessage);
    expect(recorder.requests).toEqual([]);
  });
});

describe('a label function', () => {
  let labelled: string[];
  const throwing = (accessKey: string): string => {
    labelled.push(accessKey);
    throw new Error('the database is down');
  };
  const registryOf = (ownerLabel: (accessKey: string) => string) =>
    new OwnerTokenRegistry({ source: ScriptedSource.answering(), name: 'shown', ownerLabel });
  beforeEach(() => {
    labelled = [];
  });

  it('that throws fails no call, and its owner is recorded by the fingerprint', async () => {
    await using registry = registryOf(throwing);
    await registry.getToken('key-1');
    expect(recorder.requests).toMatchObject([{ owner: registry.fingerprint('key-1'), token: expect.any(String) }]);
    expect(recorder.requests[0]?.owner).toMatch(/^owner_/);
  });

  it('that is slow delays each request once or twice, and no call that is served from the cache', async () => {
    await using registry = registryOf((accessKey) => `customer ${labelled.push(accessKey)}`);
    await registry.getToken('key-1');
    expect(recorder.requests).toMatchObject([{ owner: 'customer 1' }]);
    const forRequest = labelled.length;
    for (let each = 0; each < 100; each++) await registry.getToken('key-1');
    expect([forRequest <= 2, labelled.length]).toEqual([true, forRequest]);
  });

  it('that throws fails no call once a view was dropped, which nothing keeps in memory', async () => {
    setFlagsFromString('--expose-gc');
    const collect: () => void = runInNewContext('gc');
    await using registry = registryOf(throwing);
    const dropped = new WeakRef(liveView(registry, { public: true }));
    for (let turn = 0; dropped.deref() && turn < 100; turn++) {
      await nextTurn();
      collect();
    }
    expect(dropped.deref()).toBeUndefined();
    expect((await registry.getToken('key-1')).value).toEqual(expect.any(String));
    expect(recorder.requests).toMatchObject([{ owner: registry.fingerprint('key-1') }]);
  });
});
