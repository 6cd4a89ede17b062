/** What the limiter and the circuit hear of each request's outcome. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OwnerTokenError } from '../../../src/index.ts';
import { Scheduler } from '../../../src/registry/requests/scheduler.ts';
import { asTimePasses, settle } from '../../helpers/manual-clock.ts';
import { answering, errorOf, issueAfter, keys, scripted, shut } from '../../helpers/registries.ts';

/** What the scheduler was told, in order. */
let told: Record<string, unknown>[];
beforeEach(() => {
  told = [];
  const step = Scheduler.prototype.step as (this: Scheduler, ...args: never[]) => never;
  vi.spyOn(Scheduler.prototype, 'step').mockImplementation(function (this: Scheduler, ...args) {
    told.push(args[0] as unknown as Record<string, unknown>);
    return step.apply(this, args as unknown as never[]);
  });
});
afterEach(() => void vi.restoreAllMocks());

const toldOf = (kind: string) => told.filter((event) => event.kind === kind);
const last = (kind: string) => toldOf(kind).at(-1);

const down = (status = 503) => new OwnerTokenError('endpoint_unavailable', 'down', { status });
const revoked = () => new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
const refused = () => new OwnerTokenError('client_refused', 'no', { status: 401, failureScope: 'owner' });
const outage = () =>
  new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', retryAfterMs: 2_000 });

describe('a success', () => {
  it('tells its owner, its number, how long it took and how many requests ran', async () => {
    const { registry, clock, source } = scripted();
    const calls = ['a', 'b'].map((owner) => registry.getToken(owner));
    await settle();
    clock.advance(300);
    source.call(1).succeed();
    await calls[1];
    expect(last('succeeded')).toEqual({
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

  it('tells whether it was so slow that another request got its place', async () => {
    const scene = scripted();
    await issueAfter(50, 3, scene);
    const { registry, clock, source } = scene;
    const call = registry.getToken('a');
    await settle();
    clock.advance(4_000);
    source.call(-1).succeed();
    await call;
    expect(last('succeeded')).toMatchObject({ isSlow: true, tookMs: 4_000 });
  });

  it('tells when the request before it got a 503: the one it repeats, or that of its owner’s last call', async () => {
    const { registry, clock, source } = answering();
    // Each retry costs the budget of ten.
    for (const owner of keys(10)) await registry.getToken(owner);
    const failedMs = clock.monotonic();
    source.script((call) => call.fail(down()));
    const repeated = registry.getToken('retried');
    await settle();
    source.script((call) => call.succeed());
    await asTimePasses(repeated, clock, 50);
    expect(last('succeeded')).toMatchObject({ owner: 'retried', unavailableMs: failedMs });
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
      expect(last('succeeded')).toMatchObject({ owner, unavailableMs: since, wasRefused: false });
    }
  });

  it('tells whether the service had refused the client for its owner', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.fail(refused()));
    await errorOf(registry.getToken('a'));
    clock.advance(60_000);
    source.script((call) => call.succeed());
    await registry.getToken('a');
    expect(last('succeeded')).toMatchObject({ owner: 'a', wasRefused: true });
  });

  it('with a token that was requested before is no evidence', async () => {
    const { registry, clock, source } = answering();
    source.script((call) => call.succeed({ requestedAtMs: clock.now() - 5_000, response: { expires_in: 100 } }));
    await registry.getToken('a');
    expect(toldOf('succeeded')).toEqual([]);
  });

  it('of an owner that was forgotten meanwhile makes it no canary', async () => {
    const { registry, clock, source } = scripted();
    const call = registry.getToken('a');
    await settle();
    registry.forget('a');
    source.call(0).succeed();
    await call;
    expect(told.slice(-2).map(({ kind, owner }) => [kind, owner])).toEqual([
      ['succeeded', 'a'],
      ['forgotten', 'a'],
    ]);
    source.script((request) => request.fail(outage()));
    await errorOf(registry.getToken('b'));
    clock.advance(2_000);
    await settle();
    expect(source.countFor('a')).toBe(1);
    await shut(registry, clock);
  });
});

describe('a failure', () => {
  it('tells the number of the owner’s first failure in a row', async () => {
    const { registry, clock, source } = scripted();
    source.script((call) => call.fail(revoked()));
    for (let failures = 0; failures < 3; failures++) {
      await errorOf(registry.getToken('a'));
      clock.advance(600_000);
    }
    expect(toldOf('failed').map(({ firstNumber, ownerFailures }) => [firstNumber, ownerFailures])).toEqual([
      [1, 0],
      [1, 1],
      [1, 2],
    ]);
  });

  it('tells whether anybody needs the token now: a caller, but no warm-up, canary, or call that has a token', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('held');
    source.script((call) => call.fail(revoked()));
    await errorOf(registry.getToken('caller'));
    await registry.warmUp(['warm-up']);
    clock.advance(85_000);
    await registry.getToken('held');
    await settle();
    const needs = () => toldOf('failed').map(({ owner, isNeeded }) => [owner, isNeeded]);
    expect(needs()).toEqual([
      ['caller', true],
      ['warm-up', false],
      ['held', false],
    ]);
    clock.advance(9_000);
    await errorOf(registry.getToken('held', { minValidityMs: 50_000 }));
    expect(needs().at(-1)).toEqual(['held', true]);
  });

  it('of a canary tells that nobody needs it, even if its token has ended', async () => {
    const { registry, clock, source } = answering();
    await registry.getToken('held');
    clock.advance(200_000);
    source.script((call) => call.fail(outage()));
    await errorOf(registry.getToken('a'));
    clock.advance(2_000);
    await settle();
    expect(last('failed')).toMatchObject({ owner: 'held', isTrial: true, isNeeded: false });
    await registry.close();
  });

  it('of a request that its last caller has left is not retried', async () => {
    const { registry, clock, source } = scripted();
    const leaving = new AbortController();
    const call = registry.getToken('a', { signal: leaving.signal });
    await settle();
    registry.forget('a');
    leaving.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
    source.call(0).fail(down());
    await settle();
    expect(registry.stats()).toMatchObject({ inFlight: 0, queued: 0 });
    clock.advance(10_000);
    await settle();
    expect(source.calls).toHaveLength(1);
  });
});

it('a trial of an owner that is forgotten is dropped when its caller leaves, and the next call’s is another', async () => {
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
  expect(toldOf('trialDropped')).toHaveLength(1);
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
