/** What the simulation found, as tests of their own: a seed loses its meaning when the world changes, these do not. */

import { expect, it } from 'vitest';
import { type IssuedToken, OwnerTokenRegistry } from '../../src/index.ts';
import { ManualClock, quiet } from '../helpers/manual-clock.ts';
import { Emissions } from './emissions.ts';
import type { Call, Mark } from './observed.ts';
import { RequestAccount } from './request-account.ts';

it('a queue timer that fires early by a fraction of a millisecond is not restarted over and over', async () => {
  const clock = new ManualClock();
  const registry = new OwnerTokenRegistry({
    clock,
    concurrency: 1,
    maxQueueMs: 30_000,
    requestTimeoutMs: 3_600_000,
    source: { requestToken: () => new Promise(() => {}) },
  });
  const codes: unknown[] = [];
  let timers = 0;
  for (let round = 0; round < 200; round++) {
    clock.moveTo(clock.monotonicMs + 1_000 / 3 + round / 7);
    registry.getToken(`key-${round}`).catch((error: { code: unknown }) => codes.push(error.code));
    while (clock.nextDueMs <= clock.monotonicMs + 100) {
      clock.moveTo(clock.nextDueMs);
      clock.runNext();
      expect(++timers).toBeLessThan(1_000);
    }
    await quiet();
  }
  expect(new Set(codes)).toEqual(new Set(['queue_timeout']));
  await Promise.all([registry.close({ timeoutMs: 0 }), quiet().then(() => clock.runNext())]);
});

it('a token dated before the wall clock was set back does not live longer because of it', async () => {
  const clock = new ManualClock();
  let answer = (_issued: IssuedToken) => {};
  const registry = new OwnerTokenRegistry({
    clock,
    random: () => 0,
    source: {
      requestToken: () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    },
  });
  const call = registry.getToken('key-1');
  await quiet();
  const datedMs = clock.wallMs;
  clock.moveTo(5_000);
  clock.jumpWall(-3_000);
  answer({ token: 'token-1', requestedAtMs: datedMs, response: { expires_in: 100 } });
  // Five of its hundred seconds have passed, and five more are the margin.
  expect((await call).expiresAtMs).toBe(clock.wallMs + 90_000);
  clock.moveTo(5_000 + 90_000);
  clock.jumpWall(-60_000);
  expect(registry.peek('key-1')).toBeUndefined();
});

it.each([
  [0, 0],
  [9, 0],
  [10, 1],
  [11, 1],
  [55, 5],
  [100, 10],
  [200, 10],
])('the oracle lets %i tokens that are issued between failures and their retries pay for %i more', (tokens, more) => {
  const complaints: string[] = [];
  const clock = new ManualClock();
  const broken = (what: string) => complaints.push(what);
  const world = { step: 0, clock, excusedMs: 0, emissions: new Emissions(broken), broken, trace() {}, delivered() {} };
  const limits = { maxOwners: 50, maxQueued: 50, maxQueueMs: 0, timeoutMs: 0, longestPauseMs: 0, ownerCapMs: 0 };
  const account = new RequestAccount(world, 50, { concurrency: 50, requestsPerSecond: undefined, ...limits }, broken);
  const send = (owner: number): Mark => {
    clock.moveTo(clock.monotonicMs + 1_000);
    const mark = { owner, sentMs: clock.monotonicMs, sentTimelineMs: clock.timelineMs, mayBeTrial: false };
    account.sent(mark);
    return mark;
  };
  const fail = (mark: Mark) => {
    account.ended(mark.owner, mark);
    account.failed(mark.owner, [{ over: false } as Call], false);
  };
  const issue = (count: number) => {
    for (let issued = 0; issued < count; issued++) {
      account.ended(0, send(0));
      account.issued(0);
    }
  };
  issue(150);
  // The hundred tokens that can be saved pay for ten retries, when the requests fail.
  const failing = Array.from({ length: 10 }, (_, index) => 1 + index);
  for (const owner of failing) fail(send(owner));
  issue(tokens);
  for (const owner of failing) send(owner);
  let paid = -1;
  for (let owner = 11; owner < 50 && complaints.length === 0; owner++) {
    fail(send(owner));
    send(owner);
    paid++;
  }
  expect(paid).toBe(more);
  expect(complaints).toEqual(['a request was sent again that no tokens paid for']);
});
