import { describe, expect, it, vi } from 'vitest';
import { type ExpiryPolicy, OwnerTokenError, OwnerTokenRegistry, type SourceNews } from '../../src/index.ts';
import { LOG_EVENTS } from '../../src/reporting/log-events.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { answering, callAtOnce, errorOf, keys, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

/** The lines that a registry logs. */
function log() {
  const lines: { event: string }[] = [];
  const write = (fields: object) => void lines.push(shortNames(fields) as { event: string });
  return { lines, logger: { debug: write, info: write, warn: write } };
}

it('getToken evicts the least recently used owner and logs it; peeking does not count as use', async () => {
  const { lines, logger } = log();
  const { registry, source } = answering({ maxOwners: 3, logger });
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
  expect(lines).toContainEqual({ event: 'owner.evicted', registry: 'default', owner: registry.fingerprint('key-2') });
});

it('getToken gives the source the reason, the held token, and the rejected one', async () => {
  const { registry, source, clock } = answering();
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
    { reason: 'rejected', held: third, rejected: third },
  ]);
  expect(second).not.toBe(first);
  for (const { request } of source.calls) expect(request.signal.aborted).toBe(false);
});

it("getToken tells a source what the registry's policy makes of a token response", async () => {
  const { registry, source } = scripted({}, ScriptedSource.answering());
  await registry.getToken('key-1');
  const { lifetimeMs } = source.call(0).request;
  expect(lifetimeMs({ token: 'opaque', response: { expires_in: 60 } })).toBe(60_000);
  expect(lifetimeMs({ token: 'opaque', response: { expires_in: -1 } })).toBeCloseTo(1_000 / 0.95);
  expect(lifetimeMs({ token: 'opaque' })).toBe(300_000);
});

it('reject returns whether the cached token, or a string that is equal to it, is now to be replaced', async () => {
  const { registry } = answering();
  const token = await registry.getToken('key-1');
  for (const other of ['another', undefined as unknown as string]) expect(registry.reject('key-1', other)).toBe(false);
  expect([registry.reject('key-1', token), registry.reject('key-1', token)]).toEqual([true, false]);
  const second = await registry.getToken('key-1');
  registry.accept('key-1', second);
  expect(registry.reject('key-1', second.value)).toBe(true);
  expect(registry.stats()).toMatchObject({ rejections: 2, usable: 1 });
});

describe('evidence', () => {
  const learning = () => {
    const heard: [string, number][] = [];
    const expiry: ExpiryPolicy = {
      lifetimeMs: () => 100_000,
      accepted: ({ ageMs }) => void heard.push(['accepted', ageMs]),
      rejected: ({ ageMs }) => void heard.push(['rejected', ageMs]),
    };
    return { heard, ...answering({ expiry }) };
  };

  it('names owner and token by their digests, since two owners may have one label', async () => {
    const accepted = vi.fn();
    const { registry } = answering({ expiry: { lifetimeMs: () => 100_000, accepted }, ownerLabel: () => 'customer' });
    const token = await registry.getToken('key-1');
    registry.accept('key-1', token);
    const digest = expect.stringMatching(/^owner_[\w-]{16}$/);
    expect(accepted).toHaveBeenCalledWith({ owner: digest, token: token.fingerprint, ageMs: 0 });
  });

  it('is not given of a rejection if the next token is rejected too, or the same one is accepted after all', async () => {
    const { heard, registry } = learning();
    registry.reject('key-1', await registry.getToken('key-1'));
    const second = await registry.getToken('key-1');
    registry.reject('key-1', second);
    registry.accept('key-1', second);
    const third = await registry.getToken('key-2');
    registry.reject('key-2', third);
    registry.accept('key-2', third);
    expect(heard).toEqual(Array(2).fill(['accepted', 0]));
  });

  it('is reported only of tokens that the registry issued, to owners it holds', async () => {
    const { heard, registry } = learning();
    const token = await registry.getToken('key-1');
    registry.accept('key-1', token.value as unknown as typeof token);
    registry.accept('key-2', token);
    registry.reject('key-1', 'a stranger');
    expect(heard).toEqual([]);
  });

  it('on which a policy throws is reported once', async () => {
    const { lines, logger } = log();
    const accepted = () => expect.fail('no');
    const { registry } = answering({ logger, expiry: { lifetimeMs: () => 5_000, accepted } });
    const token = await registry.getToken('key-1');
    for (let n = 0; n < 2; n++) registry.accept('key-1', token);
    expect(lines.filter(({ event }) => event === 'hook.failed')).toHaveLength(1);
  });
});

describe('a label', () => {
  it.each([
    ['equals', 'key-1', 'key-1'],
    ['begins with', 'clinic', 'clinic 17'],
    ['contains', '7', 'Clinic 170'],
    ['ends with', '7', 'Clinic 17'],
  ])('that %s the access key is ignored; one log line says so and quotes neither', (_, accessKey, label) => {
    const warned: [object, string][] = [];
    const logger = { debug() {}, info() {}, warn: (...line: [object, string]) => void warned.push(line) };
    const ownerLabel = (key: string) => (key === accessKey ? label : `label of ${key}`);
    const { registry } = answering({ logger, ownerLabel });
    const [owner] = [accessKey, 'key-2', accessKey].map((key) => registry.fingerprint(key));
    expect(owner).toMatch(/^owner_/);
    expect(warned.map(([fields, message]) => [shortNames(fields), message])).toEqual([
      [{ event: 'label.ignored', registry: 'default', owner }, LOG_EVENTS['label.ignored'].message],
    ]);
  });

  it.each(['', 'Clinic 1'])('of %j, without the access key, is not reported', (label) => {
    const { lines, logger } = log();
    const { registry } = answering({ logger, ownerLabel: () => label });
    registry.fingerprint('7');
    expect(lines).toEqual([]);
  });
});

it('forget drops the token, pause and request of that owner alone, and returns whether there was any', async () => {
  const source = ScriptedSource.answering();
  const { registry } = scripted({}, source);
  expect(registry.forget('key-1')).toBe(false);
  await registry.getToken('key-2');
  await registry.getToken('key-1');
  expect([registry.forget('key-1'), registry.forget('key-1')]).toEqual([true, false]);
  source.script((call) => call.fail(new Error('no')));
  await errorOf(registry.getToken('key-1'));
  expect([registry.forget('key-1'), registry.forget('key-1')]).toEqual([true, false]);
  source.script(undefined);
  const waiting = registry.getToken('key-1'); // No pause is left: it asks at once.
  await settle();
  expect(source.calls).toHaveLength(4);
  expect([registry.forget('key-1'), registry.forget('key-1')]).toEqual([true, false]);
  source.call(3).succeed();
  await waiting;
  expect(registry.peek('key-2')).toBeDefined();
});

it('forget tells the source of every owner, what was forgotten elsewhere does not, and a source that throws fails no call', async () => {
  const { lines, logger } = log();
  const told: string[] = [];
  let news: SourceNews | undefined;
  const source = Object.assign(ScriptedSource.answering(), {
    listen(given: SourceNews) {
      news = given;
    },
    forget: (accessKey: string) => {
      told.push(accessKey);
      throw new Error('canary');
    },
  });
  const registry = new OwnerTokenRegistry({ source, logger });
  await registry.getToken('key-1');
  await registry.getToken('key-2');
  expect([registry.forget('key-1'), registry.forget('unknown')]).toEqual([true, false]);
  news?.forgotten?.('key-2');
  await settle();
  expect([registry.peek('key-2'), told]).toEqual([undefined, ['key-1', 'unknown']]);
  expect(lines).toContainEqual(expect.objectContaining({ event: 'hook.failed', hook: 'source.forget' }));
});

it('forgetAll leaves no canary to an open circuit, so that a caller’s request is the trial', async () => {
  const { registry, clock, source } = scripted({}, ScriptedSource.answering());
  await registry.getToken('canary');
  const down = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 5_000 });
  source.script((call) => call.fail(down));
  await errorOf(registry.getToken('key-1'));
  registry.forgetAll();
  source.script(undefined);
  clock.advance(5_000);
  for (const owner of ['new', 'newer']) registry.getToken(owner).catch(() => {});
  await settle();
  expect(source.calls.map(({ accessKey }) => accessKey)).toEqual(['canary', 'key-1', 'new']);
  await registry.close({ timeoutMs: 0 });
});

it('describe returns the phase of an owner, and only the fields that apply', async () => {
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

it('an error names its owner by the label, a cached one too', async () => {
  const ownerLabel = (accessKey: string) => `customer ${accessKey.length}`;
  const { registry } = scripted({ ownerLabel }, new ScriptedSource((call) => call.fail(new Error('no'))));
  for (let call = 0; call < 2; call++) expect((await errorOf(registry.getToken('key-1'))).owner).toBe('customer 5');
});

it('resume with an access key lifts the pause of that owner, and no other', async () => {
  const { lines, logger } = log();
  const { registry, source } = scripted({ logger }, new ScriptedSource((call) => call.fail(new Error('no'))));
  for (const key of ['key-1', 'key-2']) await registry.getToken(key).catch(() => {});
  registry.resume('key-1');
  registry.resume('key-3');
  source.script((call) => call.succeed());
  await registry.getToken('key-1');
  await expect(registry.getToken('key-2')).rejects.toMatchObject({ code: 'source_failed' });
  const lifted = { event: 'pause.lifted', failureScope: 'owner', owner: registry.fingerprint('key-1') };
  expect(lines.filter(({ event }) => event === 'pause.lifted')).toMatchObject([lifted]);
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
    owners: 2,
    usable: 1,
    inFlight: 1,
    slow: 0,
    concurrency: 1,
    queued: 1,
    longestQueuedMs: 0,
    waiting: 3,
    late: 0,
    queueFull: 0,
    queueTimeouts: 0,
    latencyMs: 0,
    hits: 3,
    joined: 3,
    requests: 4,
    refreshes: 1,
    canaries: 0,
    failures: 1,
    rejections: 1,
    evictions: 0,
    refused: { owner: 0, client: 0, endpoint: 0 },
    failedCalls: { request: 1, refused: 0, queue: 0 },
    abandonedCalls: 0,
    withoutService: { owners: 1 },
  });
  expect(pauses).toEqual({ owners: 1 });
  left.abort();
  await errorOf(waiting[2] as never).catch(() => {});
  source.script((call) => call.succeed());
  source.call(3).succeed();
  await Promise.all(waiting.slice(0, 2));
  for (const key of ['key-4', 'key-5']) await registry.getToken(key);
  expect(registry.stats()).toMatchObject({ owners: 3, evictions: 1, inFlight: 0, queued: 0, waiting: 0 });
  expect(JSON.parse(JSON.stringify(registry.stats()))).toEqual(registry.stats());
});

it('close rejects with invalid options, and closes nothing', async () => {
  const { registry, source } = answering();
  await expect(registry.close({ timeoutMs: -1 })).rejects.toMatchObject({ code: 'invalid_options' });
  expect(source.closed).toBe(0);
});

describe('registries', () => {
  it('refuse an invalid signal before anything is requested', async () => {
    const { registry, source } = answering();
    const signal = {} as AbortSignal;
    await expect(registry.getToken('key-1', { signal })).rejects.toMatchObject({ code: 'invalid_options' });
    await settle();
    expect(source.calls).toHaveLength(0);
  });

  it('refuse a signal in place of the options', async () => {
    const { registry, source } = answering();
    const call = registry.getToken('key-1', new AbortController().signal as { signal?: AbortSignal });
    await expect(call).rejects.toMatchObject({
      code: 'invalid_options',
      message: expect.stringContaining('{ signal }'),
    });
    expect(source.calls).toHaveLength(0);
  });

  it('reject a call whose clock throws, rather than throw at the caller', async () => {
    let broken = false;
    const clock = new ManualClock();
    const now = () => {
      if (broken) throw new Error('no time');
      return clock.now();
    };
    const source = ScriptedSource.answering();
    const registry = new OwnerTokenRegistry({ source, clock: { now, monotonic: () => clock.monotonic() } });
    await registry.getToken('key-1');
    broken = true;
    await expect(registry.getToken('key-1')).rejects.toThrow('no time');
    broken = false;
    await registry.getToken('key-1');
    expect(source.calls).toHaveLength(1);
  });
});

describe('an owner', () => {
  it('is enumerated with its names, its state and why it fails', async () => {
    const source = ScriptedSource.answering();
    const { registry } = scripted({ ownerLabel: (accessKey) => accessKey.toUpperCase() }, source);
    await registry.getToken('key-1');
    source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no')));
    await errorOf(registry.getToken('key-2'));
    source.script(undefined);
    const call = registry.getToken('key-3');
    await settle();
    const owners = [...registry.eachOwner()];
    expect(owners).toMatchObject([
      { owner: 'KEY-1', phase: 'fresh', fingerprint: expect.stringMatching(/^owner_/) },
      { owner: 'KEY-2', phase: 'backing-off', failure: { code: 'owner_refused' } },
      { owner: 'KEY-3', phase: 'requesting' },
    ]);
    source.call(-1).succeed();
    await call;
    await registry.close();
    expect([...registry.eachOwner()]).toEqual([]);
  });

  it('is enumerated once while the replacement of its token is in flight', async () => {
    const { registry, source } = scripted({}, ScriptedSource.answering());
    const token = await registry.getToken('a');
    source.script(undefined);
    registry.reject('a', token);
    const call = registry.getToken('a');
    await settle();
    expect([registry.stats().inFlight, [...registry.eachOwner()].length]).toEqual([1, 1]);
    source.call(-1).succeed();
    await call;
  });

  it('without a token that was used last stays when another one needs its place', async () => {
    const source = new ScriptedSource((call) => call.fail(new OwnerTokenError('owner_refused', 'no')));
    const { registry } = scripted({ maxOwners: 2 }, source);
    for (const key of ['a', 'b', 'a', 'c', 'a']) await errorOf(registry.getToken(key));
    expect(source.calls.map(({ accessKey }) => accessKey)).toEqual(['a', 'b', 'c']);
    await errorOf(registry.getToken('b'));
    expect(source.calls.at(-1)?.accessKey).toBe('b');
  });

  it('that stays is not missed while others are used, forgotten or new', async () => {
    const source = new ScriptedSource((call) =>
      call.accessKey.startsWith('dead') ? call.fail(new OwnerTokenError('owner_refused', 'no')) : call.succeed(),
    );
    const { registry } = scripted({}, source);
    const stay = ['a', 'b', 'dead-c', 'dead-d'];
    await Promise.allSettled(stay.map((key) => registry.getToken(key)));
    const seen = new Set<string>();
    for (const { fingerprint } of registry.eachOwner()) {
      seen.add(fingerprint);
      await Promise.allSettled(['a', 'dead-c'].map((key) => registry.getToken(key)));
      registry.forget('x');
      await registry.getToken('x');
    }
    for (const key of stay) expect(seen).toContain(registry.fingerprint(key));
  });
});

it('stats count calls that were late, or that timed out in the queue, which makes no owner fail', async () => {
  const { clock, registry, source } = scripted({ concurrency: 1, requestTimeoutMs: 300_000 });
  const first = registry.getToken('key-1');
  clock.advance(5_000);
  const timedOut = errorOf(registry.getToken('key-2'));
  await settle();
  clock.advance(25_000);
  const later = registry.getToken('key-3');
  clock.advance(5_000);
  expect((await timedOut).code).toBe('queue_timeout');
  const { queueTimeouts, longestQueuedMs, late, pauses } = registry.stats();
  expect([queueTimeouts, longestQueuedMs, late, pauses.owners]).toEqual([1, 5_000, 0, 0]);
  source.script((call) => call.succeed());
  source.call(0).succeed();
  await Promise.all([first, later]);
  expect(registry.stats().late).toBe(1);
});

it('stats of an open circuit say since when, and its status', async () => {
  const { clock, registry, source } = scripted();
  const given = { failureScope: 'endpoint', status: 503 } as const;
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down', given)));
  const sinceMs = clock.now();
  await errorOf(registry.getToken('key-1'));
  clock.advance(2_000);
  await errorOf(registry.getToken('key-2'));
  expect(registry.stats().pauses.endpoint).toMatchObject({ sinceMs, status: 503, failedAtMs: sinceMs + 2_000 });
});

it('stats have a configured quota as the pace, and the latency once it is known', async () => {
  const { registry, source } = scripted({ requestsPerSecond: 5 }, ScriptedSource.answering());
  expect([registry.stats().pace, registry.stats().latencyMs]).toEqual([{ perSecond: 5, reason: 'quota' }, undefined]);
  await registry.getToken('key-1');
  expect([registry.stats().latencyMs, source.calls.length]).toEqual([0, 1]);
});

it("stats that a logger reads before an opening circuit's pause is reported are those of its failure", async () => {
  const seen: unknown[] = [];
  const down = new OwnerTokenError('endpoint_unavailable', 'it is down', { failureScope: 'endpoint' });
  const write = () => void seen.push(registry.stats().pauses.endpoint);
  const source = new ScriptedSource((call) => call.fail(down));
  const { registry } = scripted({ logger: { info: write, warn: write, debug: write } }, source);
  await errorOf(registry.getToken('key-1'));
  expect(seen).toContainEqual(expect.objectContaining({ code: 'endpoint_unavailable', failures: 1 }));
  for (const pause of seen.filter(Boolean)) {
    const { sinceMs, failedAtMs } = pause as { sinceMs: number; failedAtMs: number };
    expect(sinceMs).toBe(failedAtMs);
  }
});

it('a rejection reported by another replica affects only the held token', async () => {
  const source = ScriptedSource.answering();
  let news: SourceNews | undefined;
  const listen = (given: SourceNews) => {
    news = given;
  };
  const { registry } = scripted({}, Object.assign(source, { listen }));
  const { value } = await registry.getToken('a');
  news?.rejected('a', (token) => token !== value);
  news?.rejected('unknown', () => true);
  expect(registry.peek('a')?.value).toBe(value);
  news?.rejected('a', (token) => token === value);
  expect(registry.peek('a')).toBeUndefined();
  await registry.close();
});

it('an owner whose tokens are rejected still counts after another replica has ended its pause', async () => {
  const source = ScriptedSource.answering(100);
  let news: SourceNews | undefined;
  const listen = (given: SourceNews) => {
    news = given;
  };
  const { registry, clock } = scripted({}, Object.assign(source, { listen }));
  const rejectNext = async () => registry.reject('a', await registry.getToken('a'));
  await rejectNext();
  await rejectNext();
  clock.advance(10_000);
  await rejectNext();
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down')));
  await registry.getToken('a');
  expect(registry.stats().pauses).toMatchObject({ owners: 1, rejected: { owners: 1 } });
  news?.recovered('a');
  expect(registry.stats().pauses).toEqual({ owners: 0, rejected: { owners: 1, sinceMs: clock.now() } });
  await registry.close();
});
