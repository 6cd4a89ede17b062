import { describe, expect, it } from 'vitest';
import {
  hasLearnedRate,
  initialPace,
  type Pace,
  paceFailed,
  paceForgotten,
  paceIssued,
  paceRestarted,
  paceSent,
  paceStat,
} from '../../src/failures/pace.ts';

/** A pace whose events happen at given times, each answer as soon as its request was sent. Each 429 is of another owner. */
class Pacing {
  readonly pace: Pace;
  #owners = 0;

  constructor(quotaPerSecond?: number) {
    this.pace = initialPace(quotaPerSecond);
  }

  sent(nowMs: number, count = 1): this {
    for (let n = 0; n < count; n++) paceSent(this.pace, nowMs);
    return this;
  }

  issued(nowMs: number, count = 1): this {
    for (let n = 0; n < count; n++) paceIssued(this.pace, `served ${n}`, nowMs, nowMs);
    return this;
  }

  busy(nowMs: number, count = 1): this {
    for (let n = 0; n < count; n++) paceFailed(this.pace, `owner ${this.#owners++}`, 429, nowMs, nowMs);
    return this;
  }

  /** Twenty answers, of which twelve say that the service is busy. */
  overloaded(nowMs: number): this {
    return this.refused(nowMs, 8).busy(nowMs, 12);
  }

  refused(nowMs: number, count = 1): this {
    for (let n = 0; n < count; n++) paceFailed(this.pace, 'refused', undefined, nowMs, nowMs);
    return this;
  }
}

/** The share of 429s in {@link Pacing.overloaded}. */
const SHARE = 12 / 20;
/** Cuts at a rate that was sent, less the share. */
const less = (perSecond: number) => expect.closeTo(perSecond * (1 - SHARE), 6);

describe('the quota', () => {
  it('spaces requests evenly from the first one on, and saves nothing up', () => {
    const pacing = new Pacing(50);
    expect(hasLearnedRate(pacing.pace)).toBe(false);
    expect(pacing.sent(1_000).pace.nextStartMs).toBe(1_020);
    expect(pacing.sent(5_000).pace.nextStartMs).toBe(5_020);
  });

  it('is not used up in advance by trials, which do not wait for it', () => {
    expect(new Pacing(0.01).sent(1_000, 1_000).pace.nextStartMs).toBe(101_000);
  });

  it('is unlimited by default: any number of requests may start at once', () => {
    expect(new Pacing().sent(1_000, 100).pace.nextStartMs).toBe(1_000);
    expect(initialPace().nextStartMs).toBeLessThan(0);
  });

  it('binds where the learned rate is higher, and the learned rate where that is lower', () => {
    expect(new Pacing(10).sent(0, 100).overloaded(500).sent(600).pace.nextStartMs).toBe(600 + 100);
    const { pace } = new Pacing(1_000).sent(0, 100).overloaded(500);
    pace.nextStartMs = 0;
    paceSent(pace, 600);
    expect(pace.nextStartMs).toEqual(expect.closeTo(600 + 1_000 / pace.perSecond));
  });
});

describe('the rate', () => {
  it.each([
    ['nineteen 429s in a row', () => new Pacing().sent(0, 100).busy(500, 19)],
    [
      'a 429 in ten',
      () => {
        const pacing = new Pacing().sent(0, 100);
        for (let n = 0; n < 500; n++) pacing.issued(500 + 700 * n, 9).busy(500 + 700 * n);
        return pacing;
      },
    ],
    [
      'any number of 429s of one owner',
      () => {
        const pacing = new Pacing().sent(0, 100);
        for (let n = 0; n < 50; n++) paceFailed(pacing.pace, 'one', 429, 500, 500);
        return pacing;
      },
    ],
    ['any number of other failures', () => new Pacing().sent(0, 100).refused(500, 50)],
    ['three 429s in twenty', () => new Pacing().sent(0, 100).refused(500, 17).busy(500, 3)],
  ])('is not cut for %s', (_, pacing) => {
    expect(hasLearnedRate(pacing().pace)).toBe(false);
  });

  it('counts a 429 of an owner again once another owner had one', () => {
    const pacing = new Pacing().sent(0, 100);
    for (let n = 0; n < 20; n++) paceFailed(pacing.pace, n % 2, 429, 500, 500);
    expect(hasLearnedRate(pacing.pace)).toBe(true);
  });

  it('is cut for four 429s in twenty', () => {
    expect(hasLearnedRate(new Pacing().sent(0, 100).refused(500, 16).busy(500, 4).pace)).toBe(true);
  });

  it.each([
    ['of less than 200 ms counts as one of 200 ms', 100, [[0, 100]], 500],
    ['of the first second', 999, [[0, 100]], 100_000 / 999],
    ['of a second that has just ended', 1_500, [[0, 100]], 100],
    ['that has ended before is none: at least five a second', 2_000, [[0, 100]], undefined],
    [
      'that goes on counts the second before in part',
      1_250,
      [
        [0, 100],
        [1_200, 40],
      ],
      40 + 0.75 * 100,
    ],
    [
      'counts its second second from its beginning on',
      1_500,
      [
        [0, 100],
        [1_000, 40],
      ],
      40 + 0.5 * 100,
    ],
    [
      'after a silence of two seconds begins anew',
      2_400,
      [
        [0, 100],
        [2_000, 30],
      ],
      75,
    ],
  ] as const)('is cut to what was sent, less the share of 429s: a burst %s', (_, nowMs, bursts, perSecond) => {
    const pacing = new Pacing();
    for (const [atMs, count] of bursts) pacing.sent(atMs, count);
    pacing.overloaded(nowMs);
    expect(pacing.pace.perSecond).toEqual(perSecond === undefined ? 5 : less(perSecond));
    expect([pacing.pace.cutAtMs, pacing.pace.busyShare]).toEqual([nowMs, 0]);
  });

  it('is cut again after twenty answers to requests that were sent since, and never below five a second', () => {
    const pacing = new Pacing().sent(0, 100).overloaded(500);
    const first = pacing.pace.perSecond;
    for (let n = 0; n < 40; n++) paceFailed(pacing.pace, n, 429, 500, 700);
    expect(pacing.overloaded(500).pace.perSecond).toBe(first);
    expect(pacing.overloaded(501).pace.perSecond).toEqual(expect.closeTo(first * (1 - SHARE), 6));
    for (let nowMs = 1_500; nowMs < 10_000; nowMs += 500) pacing.sent(nowMs, 10).overloaded(nowMs);
    expect(pacing.pace.perSecond).toBe(5);
  });

  it('is cut from the learned one where less than that was sent', () => {
    const pacing = new Pacing().sent(0, 100).overloaded(500).sent(900, 200);
    expect(pacing.overloaded(1_000).pace.perSecond).toEqual(expect.closeTo(200 * (1 - SHARE) ** 2, 6));
  });

  it.each([
    ['right then', 1_000, 0.9 * 80],
    ['two seconds later', 3_000, 0.9 * 80 * 0.9 ** 2],
    ['a minute later', 61_000, 5],
  ])('is not cut below nine tenths of the best rate of tokens, which fades: %s', (_, nowMs, expected) => {
    const pacing = new Pacing().issued(500).issued(1_000, 79).sent(nowMs);
    while (!hasLearnedRate(pacing.pace)) pacing.busy(nowMs);
    expect(pacing.pace.perSecond).toEqual(expect.closeTo(expected, 6));
  });

  it('keeps the best rate of tokens while later rates are lower', () => {
    const { pace } = new Pacing().issued(0, 80).issued(2_100, 3);
    expect(pace).toMatchObject({ bestPerSecond: 80, bestAtMs: 0 });
  });

  it('counts tokens issued within less than a second as those of a whole second', () => {
    expect(new Pacing().issued(0, 80).issued(100, 20).pace).toMatchObject({ bestPerSecond: 100, bestAtMs: 100 });
  });

  it.each([
    ['tokens', (pacing: Pacing, nowMs: number) => pacing.issued(nowMs)],
    ['other failures', (pacing: Pacing, nowMs: number) => pacing.refused(nowMs)],
  ])('rises by a tenth each second while there are %s, without a jump after a silence', (_, answer) => {
    const pacing = new Pacing().sent(0, 100).overloaded(500);
    pacing.pace.shareBefore = 0;
    const cut = pacing.pace.perSecond;
    answer(answer(pacing, 1_000), 1_500);
    expect(pacing.pace.perSecond).toEqual(expect.closeTo(cut * 1.1, 6));
    answer(pacing, 9_500);
    expect(pacing.pace.perSecond).toEqual(expect.closeTo(cut * 1.1 ** 2, 6));
    expect(pacing.pace.raisedAtMs).toBe(9_500);
  });

  it('does not rise with a 429', () => {
    const pacing = new Pacing().sent(0, 100).overloaded(500);
    const cut = pacing.pace.perSecond;
    expect(pacing.busy(900).pace.perSecond).toBe(cut);
  });

  it('is forgotten once a minute has passed since the last cut', () => {
    const pacing = new Pacing().sent(0, 100).overloaded(500);
    expect(hasLearnedRate(pacing.sent(60_500).pace)).toBe(true);
    expect(hasLearnedRate(pacing.sent(60_501).pace)).toBe(false);
    expect(pacing.sent(70_000).pace.nextStartMs).toBe(70_000);
  });

  it('is forgotten with its share of 429s where it was learned from an outage', () => {
    const pacing = new Pacing(20).sent(0, 100).overloaded(500);
    paceRestarted(pacing.pace);
    expect(pacing.pace).toMatchObject({ busyShare: 0, quotaPerSecond: 20, perSecond: Number.POSITIVE_INFINITY });
  });
});

it.each([
  [undefined, Number.POSITIVE_INFINITY, 0, undefined],
  [7, Number.POSITIVE_INFINITY, 0, { perSecond: 7, reason: 'quota' }],
  [undefined, 20, 60_000, { perSecond: 20, reason: 'overload' }],
  [undefined, 20, 60_001, undefined],
  [7, 20, 0, { perSecond: 7, reason: 'quota' }],
  [30, 20, 0, { perSecond: 20, reason: 'overload' }],
  [20, 20, 0, { perSecond: 20, reason: 'quota' }],
] as const)(
  'the pace that is reported is the lower one of a quota of %s and a learned rate of %d, after %d ms',
  (quota, learned, ageMs, expected) => {
    const pace: Pace = { ...initialPace(quota), perSecond: learned, cutAtMs: 1_000 };
    expect(paceStat(pace, 1_000 + ageMs)).toEqual(expected);
  },
);

describe('a cut', () => {
  /** 100 are sent in half a second and answered with tokens, and then one 429 after the other comes, until the rate is cut. */
  function cut(pacing = new Pacing(), nowMs = 1_000) {
    pacing.sent(nowMs - 1_000, 100).issued(nowMs - 500, 100);
    while (!hasLearnedRate(pacing.pace)) pacing.busy(nowMs);
    return pacing;
  }
  /** Answers to requests that were sent after the cut: so many of each hundred are 429s. */
  function answer({ pace }: Pacing, count: number, busyOf100: number, sentMs = 1_001, nowMs = 1_050) {
    for (let n = 1; n <= count; n++) {
      const isBusy = Math.floor((n * busyOf100) / 100) > Math.floor(((n - 1) * busyOf100) / 100);
      paceFailed(pace, isBusy ? `later ${n}` : 'other', isBusy ? 429 : undefined, sentMs, nowMs);
    }
  }
  /** As many as were issued within the second before. */
  const ENOUGH = 100;

  it('has helped or not once as many answers have come as in a second: until then the rate does not rise', () => {
    const pacing = cut();
    const { perSecond } = pacing.pace;
    answer(pacing, ENOUGH, 0, 1_000);
    answer(pacing, ENOUGH - 1, 0);
    expect(pacing.pace).toMatchObject({ answers: ENOUGH - 1, perSecond });
    answer(pacing, 1, 0);
    answer(pacing, 1, 0, 1_001, 1_500);
    expect(pacing.pace.perSecond).toBeGreaterThan(perSecond);
  });

  it.each([
    ['to half', 7, false],
    ['by less than half', 9, true],
  ])('that lowers the share %s: with %i of a hundred busy, it has not helped: %s', (_, busyOf100, expected) => {
    const pacing = cut();
    answer(pacing, ENOUGH, busyOf100);
    expect([hasLearnedRate(pacing.pace), pacing.pace.hasNotHelped]).toEqual([true, expected]);
  });

  const cutTwiceInVain = () => {
    const pacing = cut();
    answer(pacing, ENOUGH, 15);
    paceRestarted(pacing.pace);
    cut(pacing, 5_000);
    answer(pacing, ENOUGH, 15, 5_001, 5_050);
    return pacing;
  };

  it('that is the second in a row not to help ends the limit, until half of the answers are busy', () => {
    const pacing = cutTwiceInVain();
    expect(hasLearnedRate(pacing.pace)).toBe(false);
    expect(pacing.pace).toMatchObject({ tolerateUntilMs: 10_050, tolerateMs: 10_000 });
    expect(hasLearnedRate(pacing.refused(10_049, 10).busy(10_049, 10).pace)).toBe(false);
    expect(hasLearnedRate(pacing.busy(10_049, 1).pace)).toBe(true);
    expect(hasLearnedRate(cutTwiceInVain().refused(10_050, 16).busy(10_050, 4).pace)).toBe(true);
  });

  it('tolerates a share below half for twice as long each time, up to five minutes, until a cut helps', () => {
    const pacing = cutTwiceInVain();
    pacing.pace.tolerateMs = 200_000;
    cut(pacing, 20_000);
    answer(pacing, ENOUGH, 15, 20_001, 20_050);
    expect(pacing.pace).toMatchObject({ tolerateUntilMs: 220_050, tolerateMs: 300_000 });
    cut(pacing, 300_000);
    answer(pacing, ENOUGH, 0, 300_001, 300_050);
    expect(pacing.pace).toMatchObject({ tolerateMs: 5_000, hasNotHelped: false });
  });

  it('after which half of the answers are busy says nothing: there is more demand, or less capacity', () => {
    const pacing = cutTwiceInVain();
    cut(pacing, 20_000);
    answer(pacing, ENOUGH, 50, 20_001, 20_050);
    expect([hasLearnedRate(pacing.pace), pacing.pace.tolerateMs]).toEqual([true, 10_000]);
  });

  it('that leaves the rate far above the limit shows nothing: the service still refuses many', () => {
    const pacing = new Pacing().issued(0, 300).sent(500, 100);
    while (!hasLearnedRate(pacing.pace)) pacing.busy(1_000);
    expect(pacing.pace.shareBefore).toBe(0);
  });
});

describe('503s', () => {
  const failed = (pace: Pace, owner: string, nowMs: number) => paceFailed(pace, owner, 503, nowMs, nowMs);
  /** An owner got a 503 at second 10, and a token at second 14, for a request that was sent so long after the 503. */
  const servedAfter = (ms: number) => {
    const { pace } = new Pacing().sent(0, 100);
    failed(pace, 'late', 10_000);
    paceIssued(pace, 'late', 10_000 + ms, 14_000);
    return pace;
  };
  const isCut = (pace: Pace, nowMs: number) => {
    for (let owner = 0; owner < 20; owner++) failed(pace, `owner ${owner}`, nowMs);
    return hasLearnedRate(pace);
  };

  it('that some owners get again and again cut no rate', () => {
    const { pace } = new Pacing().sent(0, 100);
    for (let n = 0; n < 1_000; n++) failed(pace, `${n % 300}`, n);
    expect([hasLearnedRate(pace), pace.unavailable.size]).toEqual([false, 256]);
  });

  it.each([
    [-1, false],
    [0, true],
    [500, true],
    [501, false],
  ])('count as 429s if a request sent %i ms after one gets a token, whatever its latency: %s', (ms, expected) => {
    expect(isCut(servedAfter(ms), 14_100)).toBe(expected);
  });

  it('count as 429s only if an owner that got one is served, not one that failed otherwise', () => {
    const { pace } = new Pacing().sent(0, 100);
    for (const busy of [429, undefined] as const) paceFailed(pace, 'late', busy, 10_000, 10_000);
    paceIssued(pace, 'late', 10_100, 10_200);
    expect(isCut(pace, 10_300)).toBe(false);
  });

  it('count as 429s for half a second after that', () => {
    expect([isCut(servedAfter(100), 14_499), isCut(servedAfter(100), 14_500)]).toEqual([true, false]);
  });

  it('of a forgotten owner are forgotten', () => {
    const pace = servedAfter(501);
    failed(pace, 'late', 15_000);
    paceForgotten(pace, 'late');
    expect(pace.unavailable.size).toBe(0);
  });
});
