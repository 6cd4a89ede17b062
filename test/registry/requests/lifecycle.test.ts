/** What the limiter and the circuit learn from each outcome. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OwnerTokenError, type PauseMessage } from '../../../src/index.ts';
import { Scheduler } from '../../../src/registry/requests/scheduler.ts';
import { asTimePasses, settle } from '../../helpers/manual-clock.ts';
import { answering, errorOf, issueAfter, keys, scripted, shut } from '../../helpers/registries.ts';

/** All events that the scheduler received, in order. */
let events: Record<string, unknown>[];
beforeEach(() => {
  events = [];
  const step = Scheduler.prototype.step as (this: Scheduler, ...args: never[]) => never;
  vi.spyOn(Scheduler.prototype, 'step').mockImplementation(function (this: Scheduler, ...args) {
    events.push(args[0] as unknown as Record<string, unknown>);
    return step.apply(this, args as unknown as never[]);
  });
});
afterEach(() => void vi.restoreAllMocks());

const eventsOf = (kind: string) => events.filter((event) => event.kind === kind);
const lastOf = (kind: string) => eventsOf(kind).at(-1);

const down = (status = 503) => new OwnerTokenError('endpoint_unavailable', 'down', { status });
const revoked = () => new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
const refused = () => new OwnerTokenError('client_refused', 'no', { status: 401, failureScope: 'owner' });
const outage = () =>
  new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 2_000 });

describe('a success', () => {
  it('reports the owner, its number, the latency and how many requests were running', async () => {
    const { registry, clock, source } = scripted();
    const calls = ['a', 'b'].map((owner) => registry.getToken(owner));
    await settle();
    clock.advance(300);
    source.call(1).succeed();
    await calls[1];
    expect(lastOf('succeeded')).toEqual({
      kind: 'succeeded',
      owner: 'b',
      number: 2,
      tookMs: 300,
      isSlow: false,
      running: 2,
      unavailableMs: undefined,
      wasRefused: false,
    });
    await shut(registry, clock);
  });

  it('reports whether it was slow enough to give up its place', async () => {
    const scene = scripted();
    await issueAfter(50, 3, scene);
    const { registry, clock, source } = scene;
    const call = registry.getToken('a');
    await settle();
    clock.advance(4_000);
    source.call(-1).succeed();
    await call;
    expect(lastOf('succeeded')).toMatchObject({ isSlow: true, tookMs: 4_000 });
  });

  it('reports when the request before it got a 503: the attempt it retries, or the owner’s previous call', async () => {
    const { registry, clock, source } = answering();
    // A retry costs ten issued tokens.
    for (const owner of keys(10)) await registry.getToken(owner);
    const failedMs = clock.monotonic();
    source.script((call) => call.fail(down()));
    const retried = registry.getToken('retried');
    await settle();
    source.script((call) => call.succeed());
    await asTimePasses(retried, clock, 50);
    expect(lastOf('succeeded')).toMatchObject({ owner: 'retried', unavailableMs: failedMs });
    for (const [owner, status, unavailableMs] of [
      ['503', 503, clock.monotonic()],
      ['502', 502, undefined],
    ] as const) {
      source.script((call) => call.fail(down(status)));
      await asTimePasses(errorOf(registry.getToken(owner)), clock, 50);
      const { failedAtMs = 0 } = await errorOf(registry.getToken(owner));
      source.script((call) => call.succeed());
      clock.advance(2_000);
      await registry.getToken(owner);
      const since = unavailableMs === undefined ? undefined : failedAtMs - clock.now() + clock.monotonic();
      expect(lastOf('succeeded')).toMatchObject({ owner, unavailableMs: since, wasRefused: false });
    }
  });

  it('reports whether the service had refused the client for this owner', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.fail(refused()));
    await errorOf(registry.getToken('a'));
    clock.advance(60_000);
    source.script((call) => call.succeed());
    await registry.getToken('a');
    expect(lastOf('succeeded')).toMatchObject({ owner: 'a', wasRefused: true });
  });

  it('with a token requested before this call is no evidence', async () => {
    const { registry, clock, source } = answering();
    source.script((call) => call.succeed({ requestedAtMs: clock.now() - 5_000, response: { expires_in: 100 } }));
    await registry.getToken('a');
    expect(eventsOf('succeeded')).toEqual([]);
  });

  it('does not make a canary of an owner that was forgotten in the meantime', async () => {
    const { registry, source } = scripted();
    const call = registry.getToken('a');
    await settle();
    registry.forget('a');
    source.call(0).succeed();
    await call;
    expect(events.slice(-2).map(({ kind, owner }) => [kind, owner])).toEqual([
      ['succeeded', 'a'],
      ['forgotten', 'a'],
    ]);
  });
});

describe('a failure', () => {
  it('reports the number of the first of the owner’s consecutive failures', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.fail(revoked()));
    for (let failures = 0; failures < 3; failures++) {
      await errorOf(registry.getToken('a'));
      clock.advance(600_000);
    }
    expect(eventsOf('failed').map(({ firstNumber, ownerFailures }) => [firstNumber, ownerFailures])).toEqual([
      [1, 0],
      [1, 1],
      [1, 2],
    ]);
  });

  it('reports whether anyone needs the token: a caller does, a warm-up or a call that was served does not', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('held');
    source.script((call) => call.fail(revoked()));
    await errorOf(registry.getToken('caller'));
    await registry.warmUp(['warm-up']);
    clock.advance(85_000);
    await registry.getToken('held');
    await settle();
    const needs = () => eventsOf('failed').map(({ owner, isNeeded }) => [owner, isNeeded]);
    expect(needs()).toEqual([
      ['caller', true],
      ['warm-up', false],
      ['held', false],
    ]);
    clock.advance(9_000);
    await errorOf(registry.getToken('held', { minValidityMs: 50_000 }));
    expect(needs().at(-1)).toEqual(['held', true]);
  });

  it('of a canary counts as not needed, even if the owner’s token has ended', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('held');
    clock.advance(200_000);
    source.script((call) => call.fail(outage()));
    await errorOf(registry.getToken('a'));
    clock.advance(2_000);
    await settle();
    expect(lastOf('failed')).toMatchObject({ owner: 'held', isTrial: true, isNeeded: false });
    await registry.close();
  });

  it('is not retried once the last caller has left, but is for one that still waits, even if the owner was forgotten', async () => {
    const { registry, clock, source } = answering();
    for (const key of keys(20)) await registry.getToken(key);
    source.script(undefined);
    const leaving = new AbortController();
    const [left, stays] = [registry.getToken('left', { signal: leaving.signal }), registry.getToken('stays')];
    await settle();
    for (const owner of ['left', 'stays']) registry.forget(owner);
    leaving.abort(new Error('enough'));
    await expect(left).rejects.toThrow('enough');
    for (const call of source.calls.slice(-2)) call.fail(down());
    await settle();
    expect(registry.stats().queued).toBe(1);
    source.script((call) => call.succeed());
    await asTimePasses(stays, clock, 50);
    expect([source.countFor('left'), source.countFor('stays')]).toEqual([1, 2]);
  });

  it('that opens the circuit leaves the owner’s own pause and count as they were', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('canary');
    source.script((call) => call.fail(revoked()));
    await errorOf(registry.getToken('a'));
    clock.advance(1_000);
    source.script((call) => call.fail(outage()));
    const error = await errorOf(registry.getToken('a'));
    expect(error).toMatchObject({ failureScope: 'endpoint', retryAtMs: registry.stats().pauses.endpoint?.retryAtMs });
    expect(registry.owners({ state: 'failing' })).toMatchObject([{ failure: { code: 'owner_refused', failures: 1 } }]);
  });

  it('that concerns its owner says when the owner’s pause ends, even while a circuit is open for longer', async () => {
    const { registry, clock, source } = scripted();
    const refusedLate = errorOf(registry.getToken('a'));
    await settle();
    source.script((call) =>
      call.fail(
        new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 60_000 }),
      ),
    );
    await errorOf(registry.getToken('b'));
    source.call(0).fail(revoked());
    const { failureScope, retryAtMs = 0 } = await refusedLate;
    expect(failureScope).toBe('owner');
    expect(retryAtMs - clock.now()).toBeLessThan(5_000);
    await shut(registry, clock);
  });

  it('of a refresh is no unserved call, even if the token has expired meanwhile', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('a');
    clock.advance(85_000);
    source.script(undefined);
    await registry.getToken('a');
    clock.advance(15_000);
    source.call(-1).fail(revoked());
    await settle();
    expect(registry.stats()).toMatchObject({ pauses: { owners: 1 }, withoutService: { owners: 0 } });
  });
});

it('the success that ends an owner’s pause is reported, with how long the owner failed', async () => {
  const { registry, clock, source } = scripted();
  const messages: unknown[] = [];
  const observe = (message: unknown) => messages.push(message);
  subscribe('owner-token-registry:pause', observe);
  source.script((call) => call.fail(revoked()));
  await errorOf(registry.getToken('a'));
  clock.advance(5_000);
  source.script((call) => call.succeed());
  await registry.getToken('a');
  await registry.getToken('b');
  unsubscribe('owner-token-registry:pause', observe);
  const owner = registry.fingerprint('a');
  expect(messages).toMatchObject([
    { owner, action: 'paused', code: 'owner_refused' },
    { owner, action: 'lifted', durationMs: 5_000, refused: 0 },
  ]);
});

it('a trial that fails is reported as the circuit’s pause alone, and one that succeeds is not dropped', async () => {
  const { registry, clock, source } = scripted();
  const scopes: unknown[] = [];
  const observe = (message: unknown) => scopes.push((message as PauseMessage).scope);
  subscribe('owner-token-registry:pause', observe);
  source.script((call) => call.fail(outage()));
  for (const owner of ['a', 'b']) {
    await errorOf(registry.getToken(owner));
    clock.advance(2_000);
  }
  source.script((call) => call.succeed());
  await registry.getToken('c');
  unsubscribe('owner-token-registry:pause', observe);
  expect([...new Set(scopes)]).toEqual(['endpoint']);
  expect(eventsOf('trialDropped')).toEqual([]);
});

it('the trial of a forgotten owner is dropped when its caller leaves, and the next call becomes the trial', async () => {
  const { registry, clock, source } = scripted();
  source.script((call) => call.fail(outage()));
  await errorOf(registry.getToken('a'));
  source.script(undefined);
  clock.advance(2_000);
  const leaving = new AbortController();
  const trial = registry.getToken('b', { signal: leaving.signal });
  await settle();
  registry.forget('b');
  leaving.abort(new Error('enough'));
  await expect(trial).rejects.toThrow('enough');
  source.call(-1).fail(source.call(-1).request.signal.reason);
  await settle();
  expect(eventsOf('trialDropped')).toHaveLength(1);
  clock.advance(60_000);
  registry.getToken('c').catch(() => {});
  await settle();
  expect(source.call(-1).accessKey).toBe('c');
  await shut(registry, clock);
});

it('close waits for every request in flight', async () => {
  const { registry, source } = scripted();
  const calls = ['a', 'b'].map((owner) => registry.getToken(owner).catch(() => {}));
  await settle();
  let isClosed = false;
  const closed = registry.close({ timeoutMs: 60_000 }).then(() => {
    isClosed = true;
  });
  source.call(0).fail(down());
  await settle();
  expect(isClosed).toBe(false);
  source.call(1).fail(down());
  await Promise.all([closed, ...calls]);
});
