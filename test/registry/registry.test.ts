import diagnostics from 'node:diagnostics_channel';
import { describe, expect, it, vi } from 'vitest';
import {
  AccessToken,
  type ExpiryPolicy,
  OwnerTokenError,
  OwnerTokenRegistry,
  type OwnerTokenRegistryOptions,
  TokenEndpoint,
} from '../../src/index.ts';
import { Fingerprints } from '../../src/registry/fingerprints.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { LoopbackService, status, token } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { callAtOnce, errorOf, keys, scripted, tally } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

function make(source: ScriptedSource, options: Partial<OwnerTokenRegistryOptions> = {}) {
  const clock = new ManualClock();
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, ...options });
  return { clock, registry, source };
}

/** One whose source answers at once, with tokens good for 100 s: due for a refresh after 70, past their end after 95. */
const answering = (options: Partial<OwnerTokenRegistryOptions> = {}) => make(ScriptedSource.answering(100), options);

/** One whose source refuses every owner. */
const refusing = (options: Partial<OwnerTokenRegistryOptions> = {}) =>
  make(new ScriptedSource((call) => call.fail(new Error('no'))), options);

/** Opens the endpoint's circuit for longer than calls wait for it. */
const down = new OwnerTokenError('endpoint_unavailable', 'it is down', {
  failureScope: 'endpoint',
  retryAfterMs: 5_000,
});

/** The lines that a registry logs. */
function log() {
  const lines: { event: string }[] = [];
  const write = (fields: object) => void lines.push(shortNames(fields) as { event: string });
  return { lines, logger: { debug: write, info: write, warn: write } };
}

describe('getToken', () => {
  it('asks once for many callers of a cold owner, and serves all later ones from what is held', async () => {
    const source = ScriptedSource.answering();
    const { registry } = make(source);
    const tokens = await Promise.all(Array.from({ length: 1000 }, () => registry.getToken('key-1')));
    expect(new Set(tokens).size).toBe(1);
    await registry.getToken('key-1');
    expect(source.calls).toHaveLength(1);
    expect(registry.stats()).toMatchObject({ owners: 1, usable: 1, hits: 1, joined: 999, requests: 1, inFlight: 0 });
  });

  it('backs off from an owner that is refused for good up to a day, where its cap says so', async () => {
    const DAY_MS = 86_400_000;
    const refused = new OwnerTokenError('owner_refused', 'revoked', { oauthError: 'invalid_grant' });
    const source = new ScriptedSource((call) => call.fail(refused));
    const { registry, clock } = make(source, { pauses: { owner: { baseMs: 1000, capMs: DAY_MS } } });
    const lengthsMs = [];
    for (let attempt = 1; attempt <= 20; attempt++) {
      const { retryAtMs = Number.NaN } = await errorOf(registry.getToken('key-1'));
      expect(source.calls).toHaveLength(attempt);
      // Jitter draws three quarters of it here.
      lengthsMs.push((retryAtMs - clock.now()) / 0.75);
      clock.advance(retryAtMs - clock.now());
    }
    expect(lengthsMs.slice(0, 3)).toEqual([1000, 2000, 4000]);
    expect(lengthsMs.slice(-4)).toEqual([65_536_000, DAY_MS, DAY_MS, DAY_MS]);
    // It recovers by itself, with the next call after the pause.
    source.script((call) => call.succeed());
    await registry.getToken('key-1');
  });

  it('serves past the refresh point and asks once in the background', async () => {
    const source = ScriptedSource.answering(100);
    const { registry, clock } = make(source);
    const first = await registry.getToken('key-1');
    clock.advance(70_000);
    source.script(undefined);
    expect(await registry.getToken('key-1')).toBe(first);
    expect(await registry.getToken('key-1')).toBe(first);
    expect(source.calls).toHaveLength(2);
    expect(source.call(1).request).toMatchObject({ reason: 'refresh', held: first });
    source.call(1).succeed({ response: { expires_in: 100 } });
    await settle();
    expect((await registry.getToken('key-1')).value).not.toBe(first.value);
  });

  it('shares a failure, pauses the owner alone, and refuses at once until the pause is over', async () => {
    const source = new ScriptedSource((call) => call.fail(new Error('no')));
    const { registry, clock } = make(source);
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => registry.getToken('key-1')));
    expect(outcomes.every((outcome) => outcome.status === 'rejected')).toBe(true);
    expect(source.calls).toHaveLength(1);
    await expect(registry.getToken('key-1')).rejects.toMatchObject({
      code: 'source_failed',
      failureScope: 'owner',
      retryAtMs: clock.now() + 750,
    });
    expect(source.calls).toHaveLength(1);
    clock.advance(750);
    source.script((call) => call.succeed());
    await registry.getToken('key-1');
    expect(source.calls).toHaveLength(2);
  });

  it('refuses what is no access key, and throws nothing at once', async () => {
    const { registry, source } = answering();
    for (const accessKey of ['', undefined, 7]) {
      const call = registry.getToken(accessKey as string);
      await expect(call).rejects.toMatchObject({ code: 'invalid_access_key' });
    }
    expect(source.calls).toEqual([]);
  });

  it('rejects with the reason of a signal that is aborted already, even where a token is held', async () => {
    const { registry } = answering();
    await registry.getToken('key-1');
    const signal = AbortSignal.abort('enough');
    await expect(registry.getToken('key-1', { signal })).rejects.toBe('enough');
    await expect(registry.getToken('key-2', { signal })).rejects.toBe('enough');
    expect(registry.stats()).toMatchObject({ hits: 0, requests: 1 });
  });

  it('is heard by those who listen, each outcome with its owner', async () => {
    const { registry, clock, source } = answering();
    const heard: unknown[] = [];
    const listen = (message: unknown) => void heard.push((message as { outcome: string }).outcome);
    diagnostics.subscribe('owner-token-registry:lookup', listen);
    await Promise.all([registry.getToken('key-1'), registry.getToken('key-1')]);
    await registry.getToken('key-1');
    clock.advance(70_000);
    source.script(undefined);
    await registry.getToken('key-1');
    await registry.getToken('key-1');
    source.call(1).fail(new Error('no'));
    await settle();
    await registry.getToken('key-1');
    registry.reject('key-1', (await registry.getToken('key-1')).value);
    await registry.getToken('key-1').catch(() => {});
    diagnostics.unsubscribe('owner-token-registry:lookup', listen);
    expect(heard).toEqual([...['request', 'wait', 'serve', 'serve-and-refresh', 'serve', 'serve', 'serve', 'refuse']]);
    expect(registry.stats()).toMatchObject({ hits: 5, joined: 1, requests: 2, refreshes: 1, failures: 1 });
  });

  it('evicts the least recently used owner, for which looking at it is no use, and logs it', async () => {
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

  it('refuses with the pause that ends last', async () => {
    const { registry, source } = refusing({ pauses: { owner: { baseMs: 60_000, capMs: 60_000 } } });
    await registry.getToken('key-1').catch(() => {});
    source.script((call) => call.fail(down));
    await registry.getToken('key-2').catch(() => {});
    await expect(registry.getToken('key-1')).rejects.toMatchObject({ code: 'source_failed' });
    await expect(registry.getToken('key-3')).rejects.toMatchObject({ code: 'endpoint_unavailable' });
  });

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

  it('rejects with an error that says when it failed, how long ago that is, and when the next attempt is made', async () => {
    const { registry, clock, source } = scripted({}, new ScriptedSource((call) => call.fail(new Error('no'))));
    const failedAtMs = clock.now();
    const first = await errorOf(registry.getToken('key-1'));
    expect(first).toMatchObject({ failedAtMs, retryAtMs: failedAtMs + 750 });
    clock.advance(200);
    const second = await errorOf(registry.getToken('key-1'));
    expect(second).toMatchObject({ code: first.code, failedAtMs, retryAtMs: failedAtMs + 750, retryable: true });
    expect(second.message).toMatch(/next attempt in 0\.\d s \(last failure just now\)/);
    // Drawn once: however often it is asked, the moment stays.
    for (let call = 0; call < 20; call++)
      expect((await errorOf(registry.getToken('key-1'))).retryAtMs).toBe(failedAtMs + 750);
    expect(source.calls).toHaveLength(1);
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

  it('gives the source the reason, the held token, and the rejected one', async () => {
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

  it('corrects a date in the future, keeps another scheme, and refuses what is no token', async () => {
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

describe('peek', () => {
  it('gives the token that is usable now, and never asks for one', async () => {
    const { registry, clock, source } = answering();
    expect(registry.peek('key-1')).toBeUndefined();
    const token = await registry.getToken('key-1');
    expect(registry.peek('key-1')).toBe(token);
    clock.advance(94_999);
    expect(registry.peek('key-1')).toBe(token);
    clock.advance(1);
    expect(registry.peek('key-1')).toBeUndefined();
    expect(() => registry.peek('')).toThrow(expect.objectContaining({ code: 'invalid_access_key' }));
    expect(source.calls).toHaveLength(1);
  });

  it('gives the token of an owner that was dropped while its next one is asked for', async () => {
    const { registry, clock, source } = answering({ maxOwners: 1 });
    const token = await registry.getToken('key-1');
    clock.advance(70_000);
    source.script((call) => call.accessKey === 'key-2' && call.succeed());
    await registry.getToken('key-1');
    await registry.getToken('key-2');
    expect(registry.stats()).toMatchObject({ evictions: 1, inFlight: 1 });
    expect(registry.peek('key-1')).toBe(token);
    expect(await registry.getToken('key-1')).toBe(token);
    source.call(1).succeed();
    await settle();
    expect(registry.peek('key-1')?.value).not.toBe(token.value);
  });
});

describe('reject', () => {
  it('drops exactly the token that is held, given as itself or as a string', async () => {
    const { registry, source } = answering();
    const token = await registry.getToken('key-1');
    expect(registry.reject('key-1', 'another')).toBe(false);
    expect(registry.reject('key-2', token)).toBe(false);
    expect(registry.reject('key-1', undefined as unknown as string)).toBe(false);
    expect(registry.peek('key-1')).toBe(token);
    expect(registry.reject('key-1', token)).toBe(true);
    expect(registry.reject('key-1', token)).toBe(false);
    const second = await registry.getToken('key-1');
    expect(source.call(1).request).toMatchObject({ reason: 'rejected', rejected: token });
    expect(registry.reject('key-1', second.value)).toBe(true);
    expect(registry.stats()).toMatchObject({ rejections: 2, usable: 0 });
  });

  it('remembers as the last one refused what is reported where none is held', async () => {
    const { registry, clock, source } = answering();
    const token = await registry.getToken('key-1');
    clock.advance(95_000);
    source.script(undefined);
    void registry.getToken('key-1');
    await settle();
    expect(registry.reject('key-1', token)).toBe(false);
    source.call(1).succeed({ token: token.value });
    await settle();
    expect(source.call(2).request).toMatchObject({ reason: 'rejected', rejected: token });
    source.call(2).succeed({ response: { expires_in: 100 } });
    await settle();
    // With a newer one held, a late report changes nothing.
    expect(registry.reject('key-1', token)).toBe(false);
    expect(registry.peek('key-1')).toBeDefined();
  });

  it('computes each token’s fingerprint once, and the owner’s only for a log line', async () => {
    const computed = [vi.spyOn(Fingerprints.prototype, 'ofToken'), vi.spyOn(Fingerprints.prototype, 'namesOf')];
    const computedWith = async (options: Partial<OwnerTokenRegistryOptions>) => {
      for (const each of computed) each.mockClear();
      const { registry } = answering(options);
      registry.reject('key-1', await registry.getToken('key-1'));
      await registry.getToken('key-1');
      return computed.map((each) => each.mock.calls.length);
    };
    // Two tokens: the rejected one, and the next one, which is compared with it.
    expect(await computedWith({})).toEqual([2, 0]);
    expect(await computedWith({ logger: log().logger })).toEqual([2, 1]);
    for (const each of computed) each.mockRestore();
  });

  it('recognises a token that came from another registry, with another fingerprint', async () => {
    const { registry, source } = answering();
    registry.reject('key-1', await registry.getToken('key-1'));
    source.script(undefined);
    const waiting = registry.getToken('key-1');
    await settle();
    const times = { issuedAtMs: 0, refreshAtMs: 1, expiresAtMs: 2 };
    const foreign = { value: 'next', tokenType: 'Bearer', fingerprint: 'token_elsewhere', ...times };
    registry.reject('key-1', new AccessToken(foreign));
    source.call(1).succeed({ token: 'next' });
    await settle();
    source.call(2).succeed({ token: 'another' });
    expect((await waiting).value).toBe('another');
  });

  it('pauses the owner after three fresh tokens in a row', async () => {
    const { lines, logger } = log();
    const { registry, clock } = answering({ logger });
    for (let n = 0; n < 3; n++) expect(registry.reject('key-1', await registry.getToken('key-1'))).toBe(true);
    await expect(registry.getToken('key-1')).rejects.toMatchObject({
      ...{ code: 'token_rejected', retryAtMs: clock.now() + 750 },
    });
    expect(registry.describe('key-1')).toMatchObject({ phase: 'backing-off', code: 'token_rejected' });
    expect(lines.filter(({ event }) => event === 'token.rejected')).toHaveLength(3);
  });
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

  it('goes to the policy with the token’s age, each rejection once', async () => {
    const { heard, registry, clock } = learning();
    const token = await registry.getToken('key-1');
    clock.advance(5);
    registry.accept('key-1', token);
    registry.reject('key-1', token);
    registry.reject('key-1', token);
    expect(heard).toEqual([
      ['accepted', 5],
      ['rejected', 5],
    ]);
  });

  it('names owner and token by their digests, since two owners may have one label', async () => {
    const rejected = vi.fn();
    const { registry } = answering({ expiry: { lifetimeMs: () => 100_000, rejected }, ownerLabel: () => 'customer' });
    const token = await registry.getToken('key-1');
    registry.reject('key-1', token);
    const digest = expect.stringMatching(/^owner_[\w-]{16}$/);
    expect(rejected).toHaveBeenCalledWith({ owner: digest, token: token.fingerprint, ageMs: 0 });
  });

  it('that cannot be given to the policy keeps no rejected token in use', async () => {
    const expiry = {
      lifetimeMs: () => 100_000,
      get rejected(): never {
        throw new Error('no');
      },
    };
    const { registry } = answering({ expiry });
    const token = await registry.getToken('key-1');
    expect(registry.reject('key-1', token)).toBe(true);
    expect(registry.peek('key-1')).toBeUndefined();
  });

  it('is only of tokens that are ours, of owners that are held', async () => {
    const { heard, registry } = learning();
    const token = await registry.getToken('key-1');
    registry.accept('key-1', token.value as unknown as typeof token);
    registry.accept('key-2', token);
    registry.reject('key-1', 'a stranger');
    expect(heard).toEqual([]);
  });

  it('is asked for by no policy that does not say so, and one that throws is told of once', async () => {
    const { registry } = answering();
    const token = await registry.getToken('key-1');
    expect(() => registry.accept('key-1', token)).not.toThrow();
    expect(registry.reject('key-1', token)).toBe(true);
    const { lines, logger } = log();
    const accepted = () => expect.fail('no');
    const broken = answering({ logger, expiry: { lifetimeMs: () => 5_000, accepted } }).registry;
    const other = await broken.getToken('key-1');
    for (let n = 0; n < 2; n++) broken.accept('key-1', other);
    expect(lines.filter(({ event }) => event === 'hook.failed')).toHaveLength(1);
  });
});

describe('accept', () => {
  it('of a token that was rejected elsewhere lifts the owner’s backoff, and logs that', async () => {
    const { lines, logger } = log();
    const { registry } = answering({ logger });
    let last = await registry.getToken('key-1');
    for (let n = 0; n < 3; n++) {
      last = await registry.getToken('key-1');
      registry.reject('key-1', last);
    }
    expect(registry.describe('key-1').phase).toBe('backing-off');
    registry.accept('key-1', last);
    expect(registry.describe('key-1').phase).toBe('empty');
    expect(lines.filter(({ event }) => event === 'pause.lifted')).toHaveLength(1);
    expect((await registry.getToken('key-1')).value).not.toBe(last.value);
  });
});

describe('forget', () => {
  it('drops the token, pause and request of that owner alone, and returns whether there was any', async () => {
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
    expect((await waiting).value).toMatch(/^token-/);
    expect(registry.describe('key-1')).toEqual({ phase: 'empty' });
    expect(registry.stats()).toMatchObject({ owners: 1, inFlight: 0 });
    expect(registry.peek('key-2')).toBeDefined();
  });

  it('of all owners drops every token, pause and request, and settles the callers that wait', async () => {
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
    expect(registry.stats()).toMatchObject({ owners: 0, usable: 0, inFlight: 0, pauses: { owners: 0 } });
  });
});

describe('describe', () => {
  it('returns the phase of an owner, and only the fields that apply', async () => {
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

  it('shows an open circuit for an owner it does not know', async () => {
    const { registry, clock, source } = answering();
    source.script((call) => call.fail(down));
    await registry.getToken('key-2').catch(() => {});
    const refused = { phase: 'backing-off', code: 'endpoint_unavailable', retryAtMs: clock.now() + 5_000 };
    expect(registry.describe('key-3')).toEqual(refused);
    clock.advance(5_000);
    source.script(undefined);
    const waiting = registry.getToken('key-3');
    expect(registry.describe('key-3').phase).toBe('requesting');
    await settle();
    source.call(-1).succeed();
    await waiting;
  });
});

describe('fingerprint', () => {
  it('is the owner’s name everywhere, its label where there is one', async () => {
    const { registry } = refusing();
    const name = registry.fingerprint('key-1');
    expect(name).toMatch(/^owner_/);
    await expect(registry.getToken('key-1')).rejects.toMatchObject({ owner: name });
    expect(registry.fingerprint('key-1')).toBe(name);
    expect(answering({ ownerLabel: () => 'Smith' }).registry.fingerprint('key-1')).toBe('Smith');
  });

  it('a label stands for it in errors and reports too', async () => {
    const { registry } = scripted(
      { ownerLabel: (key) => `customer ${key.length}` },
      new ScriptedSource((call) => call.fail(new OwnerTokenError('owner_refused', 'no'))),
    );
    const error = await errorOf(registry.getToken('key-1'));
    expect([error.owner, (await errorOf(registry.getToken('key-1'))).owner, registry.fingerprint('key-1')]).toEqual(
      Array(3).fill('customer 5'),
    );
    expect(await registry.warmUp(['key-1'])).toEqual({
      ...{ total: 1, ready: 0, failedCount: 1 },
      failed: [{ owner: 'customer 5', code: 'owner_refused' }],
    });
  });
});

describe('what is built on tokens', () => {
  it('ownerFetch calls on the owner’s behalf, within what the source or the options allow', async () => {
    const sent: (string | null)[] = [];
    const fetch = (async (_input: unknown, init: RequestInit) => {
      sent.push(new Headers(init.headers).get('authorization'));
      return new Response();
    }) as typeof globalThis.fetch;
    const source = Object.assign(ScriptedSource.answering(), { origin: 'https://api.example.com' });
    const { registry } = make(source, { calls: { fetch } });
    await registry.ownerFetch('key-1')('https://api.example.com/x');
    expect(sent).toEqual([`Bearer ${registry.peek('key-1')?.value}`]);
    const elsewhere = registry.ownerFetch('key-1', { allowedOrigins: ['https://other.example.com'] });
    await expect(elsewhere('https://api.example.com/x')).rejects.toMatchObject({ code: 'origin_refused' });
    expect(() => registry.ownerFetch('')).toThrow(expect.objectContaining({ code: 'invalid_access_key' }));
  });

  it('ownerFetch sends tokens only to the source’s origin, unless the options allow another', async () => {
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

  it('warmUp obtains a token for each owner', async () => {
    const { registry } = answering();
    expect(await registry.warmUp(['key-1', 'key-2', ''])).toMatchObject({ total: 3, ready: 2, failedCount: 1 });
    expect(registry.stats().usable).toBe(2);
  });
});

describe('resume', () => {
  it('lifts one owner’s pause, and no other', async () => {
    const { lines, logger } = log();
    const { registry, source } = refusing({ logger });
    for (const key of ['key-1', 'key-2']) await registry.getToken(key).catch(() => {});
    registry.resume('key-1');
    registry.resume('key-3');
    source.script((call) => call.succeed());
    await registry.getToken('key-1');
    await expect(registry.getToken('key-2')).rejects.toMatchObject({ code: 'source_failed' });
    const lifted = { event: 'pause.lifted', failureScope: 'owner', owner: registry.fingerprint('key-1') };
    expect(lines.filter(({ event }) => event === 'pause.lifted')).toMatchObject([lifted]);
  });

  it('lifts every pause', async () => {
    const { lines, logger } = log();
    const { registry, source } = refusing({ logger });
    await registry.getToken('key-1').catch(() => {});
    source.script((call) => call.fail(down));
    await registry.getToken('key-2').catch(() => {});
    registry.resume();
    expect(lines.filter(({ event }) => event === 'pause.lifted')).toMatchObject([
      { failureScope: 'owner', owner: registry.fingerprint('key-1') },
      { failureScope: 'owner', owner: registry.fingerprint('key-2') },
      { failureScope: 'endpoint' },
    ]);
    source.script((call) => call.succeed());
    await Promise.all(['key-1', 'key-2', 'key-3'].map((key) => registry.getToken(key)));
    expect(registry.stats().pauses).toEqual({ owners: 0 });
    expect(source.calls).toHaveLength(5);
  });

  it('takes three more fresh tokens that are refused, after it lifted that pause', async () => {
    const { registry } = answering();
    for (let n = 0; n < 3; n++) registry.reject('key-1', await registry.getToken('key-1'));
    registry.resume('key-1');
    for (let n = 0; n < 2; n++) registry.reject('key-1', await registry.getToken('key-1'));
    await expect(registry.getToken('key-1')).resolves.toBeDefined();
  });
});

describe('stats', () => {
  it('are plain numbers, zero at first', () => {
    const { registry } = answering();
    expect(registry.stats()).toEqual({
      ...{
        owners: 0,
        usable: 0,
        inFlight: 0,
        slow: 0,
        concurrency: 100,
        queued: 0,
        waiting: 0,
        hits: 0,
        joined: 0,
        requests: 0,
        refreshes: 0,
      },
      ...{ canaries: 0, failures: 0, rejections: 0, evictions: 0, pauses: { owners: 0 } },
      refused: { owner: 0, client: 0, endpoint: 0 },
    });
  });

  it('are counted as they happen', async () => {
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
      ...{ owners: 2, usable: 0, inFlight: 1, slow: 0, concurrency: 1, queued: 1, waiting: 3 },
      ...{ hits: 3, joined: 3, requests: 4, refreshes: 1, canaries: 0, failures: 1, rejections: 1, evictions: 0 },
      refused: { owner: 0, client: 0, endpoint: 0 },
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
});

describe('close', () => {
  it('ends every call with closed, drops what is held, and closes the source once', async () => {
    const { lines, logger } = log();
    const { registry, source } = answering({ logger });
    await registry.getToken('key-1');
    source.script(undefined);
    const waiting = registry.getToken('key-2');
    await settle();
    const { signal } = source.call(1).request;
    signal.addEventListener('abort', () => source.call(1).fail(signal.reason));
    const closed = registry.close();
    expect(registry.close()).toBe(closed);
    await expect(waiting).rejects.toMatchObject({ code: 'closed', owner: registry.fingerprint('key-2') });
    await closed;
    await expect(registry.getToken('key-1')).rejects.toMatchObject({ code: 'closed' });
    expect([registry.peek('key-1'), registry.stats().owners, source.closed]).toEqual([undefined, 0, 1]);
    expect(lines).toContainEqual({ event: 'registry.closed', registry: 'default', abandoned: 0 });
  });

  it('keeps no token that comes too late', async () => {
    const { registry, source, clock } = make(new ScriptedSource());
    const waiting = registry.getToken('key-1');
    await settle();
    const closed = registry.close({ timeoutMs: 10 });
    await expect(waiting).rejects.toMatchObject({ code: 'closed' });
    clock.advance(10);
    await closed;
    source.call(0).succeed();
    await settle();
    expect(registry.stats()).toMatchObject({ owners: 0, inFlight: 0 });
  });

  it('ignores a source whose close throws, rejects or hangs, and one without a close', async () => {
    const closes: [string[], (() => Promise<void>) | undefined][] = [
      [['hook.failed', 'registry.closed'], () => expect.fail('no')],
      [['hook.failed', 'registry.closed'], async () => expect.fail('no')],
      [['registry.closed'], () => new Promise(() => {})],
      [['registry.closed'], undefined],
    ];
    for (const [events, close] of closes) {
      const { lines, logger } = log();
      const source = Object.assign(ScriptedSource.answering(), { close }) as ScriptedSource;
      const { registry, clock } = make(source, { logger });
      const closed = registry.close({ timeoutMs: 10 });
      await settle();
      clock.advance(10);
      await closed;
      expect(lines.map(({ event }) => event)).toEqual(events);
    }
  });

  it('is what `await using` does, and refuses options that are none', async () => {
    const { registry, source } = answering();
    await expect(registry.close({ timeoutMs: -1 })).rejects.toMatchObject({ code: 'invalid_options' });
    await registry[Symbol.asyncDispose]();
    expect(source.closed).toBe(1);
    await expect(registry.warmUp(['key-1'])).rejects.toMatchObject({ code: 'closed' });
  });
});

describe('registries', () => {
  it('share nothing: a token of one is a stranger to another', async () => {
    const [one, other] = [answering().registry, answering().registry];
    const token = await one.getToken('key-1');
    await other.getToken('key-1');
    expect(other.reject('key-1', tokenOf('another'))).toBe(false);
    one.reject('key-1', token);
    expect(other.peek('key-1')).toBeDefined();
  });

  it('refuse a signal that is none, before anything is asked', async () => {
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

  it('refuse a bad access key in accept too, whatever the policy', async () => {
    const { registry } = answering();
    expect(() => registry.accept('', tokenOf('a'))).toThrow(expect.objectContaining({ code: 'invalid_access_key' }));
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

  it('work on the system’s clocks', async () => {
    const registry = new OwnerTokenRegistry({ source: ScriptedSource.answering(100) });
    const before = Date.now() - 20;
    const token = await registry.getToken('key-1');
    expect(token.issuedAtMs).toBeGreaterThan(before);
    expect(await registry.getToken('key-1')).toBe(token);
    await registry.close();
  });

  it('have a name, by which logs and metrics tell them apart', () => {
    expect([answering().registry.name, answering({ name: 'billing' }).registry.name]).toEqual(['default', 'billing']);
  });

  it('do nothing until the first call: no request, no timer', async () => {
    const { clock, source, registry } = scripted({}, ScriptedSource.answering());
    await settle();
    clock.advance(1e9);
    await settle();
    expect([source.calls.length, clock.pendingTimers]).toEqual([0, 0]);
    expect(tally(await callAtOnce(1, registry, 'key-1')).tokens).toHaveLength(1);
  });
});
