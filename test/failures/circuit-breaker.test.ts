/** One circuit breaker by itself: its table of states and events. How two of them work together: `failure-scopes.test.ts`. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions, type WiderScope } from '../../src/errors.ts';
import {
  CircuitBreaker,
  type CircuitFailure,
  type OwnerStanding,
  type Permit,
  TRIAL_TAKEOVER_AFTER_MS,
} from '../../src/failures/circuit-breaker.ts';

const RANGE = { baseMs: 500, capMs: 30_000 };

const failure = (options: OwnerTokenErrorOptions = {}): CircuitFailure => ({
  error: new OwnerTokenError('endpoint_unavailable', 'it failed', options),
  ...{ nowMs: 0, isEscalated: false, hung: false },
});

const permitOf = (
  number: number,
  inconclusive = false,
  standing: OwnerStanding = inconclusive ? 'failing' : 'proven',
) => ({ number, inconclusive, standing, inFlight: 1 }) satisfies Permit;

/** A breaker whose jitter is at its middle, and the permits it is given. */
class Stage {
  readonly breaker: CircuitBreaker;
  permits = 0;

  constructor(random = () => 0.5, range = RANGE, scope: WiderScope = 'endpoint') {
    this.breaker = new CircuitBreaker(scope, range, { requestTimeoutMs: 10_000, random });
  }

  /** A request that is sent. */
  admit(nowMs = 0, inconclusive = false): Permit {
    expect(this.breaker.pauseFor(nowMs, inconclusive)).toBeUndefined();
    const permit = permitOf(++this.permits, inconclusive);
    this.breaker.admit(permit, nowMs);
    return permit;
  }

  /** Opens the circuit, until 375. */
  open() {
    return this.breaker.failed(this.admit(), failure());
  }

  /** Until when it refuses each kind of owner; undefined while the trial is in flight. */
  get until() {
    const refusedUntil = (inconclusive: boolean) => this.breaker.pauseFor(-1, inconclusive)?.retryAtMonotonicMs;
    return { others: refusedUntil(false), inconclusive: refusedUntil(true) };
  }
}

describe('closed', () => {
  it('lets every request pass, whatever is known of its owner', () => {
    const { breaker } = new Stage();
    expect([breaker.scope, breaker.state]).toEqual(['endpoint', undefined]);
    for (const inconclusive of [false, true]) {
      expect(breaker.pauseFor(0, inconclusive)).toBeUndefined();
    }
  });

  it('is not closed by any answer, and has nothing to reset', () => {
    const stage = new Stage();
    const permit = stage.admit();
    stage.breaker.cancel(permit);
    expect([stage.breaker.succeeded(permit), stage.breaker.cleared(permit), stage.breaker.reset()]).toEqual([
      ...[false, false, false],
    ]);
    expect(stage.breaker.state).toBeUndefined();
  });

  it('counts distinct owners in a row, three at most, and begins anew after a success or a reset', () => {
    const { breaker, ...stage } = new Stage();
    expect(['a', 'a', 'b', 'b'].map((owner) => breaker.countsAgainst(owner))).toEqual([false, false, false, false]);
    expect(breaker.countsAgainst('c')).toBe(true);
    breaker.succeeded(permitOf(++stage.permits));
    expect(['a', 'b'].map((owner) => breaker.countsAgainst(owner))).toEqual([false, false]);
    breaker.reset();
    expect(['c', 'd', 'e'].map((owner) => breaker.countsAgainst(owner))).toEqual([false, false, true]);
  });

  it('opens by a failure of its scope, and says so in the error', () => {
    const stage = new Stage();
    const pause = stage.open();
    expect(pause).toMatchObject({ count: 1, retryAtMonotonicMs: 375 });
    expect(pause.error).toMatchObject({ code: 'endpoint_unavailable', failureScope: 'endpoint' });
    expect(stage.breaker.state).toEqual({ pause, probing: false });
  });
});

describe('open', () => {
  it('refuses until its time, then lets one request pass as the trial', () => {
    const stage = new Stage();
    const pause = stage.open();
    expect(stage.breaker.pauseFor(374, false)).toBe(pause);
    stage.admit(375);
    expect(stage.breaker.state).toEqual({ pause, probing: true });
    for (const inconclusive of [false, true]) {
      expect(stage.breaker.pauseFor(1e9, inconclusive)).toMatchObject({ count: 1, error: pause.error });
    }
  });

  it('tells callers beside the trial to come after as long as it has taken, by its deadline, and never at once', () => {
    const stage = new Stage();
    stage.open();
    stage.admit(1_000);
    const retryAtMs = (nowMs: number) => stage.breaker.pauseFor(nowMs, false)?.retryAtMonotonicMs;
    expect([1_000, 1_050, 1_300, 5_000, 8_000].map(retryAtMs)).toEqual([1_100, 1_150, 1_600, 9_000, 11_000]);
    expect([10_950, 11_000, 60_000].map(retryAtMs)).toEqual([11_050, 11_100, 60_100]);
    // A caller that waits as it is told to makes a handful of attempts.
    let attempts = 0;
    for (let nowMs = 1_000; nowMs < 11_000; nowMs = retryAtMs(nowMs) ?? 0) attempts++;
    expect(attempts).toBeLessThanOrEqual(8);
  });

  it('ignores answers to earlier requests: they neither close it nor make its pause grow', () => {
    const stage = new Stage();
    const [one, two, three] = [stage.admit(), stage.admit(), stage.admit()];
    const pause = stage.open();
    expect([stage.breaker.succeeded(one), stage.breaker.cleared(two)]).toEqual([false, false]);
    expect(stage.breaker.failed(three, { ...failure(), nowMs: 200 })).toBe(pause);
    expect(stage.breaker.state).toEqual({ pause, probing: false });
  });

  it.each([
    ['a later', 9_000, 9_100],
    ['an equal', 4_900, 5_000],
    ['an earlier', 1_000, 5_000],
  ])('ends no sooner by %s Retry-After of an earlier request, for any owner', (_, retryAfterMs, until) => {
    const stage = new Stage();
    const early = stage.admit();
    const before = stage.breaker.failed(stage.admit(), failure({ retryAfterMs: 5_000 }));
    const pause = stage.breaker.failed(early, { ...failure({ retryAfterMs }), nowMs: 100 });
    expect(stage.until).toEqual({ others: until, inconclusive: until });
    expect(pause === before).toBe(until === 5_000);
    expect(pause.count).toBe(1);
  });

  it('closes by a reset, which forgets how long it was open', () => {
    const stage = new Stage();
    stage.open();
    expect(stage.breaker.reset()).toBe(true);
    expect(stage.breaker.state).toBeUndefined();
    expect(stage.open()).toMatchObject({ count: 1, retryAtMonotonicMs: 375 });
  });
});

describe('half-open', () => {
  it.each(['succeeded', 'cleared'] as const)('closes when its trial %s, and by no other answer', (event) => {
    const stage = new Stage();
    const early = stage.admit();
    stage.open();
    const trial = stage.admit(375);
    expect(stage.breaker[event](early)).toBe(false);
    expect(stage.breaker[event](trial)).toBe(true);
    expect(stage.breaker.state).toBeUndefined();
  });

  it('opens for twice as long each time its trial fails, for any owner', () => {
    const stage = new Stage();
    stage.open();
    const pause = stage.breaker.failed(stage.admit(1_000), { ...failure(), nowMs: 1_000 });
    expect(pause).toMatchObject({ count: 2, retryAtMonotonicMs: 1_750 });
    expect(stage.until).toEqual({ others: 1_750, inconclusive: 1_750 });
    stage.breaker.failed(stage.admit(2_000), { ...failure(), nowMs: 2_000 });
    expect(stage.until).toEqual({ others: 3_500, inconclusive: 3_500 });
  });

  it('opens for twice as long for inconclusive owners, a fifth longer for others, when that may be its owner’s doing', () => {
    const stage = new Stage();
    stage.open();
    const ambiguous = { ...failure(), isEscalated: true };
    const pause = stage.breaker.failed(stage.admit(1_000), { ...ambiguous, nowMs: 1_000 });
    expect(pause).toMatchObject({ count: 2, retryAtMonotonicMs: 1_750 });
    expect(stage.until.others).toBeCloseTo(1_000 + 375 * 2 ** (1 / 4), 6);
    expect(stage.breaker.state?.pause.count).toBe(2);
    expect(stage.breaker.failed(stage.admit(2_000), { ...ambiguous, nowMs: 2_000 }).retryAtMonotonicMs).toBe(3_500);
    expect(stage.until.others).toBeCloseTo(2_000 + 375 * 2 ** (1 / 2), 6);
    // From there, a failure that is this scope's for certain doubles it for all.
    stage.breaker.failed(stage.admit(4_000), { ...failure(), nowMs: 4_000 });
    expect(stage.until.others).toBeCloseTo(4_000 + 375 * 2 ** (3 / 2), 6);
    expect(stage.until.inconclusive).toBe(stage.until.others);
  });

  it('is open and due when its trial is cancelled: the next request becomes the trial', () => {
    const stage = new Stage();
    const pause = stage.open();
    const trial = stage.admit(375);
    stage.breaker.cancel(permitOf(99));
    expect(stage.breaker.state?.probing).toBe(true);
    stage.breaker.cancel(trial);
    expect(stage.breaker.state).toEqual({ pause, probing: false });
    stage.admit(375);
  });

  it.each(['succeeded', 'cleared'] as const)('closes when a request sent after its ambiguous failure %s', (event) => {
    const stage = new Stage();
    const [before, failed, after] = [stage.admit(), stage.admit(), stage.admit()];
    stage.breaker.failed(failed, { ...failure(), isEscalated: true });
    expect([stage.breaker[event](before), stage.breaker[event](failed)]).toEqual([false, false]);
    expect(stage.breaker[event](after)).toBe(true);
    expect(stage.breaker.state).toBeUndefined();
    // Not after a failure that is this scope's for certain, or that says until when.
    for (const certain of [failure(), { ...failure({ retryAfterMs: 1_000 }), isEscalated: true }]) {
      const [first, second] = [stage.admit(), stage.admit()];
      stage.breaker.failed(first, certain);
      expect(stage.breaker[event](second)).toBe(false);
      stage.breaker.reset();
    }
  });

  it('does not open for longer by a certain failure of such a request while it is open', () => {
    const stage = new Stage();
    const [first, second] = [stage.admit(), stage.admit()];
    const pause = stage.breaker.failed(first, { ...failure(), isEscalated: true });
    expect(stage.breaker.failed(second, { ...failure(), nowMs: 100 })).toBe(pause);
    expect(stage.until).toEqual({ others: 375, inconclusive: 375 });
    stage.admit(375);
    stage.breaker.failed(second, { ...failure(), nowMs: 400 });
    expect(stage.until).toEqual({ others: 1_150, inconclusive: 1_150 });
  });

  it('counts such a success until the trial of a proven owner has failed', () => {
    const stage = new Stage();
    const ambiguous = { ...failure(), isEscalated: true };
    const [first, second] = [stage.admit(), stage.admit()];
    stage.breaker.failed(first, ambiguous);
    const trial = stage.admit(375);
    stage.breaker.cancel(trial);
    stage.breaker.failed(stage.admit(375), { ...ambiguous, nowMs: 400 });
    expect(stage.breaker.succeeded(second)).toBe(false);
    expect(stage.breaker.state).toBeDefined();
  });

  it('stays half-open when an earlier request prolongs the pause', () => {
    const stage = new Stage();
    const early = stage.admit();
    stage.open();
    const trial = stage.admit(375);
    stage.breaker.failed(early, { ...failure({ retryAfterMs: 9_000 }), nowMs: 400 });
    expect(stage.breaker.state).toMatchObject({ probing: true, pause: { retryAtMonotonicMs: 9_400 } });
    expect(stage.breaker.succeeded(trial)).toBe(true);
  });
});

describe('a trial for an owner that is not proven', () => {
  const halfOpen = (random?: () => number, range?: typeof RANGE) => {
    const stage = new Stage(random, range);
    const pause = stage.open();
    return { stage, pause, trial: stage.admit(1_000, true) };
  };
  const ambiguous = { ...failure(), isEscalated: true };

  it('is replaced by another owner’s once it has taken its time, and by none of its kind', () => {
    const { stage, pause, trial } = halfOpen();
    const replacedAtMs = 1_000 + TRIAL_TAKEOVER_AFTER_MS;
    expect(stage.breaker.pauseFor(replacedAtMs - 1, false)).toMatchObject({ retryAtMonotonicMs: replacedAtMs });
    expect(stage.breaker.pauseFor(99_999, true)).toBeDefined();
    const second = stage.admit(replacedAtMs, false);
    expect(stage.breaker.pauseFor(99_999, false)).toBeDefined();
    expect(stage.breaker.failed(trial, ambiguous)).toBe(pause);
    expect(stage.breaker.state?.probing).toBe(true);
    expect(stage.breaker.succeeded(second)).toBe(true);
  });

  it('closes the circuit by its success although it was replaced, unless the circuit has opened again', () => {
    const replacedAtMs = 1_000 + TRIAL_TAKEOVER_AFTER_MS;
    const slow = halfOpen();
    slow.stage.admit(replacedAtMs, false);
    expect(slow.stage.breaker.succeeded(slow.trial)).toBe(true);
    expect(slow.stage.breaker.state).toBeUndefined();
    const late = halfOpen();
    late.stage.breaker.failed(late.stage.admit(replacedAtMs, false), ambiguous);
    expect(late.stage.breaker.succeeded(late.trial)).toBe(false);
    late.stage.admit(99_999, false);
    expect(late.stage.breaker.succeeded(late.trial)).toBe(false);
  });

  it('is not replaced while the service asks for a longer pause', () => {
    const stage = new Stage();
    const early = stage.admit();
    stage.open();
    stage.admit(1_000, true);
    const pause = stage.breaker.failed(early, { ...failure({ retryAfterMs: 9_000 }), nowMs: 1_100 });
    expect(stage.breaker.pauseFor(10_099, false)).toBe(pause);
    expect(stage.breaker.pauseFor(10_100, false)).toBeUndefined();
  });

  it('that fails delays others by one more pause without growth, its kind longer each time', () => {
    const { stage, trial } = halfOpen();
    const pause = stage.breaker.failed(trial, { ...ambiguous, nowMs: 2_000 });
    expect(pause).toMatchObject({ count: 2, retryAtMonotonicMs: 2_750 });
    expect(stage.until).toEqual({ others: 2_375, inconclusive: 2_750 });
    const again = stage.breaker.failed(stage.admit(2_750, true), { ...ambiguous, nowMs: 3_000 });
    expect(again).toMatchObject({ count: 3, retryAtMonotonicMs: 4_500 });
    expect(stage.breaker.state?.pause).toMatchObject({ count: 1, retryAtMonotonicMs: 3_375 });
  });

  it('delays others for half a second at most, however long the base is', () => {
    const stage = new Stage(undefined, { baseMs: 4_000, capMs: 60_000 });
    stage.open();
    stage.breaker.failed(stage.admit(5_000, true), { ...ambiguous, nowMs: 5_000 });
    expect(stage.until).toEqual({ others: 5_375, inconclusive: 11_000 });
  });

  it.each([
    ['endpoint', 375],
    ['client', 50],
  ] as const)('delays others by no growing pause if its owner is new, while nobody has succeeded: %s', (scope, ms) => {
    const stage = new Stage(undefined, RANGE, scope);
    stage.open();
    for (const nowMs of [1_000, 2_000, 3_000]) {
      const trial = permitOf(++stage.permits, false, 'new');
      stage.breaker.admit(trial, nowMs);
      stage.breaker.failed(trial, { ...ambiguous, nowMs });
      expect(stage.breaker.pauseFor(nowMs + ms - 1, false)).toBeDefined();
      expect(stage.breaker.pauseFor(nowMs + ms, false)).toBeUndefined();
    }
    expect(stage.until.inconclusive).toBe(3_000 + 3_000);
  });

  describe('at a first start', () => {
    const admit = (stage: Stage, nowMs: number, standing: OwnerStanding = 'new') => {
      expect(stage.breaker.pauseFor(nowMs, false)).toBeUndefined();
      const permit = permitOf(++stage.permits, false, standing);
      stage.breaker.admit(permit, nowMs);
      return permit;
    };
    /** The circuit has tried one new owner, whose failure was ambiguous. */
    const tried = (scope: WiderScope = 'client') => {
      const stage = new Stage(undefined, RANGE, scope);
      stage.breaker.failed(admit(stage, 0), ambiguous);
      stage.breaker.failed(admit(stage, 1_000), { ...ambiguous, nowMs: 1_300 });
      return stage;
    };

    it('does not delay the trials of other new owners, twenty a second at most', () => {
      const stage = tried();
      const trials = [1_700, 1_750, 1_800].map((nowMs) => {
        const trial = admit(stage, nowMs);
        expect(stage.breaker.pauseFor(nowMs + 49, false)).toMatchObject({ retryAtMonotonicMs: nowMs + 50 });
        expect(stage.breaker.pauseFor(nowMs + 50, true)).toBeDefined();
        return trial;
      });
      // The failure of one that was replaced changes nothing, and its success closes the circuit.
      stage.breaker.failed(trials[0] as Permit, { ...ambiguous, nowMs: 2_000 });
      expect(stage.breaker.state?.probing).toBe(true);
      stage.breaker.failed(trials[2] as Permit, { ...ambiguous, nowMs: 2_050 });
      expect(stage.breaker.state?.probing).toBe(false);
      expect(stage.breaker.succeeded(trials[1] as Permit)).toBe(true);
    });

    it('never lets an owner that failed go beside a trial', () => {
      const stage = tried();
      admit(stage, 9_000);
      expect(stage.breaker.pauseFor(9_060, true)).toBeDefined();
      expect(stage.breaker.pauseFor(9_060, false)).toBeUndefined();
    });

    it('delays them until its first trial has failed, and that of a proven owner or of the endpoint always', () => {
      const first = new Stage(undefined, RANGE, 'client');
      first.breaker.failed(admit(first, 0), ambiguous);
      admit(first, 1_000);
      const proven = tried();
      admit(proven, 1_700, 'proven');
      const endpoint = tried('endpoint');
      admit(endpoint, 1_700);
      for (const { breaker } of [first, proven, endpoint]) expect(breaker.pauseFor(9_000, false)).toBeDefined();
    });

    it('opens for all by a certain failure of any of them, and then tries one alone', () => {
      const stage = tried();
      const replaced = admit(stage, 1_700);
      admit(stage, 1_750);
      expect(stage.breaker.failed(replaced, { ...failure(), nowMs: 2_000 }).count).toBe(2);
      expect(stage.until).toEqual({ others: 2_750, inconclusive: 2_750 });
      admit(stage, 2_750);
      expect(stage.breaker.pauseFor(9_000, false)).toBeDefined();
    });
  });

  it('of the client delays others half a second if its owner is new, once others have succeeded', () => {
    const stage = new Stage(undefined, RANGE, 'client');
    stage.open();
    const trial = permitOf(++stage.permits, true, 'new');
    stage.breaker.admit(trial, 1_000);
    stage.breaker.failed(trial, { ...ambiguous, nowMs: 1_000 });
    expect(stage.until.others).toBe(1_375);
  });

  it('that hung delays others no longer', () => {
    const { stage, pause, trial } = halfOpen();
    stage.breaker.failed(trial, { ...ambiguous, hung: true, nowMs: 11_000 });
    expect(stage.until).toEqual({ others: 375, inconclusive: 11_750 });
    expect(stage.breaker.state).toEqual({ pause, probing: false });
  });

  it.each([
    ['is this scope’s for certain', { ...failure(), nowMs: 2_000 }, 2_750],
    ['says until when', { ...failure({ retryAfterMs: 4_000 }), isEscalated: true, nowMs: 2_000 }, 6_000],
  ])('delays all when its failure %s', (_, certain, until) => {
    const { stage, trial } = halfOpen();
    expect(stage.breaker.failed(trial, certain).count).toBe(2);
    expect(stage.until).toEqual({ others: until, inconclusive: until });
  });

  it('delays others never longer than its kind, though both are drawn at the cap', () => {
    const draws = [0.5, 0, 1];
    const { stage, trial } = halfOpen(() => draws.shift() ?? 0.5, { baseMs: 500, capMs: 500 });
    stage.breaker.failed(trial, { ...ambiguous, nowMs: 2_000 });
    expect(stage.until).toEqual({ others: 2_500, inconclusive: 2_500 });
  });

  it('delays nobody any more once the circuit closes', () => {
    const { stage, trial } = halfOpen();
    stage.breaker.failed(trial, { ...ambiguous, nowMs: 2_000 });
    stage.breaker.succeeded(stage.admit(2_375));
    expect(stage.breaker.pauseFor(2_375, true)).toBeUndefined();
  });
});
