import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/errors/owner-token-error.ts';
import { circuitOf } from '../../src/failures/blame-state.ts';
import {
  type Attribution,
  type FailedEvent,
  type Health,
  type HealthEvent,
  initialHealth,
  reduce,
  type Step,
  slowAfterMs,
} from '../../src/failures/reducer.ts';
import { roomAt } from '../../src/failures/room.ts';

const RANGES = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 1_000, capMs: 60_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};

const down = (options?: OwnerTokenErrorOptions) => new OwnerTokenError('endpoint_unavailable', 'no', options);
const DOWN = down();
const BUSY = new OwnerTokenError('rate_limited', 'no', { status: 429 });
const REFUSED = new OwnerTokenError('owner_refused', 'no', { status: 401 });
const REVOKED = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });

const AT_ONCE = { running: 1, atOnce: 1 };

type Changes = Partial<FailedEvent<string>>;

/** A registry's health after events. Each request has the next number. */
class Story {
  readonly health: Health<string> = initialHealth(RANGES, 100);
  step: Step & { retryDelayMs?: number | undefined } & Partial<Omit<Attribution, 'retryDelayMs'>> = {
    askCanary: false,
  };
  nowMs = 0;
  #number = 0;

  is(event: HealthEvent<string>): this {
    this.step = reduce(this.health, event, this.nowMs);
    return this;
  }

  /** Successes of owners 1, 2, …, which took this long. */
  succeeds(count = 1, tookMs = 50): this {
    for (let n = 1; n <= count; n++) {
      this.is({ kind: 'succeeded', owner: `${n}`, number: ++this.#number, isTrial: false, tookMs, ...AT_ONCE });
    }
    return this;
  }

  /** First failures of these owners, which callers need. */
  fails(owners: string, error = DOWN, changes: Changes = {}): this {
    for (const owner of owners) {
      const request = {
        owner,
        number: ++this.#number,
        error,
        isTrial: false,
        ownerFailures: 0,
        tookMs: 10,
        retries: 0,
        leftMs: 0,
        ...AT_ONCE,
      };
      this.is({ kind: 'failed', ...request, isNeeded: true, jitter: 1, ...changes });
    }
    return this;
  }

  asked(owner: string | undefined): this {
    return this.is(owner === undefined ? { kind: 'noCanaryFree', jitter: 1 } : { kind: 'trialSent', owner });
  }

  trialFails(owner: string, error = DOWN, changes: Changes = {}): this {
    return this.fails(owner, error, { isTrial: true, isNeeded: false, ...changes });
  }

  /** Scope of the failure, and code and length of its owner's pause. */
  get verdict() {
    const { scope, ownerPause } = this.step;
    return [scope, ownerPause?.error.code, ownerPause && ownerPause.retryAtMonotonicMs - this.nowMs];
  }
}

/** Two owners have succeeded. */
const known = () => new Story().succeeds(2);
/** Both canaries have failed, and the endpoint's circuit is open for half a second. */
const open = () => known().fails('abc').asked('2').trialFails('2').asked('1').trialFails('1');
/** Retries are paid for. */
const rich = () => new Story().succeeds(40);
/** Requests are spaced, and retries are paid for. */
function paced(): Story {
  const story = rich();
  for (let n = 0; n < 40; n++) story.is({ kind: 'sent', number: n });
  for (let n = 0; n < 40; n++) story.fails(n % 2 ? 'a' : 'b', BUSY, { isNeeded: false });
  // So that the failures of the test lead to no check.
  return story.succeeds(1);
}

describe('a request is slow', () => {
  it.each([
    [[], Number.POSITIVE_INFINITY],
    [[50], 1_000],
    [[250], 1_000],
    [[300], 1_200],
    [[300, 700], 1_280],
  ])('after successes that took %j ms, once it has taken %d ms', (tookMs, expected) => {
    const story = new Story();
    for (const each of tookMs) story.succeeds(1, each);
    expect(slowAfterMs(story.health)).toBe(expected);
  });
});

describe('a failed request', () => {
  it('is sent again after 50 to 150 ms, and costs one retry of the budget', () => {
    for (const [jitter, expectedMs] of [
      [0, 50],
      [0.5, 100],
      [1, 150],
    ] as const) {
      const { step, health } = rich().fails('a', DOWN, { jitter });
      expect(step).toMatchObject({ retryDelayMs: expectedMs });
      expect([step.scope, step.ownerPause]).toEqual([undefined, undefined]);
      expect(health.savedTokens).toBe(30);
    }
  });

  it.each([
    ['that nobody needs', DOWN, { isNeeded: false }],
    ['of an owner that failed before', DOWN, { ownerFailures: 1 }],
    ['with Retry-After', down({ retryAfterMs: 1_000 }), {}],
    ['that is not retryable', REFUSED, {}],
    ['that hung', DOWN, { tookMs: 1_001 }],
    ['that was sent again already', DOWN, { retries: 1 }],
    ['that got a 429 and was sent again already', BUSY, { retries: 1 }],
    ['that was a trial', DOWN, { isTrial: true }],
  ])('%s is not sent again', (_, error, changes) => {
    const { step, health } = rich().fails('a', error, changes);
    expect([step.retryDelayMs, step.scope]).toEqual([undefined, 'owner']);
    expect(health.savedTokens).toBe(40);
  });

  it.each([
    ['that failed within a second', DOWN, { tookMs: 1_000 }],
    ['that got a 429', BUSY, {}],
  ])('%s is sent again', (_, error, changes) => {
    expect(rich().fails('a', error, changes).step.retryDelayMs).toBe(150);
  });

  it('is not sent again while the circuit is open', () => {
    const story = rich().fails('abc', DOWN, { isNeeded: false }).asked('2').trialFails('2').asked('1').trialFails('1');
    expect(story.fails('z').step.retryDelayMs).toBeUndefined();
  });

  it('is sent again even if canaries are asked because of it', () => {
    const story = rich().fails('abc');
    expect(story.step).toMatchObject({ retryDelayMs: 150, askCanary: true });
  });

  it.each([
    [9, 0],
    [10, 1],
    [19, 1],
    [20, 2],
    [100, 10],
    [500, 10],
  ])('is retried from a budget: %d issued tokens pay for %d retries', (tokens, retries) => {
    const story = new Story().succeeds(tokens);
    for (let n = 0; n < retries; n++) {
      expect(story.fails('a').step.retryDelayMs).toBe(150);
    }
    expect(story.fails('a').step.retryDelayMs).toBeUndefined();
  });

  it.each([
    ['a 429', 4, BUSY, 150],
    ['a 429', 5, BUSY, undefined],
    ['a 503', 4, down({ status: 503 }), 150],
    ['a 500', 1, down({ status: 500 }), undefined],
  ])('is sent again up to five times while requests are paced: %s after %s retries', (_, retries, error, expected) => {
    expect(paced().fails('z', error, { retries }).step.retryDelayMs).toBe(expected);
  });
});

describe('the room', () => {
  it('grows with tokens, and from the first request on with time', () => {
    const { health } = new Story().succeeds(1).fails('a');
    expect(roomAt(health.room, 1_000)).toBe(17);
    for (const number of [3, 4]) reduce(health, { kind: 'sent', number }, 990 + 10 * number);
    expect(roomAt(health.room, 1_040)).toBe(19);
    // A request that is made once more keeps its number.
    reduce(health, { kind: 'sent', number: 3 }, 1_040);
    expect(health.room.lastSent).toBe(4);
  });
});

describe('the pace', () => {
  it('is learned from every failure of an owner, not from its first one alone', () => {
    const shareAfter = (ownerFailures: number) => rich().fails('a', BUSY, { ownerFailures }).health.pace.busyShare;
    expect([0, 1, 20].map(shareAfter)).toEqual([0.025, 0.025, 0.025]);
  });

  /** How the outcome of 40 owners changes it, where owner 39 is served before. */
  const afterMany = (error: OwnerTokenError) => {
    const story = rich();
    for (let n = 0; n < 40; n++) {
      if (n === 20) story.succeeds(20);
      story.fails(String.fromCodePoint(0x1000 + n), error, { isNeeded: false });
      if (n === 19) story.is({ kind: 'succeeded', owner: '\u1000', number: 99, isTrial: false, tookMs: 0, ...AT_ONCE });
    }
    const { busyShare, cutAtMs } = story.health.pace;
    return busyShare > 0 || cutAtMs >= 0;
  };

  it.each([
    ['a 429', true, BUSY],
    ['503s of which owners recover', true, down({ status: 503 })],
    ['a 503 with Retry-After', false, down({ status: 503, retryAfterMs: 1_000 })],
    ['a 500', false, down({ status: 500 })],
    ['a refusal', false, REFUSED],
  ])('is learned from %s: %s', (_, isBusy, error) => {
    expect(afterMany(error)).toBe(isBusy);
  });

  it('forgets the 429s before a success that ends a check: they were their owners’ own', () => {
    const shareAfter = (owners: string) => known().fails(owners, BUSY).succeeds().health.pace.busyShare;
    expect(shareAfter('ab')).toBeGreaterThan(0);
    expect(shareAfter('abc')).toBe(0);
  });

  it('has the given quota', () => {
    expect(initialHealth(RANGES, 100, 7).pace.quotaPerSecond).toBe(7);
  });

  it.each([
    ['token', (story: Story, tookMs: number) => story.succeeds(1, tookMs)],
    ['failure', (story: Story, tookMs: number) => story.fails('z', DOWN, { tookMs })],
  ])('is not judged by a %s of a request from before the last cut', (_, answer) => {
    const story = paced();
    story.nowMs = 100;
    expect([100, 99].map((tookMs) => answer(story, tookMs).health.pace.answers)).toEqual([0, 1]);
  });

  it('forgets the 503 of an owner that is forgotten', () => {
    const story = known()
      .fails('a', down({ status: 503 }))
      .is({ kind: 'forgotten', owner: 'a' });
    expect(story.health.pace.unavailable.size).toBe(0);
  });

  const hasLearnedRate = ({ health }: Story) => health.pace.perSecond < Number.POSITIVE_INFINITY;
  it('is forgotten by resume, and by no other event', () => {
    expect(hasLearnedRate(paced().is({ kind: 'forgotten', owner: 'a' }))).toBe(true);
    expect(hasLearnedRate(paced().is({ kind: 'resumed' }))).toBe(false);
  });
});

it('before the first success an owner pauses no longer than the endpoint, unless the answer is about it', () => {
  const pauseMs = (story: Story, error: OwnerTokenError) => story.fails('a', error, { ownerFailures: 12 }).verdict[2];
  expect(pauseMs(new Story(), REFUSED)).toBe(30_000);
  expect(pauseMs(new Story(), REVOKED)).toBe(300_000);
  expect(pauseMs(known(), REFUSED)).toBe(300_000);
});

describe('the scope of a failure, and its owner’s pause', () => {
  it.each<[string, () => Story, unknown[]]>([
    ['a first failure', () => known().fails('a'), ['owner', 'endpoint_unavailable', 100]],
    ['a refusal', () => known().fails('a', REFUSED), ['owner', 'owner_refused', 1_000]],
    [
      'the failure of a first canary',
      () => known().fails('abc').asked('2').trialFails('2'),
      ['owner', undefined, undefined],
    ],
    ['the failure that opened the circuit', () => open(), ['endpoint', undefined, undefined]],
    ['a failure while the circuit is open', () => open().fails('z'), ['endpoint', undefined, undefined]],
    [
      'a failure while the circuit is open of a request sent before the last success',
      () => open().fails('z', DOWN, { number: 2 }),
      ['owner', 'endpoint_unavailable', 100],
    ],
    [
      'a failure while the circuit is open of an owner that failed before',
      () => open().fails('z', DOWN, { ownerFailures: 1 }),
      ['owner', 'endpoint_unavailable', 200],
    ],
    [
      'a failed trial of an owner that failed before',
      () => open().is({ kind: 'due', isAwaited: true }).asked('z').trialFails('z', DOWN, { ownerFailures: 1 }),
      ['endpoint', undefined, undefined],
    ],
    [
      'a failure while the circuit is open that speaks of its owner',
      () => open().fails('z', REVOKED),
      ['owner', 'owner_refused', 1_000],
    ],
    [
      'a failed trial that speaks of its owner',
      () => open().is({ kind: 'due', isAwaited: true }).asked('z').trialFails('z', REVOKED),
      ['owner', 'owner_refused', 1_000],
    ],
    [
      'a failure put at the client',
      () => known().fails('a', down({ failureScope: 'client' })),
      ['client', undefined, undefined],
    ],
    [
      'a failure put at the client while the endpoint’s circuit is open',
      () => open().fails('z', down({ failureScope: 'client' })),
      ['client', undefined, undefined],
    ],
    [
      'a failure put at its owner while the circuit is open',
      () => open().fails('z', down({ failureScope: 'owner' })),
      ['owner', 'endpoint_unavailable', 1_000],
    ],
    [
      'the tenth failure before anyone has succeeded',
      () => new Story().fails('0123456789'),
      ['endpoint', 'endpoint_unavailable', 100],
    ],
    [
      'the tenth refusal before anyone has succeeded',
      () => new Story().fails('0123456789', REFUSED),
      ['client', 'client_refused', 1_000],
    ],
    [
      'a failure with Retry-After before anyone has succeeded',
      () => new Story().fails('a', down({ retryAfterMs: 90_000 })),
      ['owner', 'endpoint_unavailable', 60_000],
    ],
  ])('follow from the verdict on %s', (_, story, verdict) => {
    expect(story().verdict).toEqual(verdict);
  });

  it('are the circuit’s scope, and no pause, if the failure opens it while canaries are in flight', () => {
    const story = known().fails('abc').asked(undefined);
    expect(circuitOf(story.health.blame)).toMatchObject({ scope: 'endpoint' });
    const old = known()
      .fails('abc')
      .asked('2')
      .trialFails('2', REFUSED)
      .asked('1')
      .trialFails('1', REFUSED, { ownerFailures: 3 });
    expect(old.verdict).toEqual(['client', undefined, undefined]);
  });
});

it('the reducer passes on whether to ask a canary', () => {
  expect(known().fails('abc', DOWN, { isNeeded: false }).step.askCanary).toBe(true);
  expect(known().step.askCanary).toBe(false);
  expect(open().is({ kind: 'due', isAwaited: true }).step.askCanary).toBe(true);
});

it('a failed refresh with a minute of its token left pauses its owner for 10 s', () => {
  expect(known().fails('a', DOWN, { leftMs: 60_000 }).verdict[2]).toBe(10_000);
});
