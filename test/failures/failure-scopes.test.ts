/** How two circuit breakers, and owners' backoffs, share out failures. One breaker's table: `circuit-breaker.test.ts`. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorCode, type OwnerTokenErrorOptions } from '../../src/errors.ts';
import type { OwnerStanding, Permit } from '../../src/failures/circuit-breaker.ts';
import {
  type FailedRequest,
  FailureScopes,
  type FailureScopesOptions,
  HUNG_AFTER_MS,
} from '../../src/failures/failure-scopes.ts';

const RANGES = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 1_000, capMs: 60_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};

const error = (code: OwnerTokenErrorCode, options: OwnerTokenErrorOptions = {}) =>
  new OwnerTokenError(code, 'it failed', options);
const refused = error('endpoint_unavailable', { failureScope: 'endpoint' });
const timedOut = error('endpoint_unavailable');
const badSecret = error('client_refused');
const badKey = error('owner_refused', { oauthError: 'invalid_grant', failureScope: 'owner' });
const plain4xx = error('owner_refused', { status: 400 });

/** Failure scopes whose jitter is at its middle: three quarters of each length. */
class Stage {
  readonly scopes: FailureScopes;

  constructor(changes: Partial<FailureScopesOptions> = {}) {
    const concurrency = { initial: 16, min: 16, max: 16 };
    const options = { requestTimeoutMs: 30_000, requestsPerSecond: undefined, random: () => 0.5 };
    this.scopes = new FailureScopes({ ranges: RANGES, concurrency, ...options, ...changes });
  }

  get limit(): number {
    return this.scopes.flow.limitsAt(0).inFlight;
  }

  admit(nowMs = 0, standing: OwnerStanding = 'proven'): Permit {
    const permit = this.scopes.admit(nowMs, standing, 1);
    if (!permit) throw new Error('expected to be admitted');
    return permit;
  }

  /** The request of this permit fails. */
  failed(permit: Permit, failure: OwnerTokenError, at: Partial<FailedRequest> = {}) {
    const { nowMs = 0 } = at;
    const request = { owner: 'a', ownerFailures: 0, nowMs, sentAtMs: nowMs, resends: 0, isOnlyRequest: true };
    return this.scopes.failed({ permit, error: failure, ...request, ...at });
  }

  /** One request of this owner fails at once. */
  fail(failure: OwnerTokenError, nowMs = 0, owner = 'a', ownerFailures = 0) {
    const permit = this.admit(nowMs, ownerFailures > 0 ? 'failing' : 'proven');
    return this.failed(permit, failure, { nowMs, owner, ownerFailures });
  }

  succeed(nowMs = 0) {
    return this.scopes.succeeded(this.admit(nowMs), nowMs, { latencyMs: 1, isLimitInUse: true, inFlight: 1 });
  }
}

describe('a failure of one owner', () => {
  it('pauses that owner, longer each time, and opens no circuit', () => {
    const stage = new Stage();
    expect(stage.fail(badKey)).toMatchObject({
      scope: 'owner',
      ownerPause: { count: 1, retryAtMonotonicMs: 750, error: badKey },
      circuitPause: undefined,
      lifted: [],
    });
    expect(stage.fail(badKey, 1000, 'a', 3).ownerPause).toMatchObject({ count: 4, retryAtMonotonicMs: 7000 });
    expect(stage.scopes.pauseFor(1000, 'proven')).toBeUndefined();
    expect(stage.limit).toBe(16);
  });

  it('never escalates when it is the owner’s on purpose', () => {
    const stage = new Stage();
    const onPurpose = error('endpoint_unavailable', { failureScope: 'owner' });
    for (const owner of ['a', 'b', 'c', 'd']) expect(stage.fail(onPurpose, 0, owner).scope).toBe('owner');
    for (const owner of ['e', 'f', 'g']) expect(stage.fail(error('source_failed'), 0, owner).scope).toBe('owner');
  });

  it('stops that owner too when its error has no scope, as that of a source behind another may', () => {
    const stage = new Stage();
    for (const owner of ['a', 'b', 'c', 'd']) {
      const outcome = stage.fail(error('queue_full'), 0, owner);
      expect(outcome).toMatchObject({ scope: 'owner', ownerPause: { count: 1 }, circuitPause: undefined });
    }
  });
});

describe('a failure of the client or the endpoint', () => {
  it('opens that circuit alone, and pauses no owner', () => {
    const stage = new Stage();
    const { circuitPause, ownerPause, scope } = stage.fail(badSecret);
    expect({ scope, ownerPause }).toEqual({ scope: 'client', ownerPause: undefined });
    expect(circuitPause).toMatchObject({ count: 1, retryAtMonotonicMs: 750, error: { failureScope: 'client' } });
    expect(stage.scopes.state('client')).toEqual({ pause: circuitPause, probing: false });
    expect(stage.scopes.state('endpoint')).toBeUndefined();
    expect(stage.scopes.pauseFor(749, 'proven')).toBe(circuitPause);
    expect(stage.scopes.admit(749, 'proven', 1)).toBeUndefined();
    const trial = stage.admit(750);
    expect(stage.scopes.admit(9999, 'proven', 1)).toBeUndefined();
    const again = stage.failed(trial, badSecret, { nowMs: 9999 });
    expect(again.circuitPause).toMatchObject({ count: 2, retryAtMonotonicMs: 9999 + 1500 });
  });

  it('leaves the other circuit as it is: one request is the trial of both', () => {
    const stage = new Stage();
    stage.fail(refused);
    stage.failed(stage.admit(400), badSecret, { nowMs: 400 });
    expect(stage.scopes.state('endpoint')).toMatchObject({ probing: false });
    expect(stage.scopes.pauseFor(400, 'proven')?.error.code).toBe('client_refused');
    expect(stage.succeed(2000)).toEqual(['client', 'endpoint']);
    expect(stage.limit).toBe(1);
  });

  it('is forgotten when its trial is not made after all', () => {
    const stage = new Stage();
    stage.fail(refused);
    stage.scopes.cancel(stage.admit(1000));
    expect(stage.scopes.admit(1000, 'proven', 1)).toBeDefined();
  });

  it('is followed by a limit of one, which another failure ends', () => {
    const stage = new Stage();
    const early = stage.admit();
    stage.fail(refused);
    expect(stage.succeed(1000)).toEqual(['endpoint']);
    expect(stage.succeed(1000)).toEqual([]);
    stage.scopes.succeeded(early, 0, undefined);
    expect(stage.limit).toBe(2);
    expect(stage.fail(refused, 1000).circuitPause).toMatchObject({ count: 1, retryAtMonotonicMs: 1375 });
    expect(stage.limit).toBe(16);
    stage.succeed(2000);
    expect(stage.limit).toBe(1);
  });
});

describe('escalation', () => {
  it('attributes the third distinct owner’s failure in a row to the endpoint', () => {
    const stage = new Stage();
    expect(stage.fail(timedOut, 0, 'a').scope).toBe('owner');
    expect(stage.fail(timedOut, 0, 'a').scope).toBe('owner');
    expect(stage.fail(timedOut, 0, 'b').scope).toBe('owner');
    const third = stage.fail(error('invalid_response'), 0, 'c');
    expect(third).toMatchObject({ scope: 'endpoint', circuitPause: { count: 1, retryAtMonotonicMs: 375 } });
    expect(third.circuitPause?.error.failureScope).toBe('endpoint');
  });

  it('attributes a 4xx without a code to the client; the two kinds do not add up', () => {
    const stage = new Stage();
    stage.fail(plain4xx, 0, 'a');
    stage.fail(timedOut, 0, 'b');
    stage.fail(plain4xx, 0, 'c');
    stage.fail(timedOut, 0, 'd');
    expect(stage.fail(plain4xx, 0, 'e').scope).toBe('client');
  });

  it('begins anew after any success', () => {
    const stage = new Stage();
    const early = stage.admit();
    for (const owner of ['a', 'b']) stage.fail(timedOut, 0, owner);
    stage.scopes.succeeded(early, 0, undefined);
    expect(['c', 'd', 'e'].map((owner) => stage.fail(timedOut, 0, owner).scope)).toEqual([
      'owner',
      'owner',
      'endpoint',
    ]);
  });

  it('does not count an owner that is known to fail', () => {
    const stage = new Stage();
    for (const owner of ['a', 'b', 'c', 'd']) expect(stage.fail(timedOut, 0, owner, 1).scope).toBe('owner');
  });

  it('does not count a failure when a request sent after it has succeeded', () => {
    const stage = new Stage();
    const early = ['a', 'b', 'c'].map(() => stage.admit());
    stage.succeed();
    const scopes = early.map((permit, n) => stage.failed(permit, timedOut, { owner: `late ${n}` }).scope);
    expect(scopes).toEqual(['owner', 'owner', 'owner']);
    expect(['d', 'e', 'f'].map((owner) => stage.fail(timedOut, 0, owner).scope)).toEqual([
      'owner',
      'owner',
      'endpoint',
    ]);
  });

  it('lets an owner that was never tried replace the trial of one that failed, though others have succeeded', () => {
    const stage = new Stage();
    stage.succeed(0);
    stage.fail(refused);
    expect(stage.scopes.admit(1000, 'unproven', 1)).toBeDefined();
    expect(stage.scopes.pauseFor(1499, 'new')).toMatchObject({ retryAtMonotonicMs: 1500 });
    expect(stage.scopes.pauseFor(1500, 'new')).toBeUndefined();
    expect(stage.scopes.pauseFor(1500, 'failing')).toBeDefined();
  });

  it('attributes every such failure to that scope until its circuit closes, even of an owner known to fail', () => {
    const stage = new Stage();
    stage.fail(refused);
    const outcome = stage.failed(stage.admit(1000), timedOut, { nowMs: 1000, owner: 'z', ownerFailures: 5 });
    expect(outcome).toMatchObject({ scope: 'endpoint', circuitPause: { count: 2, retryAtMonotonicMs: 1750 } });
  });

  it('pauses the owner as long as the circuit, without growth; one that hung by its own first step longer', () => {
    const stage = new Stage();
    const fails = (nowMs: number, tookMs: number, ownerFailures: number, options: OwnerTokenErrorOptions = {}) => {
      const at = { nowMs, sentAtMs: nowMs - tookMs, owner: 'z', ownerFailures };
      return stage.failed(stage.admit(nowMs), error('endpoint_unavailable', options), at);
    };
    stage.fail(refused);
    const first = fails(1000, HUNG_AFTER_MS + 1, 0, { retryAfterMs: 60_000, status: 503 });
    expect(first.circuitPause?.retryAtMonotonicMs).toBe(61_000);
    expect(first).toMatchObject({ hung: true, ownerPause: { count: 1, retryAtMonotonicMs: 61_750 } });
    expect(first.ownerPause?.error.failureScope).toBe('endpoint');
    expect(fails(99_000, HUNG_AFTER_MS + 1, 3).ownerPause?.count).toBe(3);
    const atOnce = fails(199_000, HUNG_AFTER_MS, 0);
    expect(atOnce).toMatchObject({ hung: false, scope: 'endpoint', ownerPause: { count: 1 } });
    expect(atOnce.ownerPause?.retryAtMonotonicMs).toBe(atOnce.circuitPause?.retryAtMonotonicMs);
  });
});

describe('a trial that is refused for its owner alone', () => {
  const trialWith = (failure: OwnerTokenError, answer: OwnerTokenError) => {
    const stage = new Stage();
    stage.fail(failure);
    const { lifted } = stage.failed(stage.admit(5000), answer, { nowMs: 5000, owner: 'z' });
    return { lifted, limit: stage.limit, again: stage.scopes.admit(5000, 'proven', 1) !== undefined };
  };

  it('closes either circuit, and the limit starts at one', () => {
    expect(trialWith(badSecret, badKey)).toEqual({ lifted: ['client'], limit: 1, again: true });
    expect(trialWith(refused, badKey)).toEqual({ lifted: ['endpoint'], limit: 1, again: true });
  });

  it('closes the endpoint’s alone when it has no code, which proves only that the endpoint is up', () => {
    expect(trialWith(refused, plain4xx)).toEqual({ lifted: ['endpoint'], limit: 1, again: true });
    expect(trialWith(badSecret, plain4xx)).toEqual({ lifted: [], limit: 16, again: false });
  });

  it('closes none when it is no answer of the service: the next caller is the trial', () => {
    expect(trialWith(refused, error('source_failed'))).toEqual({ lifted: [], limit: 16, again: true });
    const opposed = error('owner_refused', { failureScope: 'client' });
    expect(trialWith(refused, opposed)).toEqual({ lifted: [], limit: 16, again: false });
  });
});

describe('resume', () => {
  it('closes both circuits at once, restores the initial limit, and tells which were open', () => {
    const stage = new Stage();
    expect(stage.scopes.resume()).toEqual([]);
    stage.fail(refused);
    expect(stage.scopes.resume()).toEqual(['endpoint']);
    expect(stage.scopes.pauseFor(0, 'proven')).toBeUndefined();
    expect(stage.limit).toBe(16);
    expect(stage.fail(refused).circuitPause?.count).toBe(1);
  });

  it('restores the initial limit after a pause', () => {
    const stage = new Stage();
    stage.fail(refused);
    stage.succeed(1000);
    expect([stage.limit, stage.scopes.resume(), stage.limit]).toEqual([1, [], 16]);
  });

  it('forgets who was suspected', () => {
    const stage = new Stage();
    for (const owner of ['a', 'b']) stage.fail(timedOut, 0, owner);
    stage.scopes.resume();
    expect(stage.fail(timedOut, 0, 'c').scope).toBe('owner');
  });
});

describe('a trial refused without a code', () => {
  it('closes the endpoint’s circuit, since the endpoint is up, but not the client’s', () => {
    const endpoint = new Stage();
    endpoint.fail(refused);
    expect(endpoint.fail(plain4xx, 375, 'b').lifted).toEqual(['endpoint']);
    const client = new Stage();
    client.fail(badSecret);
    client.fail(plain4xx, 750, 'b');
    expect(client.scopes.state('client')).toBeDefined();
  });
});

describe('a request that is sent again', () => {
  /** Ten tokens were issued, which pay for one retry. */
  const stageWithBudget = () => {
    const stage = new Stage();
    for (let count = 0; count < 10; count++) stage.succeed();
    return stage;
  };
  const resend = (
    stage: Stage,
    failure: OwnerTokenError,
    at: Partial<FailedRequest> = {},
    standing?: OwnerStanding,
  ) => {
    const request = { owner: 'a', ownerFailures: 0, nowMs: 0, sentAtMs: 0, resends: 0, isOnlyRequest: true };
    return stage.scopes.resendAfterMs({ permit: stage.admit(0, standing), error: failure, ...request, ...at });
  };
  const broken = error('endpoint_unavailable', { status: 503 });

  it('failed ambiguously and at once; it waits for 50 to 150 ms, and the budget pays', () => {
    const stage = stageWithBudget();
    expect(resend(stage, broken)).toBe(100);
    expect(resend(stage, broken)).toBeUndefined();
    expect(resend(stageWithBudget(), timedOut, {}, 'new')).toBe(100);
  });

  it.each([
    ['hung', timedOut, { nowMs: HUNG_AFTER_MS + 1 }],
    ['was sent again before', broken, { resends: 1 }],
    ['has a hint', error('endpoint_unavailable', { status: 503, retryAfterMs: 1_000 }), {}],
    ['has an OAuth code', error('endpoint_unavailable', { status: 503, oauthError: 'server_error' }), {}],
    ['has a pause set by its source', error('endpoint_unavailable', { pauseMs: 1_000 }), {}],
    ['is its owner’s on purpose', error('endpoint_unavailable', { failureScope: 'owner' }), {}],
    ['is the endpoint’s for certain', refused, {}],
    ['is an unusable response', error('invalid_response'), {}],
    ['is a refusal', plain4xx, {}],
  ] as const)('is none that %s', (_, failure, at) => {
    expect(resend(stageWithBudget(), failure, at)).toBeUndefined();
  });

  it('is none of an owner that failed before', () => {
    for (const standing of ['failing', 'unproven'] as const) {
      expect(resend(stageWithBudget(), broken, {}, standing)).toBeUndefined();
    }
  });

  it('is none while a circuit is open or half-open, even a 429', () => {
    const stage = stageWithBudget();
    stage.fail(badSecret);
    const trial = { permit: stage.admit(1_000), nowMs: 1_000, sentAtMs: 1_000 };
    for (const failure of [broken, error('rate_limited', { status: 429 })]) {
      const request = { error: failure, owner: 'a', ownerFailures: 0, resends: 0, isOnlyRequest: false };
      expect(stage.scopes.resendAfterMs({ ...trial, ...request })).toBeUndefined();
    }
  });

  it('counts towards escalation, which ends retries: the third owner’s failure in a row is not sent again', () => {
    const stage = new Stage();
    for (let count = 0; count < 100; count++) stage.succeed();
    const outcomes = ['a', 'b', 'c'].map((owner) => resend(stage, broken, { owner }));
    expect(outcomes).toEqual([100, 100, undefined]);
    expect(stage.fail(broken, 0, 'd').scope).toBe('endpoint');
  });

  it('got a 429 without a hint while the service issues tokens, up to ten times', () => {
    const stage = stageWithBudget();
    const tooMany = error('rate_limited', { status: 429, oauthError: 'slow_down' });
    expect(resend(stage, tooMany)).toBe(0);
    expect(resend(stage, tooMany, { resends: 9 })).toBe(0);
    expect(resend(stage, tooMany, { resends: 10 })).toBeUndefined();
    expect(resend(stage, error('rate_limited', { status: 429, retryAfterMs: 1_000 }))).toBeUndefined();
    expect(resend(new Stage(), tooMany)).toBeUndefined();
  });

  it('got a 429 with Retry-After: that teaches the limit, too, unless it is the owner’s own or a circuit is open', () => {
    const tooMany = { status: 429, retryAfterMs: 1_000 };
    const limitAfter = (failure: OwnerTokenError, isOpen = false) => {
      const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 16 } });
      const permits = [stage.admit(), stage.admit()] as const;
      if (isOpen) stage.failed(permits[0], refused);
      const request = { owner: 'a', ownerFailures: 0, nowMs: 0, sentAtMs: 0, resends: 0, isOnlyRequest: false };
      expect(stage.scopes.resendAfterMs({ permit: permits[1], error: failure, ...request })).toBeUndefined();
      return stage.limit;
    };
    expect(limitAfter(error('rate_limited', tooMany))).toBe(12);
    expect(limitAfter(error('rate_limited', { ...tooMany, failureScope: 'owner' }))).toBe(16);
    expect(limitAfter(error('rate_limited', tooMany), true)).toBe(16);
  });
});

describe('the first backoff', () => {
  it('of an owner whose request failed ambiguously and at once is short, then doubles', () => {
    const stage = new Stage();
    const backoffs = [0, 1, 2].map((ownerFailures) => stage.fail(timedOut, 0, 'a', ownerFailures).ownerPause);
    expect(backoffs.map((pause) => pause?.retryAtMonotonicMs)).toEqual([75, 150, 300]);
  });

  it('is the usual one after a hang or an unusable response', () => {
    const stage = new Stage();
    const hung = { nowMs: HUNG_AFTER_MS + 1, sentAtMs: 0, owner: 'a' };
    expect(stage.failed(stage.admit(), timedOut, hung).ownerPause?.retryAtMonotonicMs).toBe(HUNG_AFTER_MS + 1 + 750);
    expect(stage.fail(error('invalid_response'), 0, 'b').ownerPause?.retryAtMonotonicMs).toBe(750);
  });
});

describe('the pace of newcomers', () => {
  /** Whether newcomers have to wait once six requests of owners with this standing have failed so. */
  const slowsDown = (stage: Stage, failure: OwnerTokenError, standing: OwnerStanding = 'new') => {
    for (let count = 0; count < 6; count++) stage.failed(stage.admit(0, standing), failure, { owner: 'a' });
    stage.admit(0, 'new');
    return !stage.scopes.flow.limitsAt(0).newcomers;
  };
  const stageAfterSuccess = () => {
    const stage = new Stage();
    stage.succeed();
    return stage;
  };

  it('falls when their requests fail ambiguously, once any owner has succeeded', () => {
    expect(slowsDown(stageAfterSuccess(), timedOut)).toBe(true);
    expect(slowsDown(stageAfterSuccess(), timedOut, 'unproven')).toBe(true);
    expect(slowsDown(new Stage(), timedOut)).toBe(false);
  });

  it('does not fall because of owners that have succeeded before', () => {
    expect(slowsDown(stageAfterSuccess(), timedOut, 'failing')).toBe(false);
  });

  it.each([
    ['the owner’s for certain', badKey],
    ['the owner’s or the client’s', plain4xx],
    ['the owner’s, as their source says', error('endpoint_unavailable', { failureScope: 'owner' })],
  ])('does not fall because of failures that are %s', (_, failure) => {
    expect(slowsDown(stageAfterSuccess(), failure)).toBe(false);
  });
});

describe('the limit after a pause', () => {
  const afterPause = () => {
    const stage = new Stage();
    stage.fail(badSecret);
    stage.succeed(1_000);
    return stage;
  };

  it('grows while the service refuses owners, as by successes', () => {
    for (const failure of [badKey, plain4xx]) {
      const stage = afterPause();
      expect(stage.limit).toBe(1);
      stage.failed(stage.admit(1_000, 'new'), failure);
      expect(stage.limit).toBe(2);
    }
  });

  it('does not grow by other failures', () => {
    const stage = afterPause();
    stage.failed(stage.admit(1_000), timedOut);
    expect(stage.limit).toBe(1);
  });
});

describe('503 responses', () => {
  /** The limit after a fifth of 29 requests failed so. */
  const limitAfter = (failure: OwnerTokenError, standing: OwnerStanding) => {
    const stage = new Stage({ concurrency: { initial: 16, min: 1, max: 16 } });
    const at = { owner: 'a', ownerFailures: 0, nowMs: 0, sentAtMs: 0, resends: 1, isOnlyRequest: false };
    // The first requests do not count.
    for (let count = 0; count < 16; count++) stage.succeed();
    for (let count = 1; count <= 29; count++) {
      if (count % 5 > 0) stage.succeed();
      else stage.scopes.resendAfterMs({ permit: stage.admit(0, standing), error: failure, ...at });
    }
    return stage.limit;
  };

  it('shrink the limit, unless the owner may be the only cause', () => {
    const status503 = error('endpoint_unavailable', { status: 503 });
    expect(limitAfter(status503, 'proven')).toBe(12);
    expect(limitAfter(status503, 'failing')).toBe(16);
    expect(limitAfter(status503, 'new')).toBe(16);
    expect(limitAfter(error('endpoint_unavailable', { status: 502 }), 'proven')).toBe(16);
  });
});

describe('a request', () => {
  it('is admitted with a number that counts up, how many were in flight, and whether a failure would be inconclusive', () => {
    const { scopes } = new Stage();
    const admitted = () =>
      (['new', 'unproven', 'proven', 'failing'] as const).map((standing) => scopes.admit(0, standing, 7));
    expect(admitted()).toEqual([
      { number: 1, standing: 'new', inFlight: 7, inconclusive: false },
      { number: 2, standing: 'unproven', inFlight: 7, inconclusive: true },
      { number: 3, standing: 'proven', inFlight: 7, inconclusive: false },
      { number: 4, standing: 'failing', inFlight: 7, inconclusive: true },
    ]);
    scopes.succeeded(scopes.admit(0, 'new', 1) as Permit, 0, undefined);
    expect(admitted().map((permit) => permit?.inconclusive)).toEqual([true, true, false, true]);
  });

  it('counts against a known quota from when it is sent', () => {
    const stage = new Stage({ requestsPerSecond: 2 });
    stage.admit(100);
    expect([599, 600].map((nowMs) => stage.scopes.flow.limitsAt(nowMs).inFlight)).toEqual([0, 16]);
  });

  it('that succeeded through another replica tells nothing about latency', () => {
    const stage = new Stage();
    stage.scopes.succeeded(stage.admit(), 0, undefined);
    expect(stage.scopes.flow.waitMs(1_000)).toBe(0);
    stage.succeed();
    expect(stage.scopes.flow.waitMs(1_600)).toBe(100);
  });
});

describe('the first backoff of an owner', () => {
  it('is no longer than its range begins with', () => {
    const stage = new Stage({ ranges: { ...RANGES, owner: { baseMs: 40, capMs: 1_000 } } });
    expect(stage.fail(timedOut).ownerPause?.retryAtMonotonicMs).toBe(30);
  });

  it('is the usual one if the failure is the owner’s on purpose', () => {
    const onPurpose = error('endpoint_unavailable', { failureScope: 'owner' });
    expect(new Stage().fail(onPurpose).ownerPause?.retryAtMonotonicMs).toBe(750);
  });

  it('grows up to its cap', () => {
    expect(new Stage().fail(timedOut, 0, 'a', 40).ownerPause?.retryAtMonotonicMs).toBe(225_000);
  });
});
