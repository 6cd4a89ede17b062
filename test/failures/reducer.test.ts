import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/errors/owner-token-error.ts';
import { paceStat } from '../../src/failures/limiter.ts';
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
import { recentLatencyMs } from '../../src/failures/slow-service.ts';

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

const UNAVAILABLE = down({ status: 503 });

type Changes = Partial<FailedEvent<string>>;
type Succeeded = Extract<HealthEvent<string>, { kind: 'succeeded' }>;

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
  succeeds(count = 1, tookMs = 50, changes: Partial<Succeeded> = {}): this {
    for (let n = 1; n <= count; n++) {
      const request = { owner: `${n}`, number: ++this.#number, tookMs, running: 1 };
      const before = { isSlow: false, unavailableMs: undefined, wasRefused: false };
      this.is({ kind: 'succeeded', ...request, ...before, ...changes });
    }
    return this;
  }

  /** First failures of these owners, which callers need. */
  fails(owners: string, error = DOWN, changes: Changes = {}): this {
    for (const owner of owners) {
      const request = {
        owner,
        error,
        isTrial: false,
        ownerFailures: 0,
        tookMs: 10,
        isRetry: false,
        leftMs: 0,
        firstNumber: ++this.#number,
        running: 1,
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
/** Ten owners have failed, none has succeeded, and a trial is due. */
const atStart = () => new Story().fails('0123456789').is({ kind: 'due', isAwaited: true });
/** Retries are paid for. */
const rich = () => new Story().succeeds(40);
/** The codes of so many owners, from the first one on. */
const owners = (count: number) => Array.from({ length: count }, (_, n) => String.fromCodePoint(0x1000 + n)).join('');
const rateOf = ({ health, nowMs }: Story) => paceStat(health.limiter, nowMs)?.perSecond;

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

  it('no sooner because of answers that were slow themselves, but these count as latency', () => {
    const story = new Story().succeeds(1, 300).succeeds(50, 9_000, { isSlow: true });
    expect(slowAfterMs(story.health)).toBe(1_200);
    expect(recentLatencyMs(story.health.slow)).toBeGreaterThan(5_000);
  });

  it('after a second if nothing has succeeded and a circuit is open', () => {
    expect(slowAfterMs(new Story().fails('0123456789').health)).toBe(1_000);
    expect(slowAfterMs(new Story().fails('012345678').health)).toBe(Number.POSITIVE_INFINITY);
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
    ['that was sent again already', DOWN, { isRetry: true }],
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
});

describe('the limiter', () => {
  it('is told of each request', () => {
    const story = new Story().is({ kind: 'sent' });
    expect(story.health.limiter).toMatchObject({ firstSentMs: 0, sent: { perSecond: 1 } });
  });

  it('is told of each answer: how long it took, and how many ran', () => {
    const { limiter } = new Story().fails('a', BUSY, { running: 70 }).succeeds(1, 80).health;
    expect(limiter).toMatchObject({ atOnce: 70, issuedCount: 1, usualMs: 80 });
  });

  it.each([
    ['a 429', true, BUSY, {}],
    ['a 429 after one', true, BUSY, { ownerFailures: 1 }],
    ['a third 429 in a row', false, BUSY, { ownerFailures: 2 }],
    ['a 503', true, UNAVAILABLE, {}],
    ['a third 503 in a row', false, UNAVAILABLE, { ownerFailures: 2 }],
    ['a 503 with Retry-After', true, down({ status: 503, retryAfterMs: 1_000 }), {}],
    ['a 500', false, down({ status: 500 }), {}],
    ['a refusal', false, REFUSED, {}],
  ])('learns a rate if many owners get %s: %s', (_, isBusy, error, changes) => {
    const story = rich();
    for (let n = 0; n < 40; n++) story.is({ kind: 'sent' });
    // So that a 503 is one of load.
    story.succeeds(1, 0, { unavailableMs: 0 });
    story.fails(owners(40), error, { isNeeded: false, ...changes });
    expect(rateOf(story) !== undefined).toBe(isBusy);
  });

  it('has the given quota', () => {
    expect(rateOf({ health: initialHealth<string>(RANGES, 100, 7), nowMs: 0 } as Story)).toBe(7);
  });
});

describe('an owner that is refused as the client', () => {
  const CLIENT = new OwnerTokenError('client_refused', 'no', { status: 401, oauthError: 'invalid_client' });
  /** How long its twelfth failure in a row pauses it. */
  const pauseMs = (story: Story, error = CLIENT, firstNumber = 2) =>
    story.fails('a', error, { ownerFailures: 11, firstNumber }).verdict[2];

  it.each([
    ['no other owner has got a token since its first failure', () => known(), CLIENT, 60_000],
    ['one has', () => known().succeeds(2), CLIENT, 300_000],
    [
      'one has, but so has one that was refused as the client',
      () => known().succeeds(1, 50, { wasRefused: true }),
      CLIENT,
      60_000,
    ],
    ['what it got is no code of the client', () => known(), REFUSED, 300_000],
  ])('pauses up to the cap of the client or of owners: %s', (_, story, error, expected) => {
    expect(pauseMs(story(), error)).toBe(expected);
  });

  it('pauses up to the cap of owners again five minutes after one that was refused got a token', () => {
    const lengthAfter = (ms: number) => {
      const story = known().succeeds(1, 50, { wasRefused: true });
      story.nowMs += ms;
      return pauseMs(story);
    };
    expect([lengthAfter(300_000), lengthAfter(300_001)]).toEqual([60_000, 300_000]);
  });
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
      'a failed trial of a caller',
      () => open().is({ kind: 'due', isAwaited: true }).asked('z').trialFails('z', DOWN, { isNeeded: true }),
      ['endpoint', 'endpoint_unavailable', 100],
    ],
    [
      'a failed trial of a caller before anyone has succeeded',
      () => atStart().asked('a').trialFails('a', DOWN, { isNeeded: true }),
      ['endpoint', 'endpoint_unavailable', 100],
    ],
    [
      'a failed trial of a refresh before anyone has succeeded',
      () => atStart().asked('a').trialFails('a'),
      ['endpoint', undefined, undefined],
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
      ['endpoint', undefined, undefined],
    ],
    [
      'the tenth refusal before anyone has succeeded',
      () => new Story().fails('0123456789', REFUSED),
      ['client', undefined, undefined],
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
    expect(story.health.blame.doubt?.circuit).toMatchObject({ scope: 'endpoint' });
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
