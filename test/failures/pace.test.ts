import { describe, expect, it } from 'vitest';
import {
  initialPace,
  isPaced,
  type Pace,
  paceFailed,
  paceIssued,
  paceRestarted,
  paceSent,
  paceStat,
} from '../../src/failures/pace.ts';

/** A pace whose events happen at given times. Each 429 is of another owner unless it is named. */
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
    for (let n = 0; n < count; n++) paceIssued(this.pace, `served ${n}`, nowMs);
    return this;
  }

  busy(nowMs: number, count = 1): this {
    for (let n = 0; n < count; n++) paceFailed(this.pace, `owner ${this.#owners++}`, 429, nowMs);
    return this;
  }

  refused(nowMs: number, count = 1): this {
    for (let n = 0; n < count; n++) paceFailed(this.pace, 'refused', undefined, nowMs);
    return this;
  }
}

/** The share of 429s after four in a row. */
const SHARE = 1 - 0.95 ** 4;
/** Cuts at a rate that was sent, less the share. */
const less = (perSecond: number) => expect.closeTo(perSecond * (1 - SHARE), 6);

describe('the quota', () => {
  it('spaces requests evenly from the first one on, and saves nothing up', () => {
    const pacing = new Pacing(50);
    expect(isPaced(pacing.pace)).toBe(false);
    expect(pacing.sent(1_000).pace.nextStartMs).toBe(1_020);
    expect(pacing.sent(1_000).pace.nextStartMs).toBe(1_040);
    expect(pacing.sent(5_000).pace.nextStartMs).toBe(5_020);
  });

  it('there is no quota by default: any number of requests may start at once', () => {
    expect(new Pacing().sent(1_000, 100).pace.nextStartMs).toBe(1_000);
    expect(initialPace().nextStartMs).toBeLessThan(0);
  });

  it('binds where the learned rate is higher, and the learned rate where that is lower', () => {
    expect(new Pacing(10).sent(0, 100).busy(500, 4).sent(600).pace.nextStartMs).toBe(100 * 100 + 100);
    const { pace } = new Pacing(1_000).sent(0, 100).busy(500, 4);
    pace.nextStartMs = 0;
    paceSent(pace, 600);
    expect(pace.nextStartMs).toEqual(expect.closeTo(600 + 1_000 / pace.perSecond));
  });
});

describe('the rate', () => {
  it.each([
    ['three 429s in a row', () => new Pacing().sent(0, 100).busy(500, 3)],
    [
      'a 429 in six',
      () => {
        const pacing = new Pacing().sent(0, 100);
        for (let n = 0; n < 500; n++) pacing.issued(500 + 700 * n, 7).busy(500 + 700 * n);
        return pacing;
      },
    ],
    [
      'any number of 429s of one owner',
      () => {
        const pacing = new Pacing().sent(0, 100);
        for (let n = 0; n < 50; n++) paceFailed(pacing.pace, 'one', 429, 500);
        return pacing;
      },
    ],
    ['any number of other failures', () => new Pacing().sent(0, 100).refused(500, 50)],
  ])('is not cut for %s', (_, pacing) => {
    expect(isPaced(pacing().pace)).toBe(false);
  });

  it('a 429 of an owner counts again once another owner had one', () => {
    const pacing = new Pacing().sent(0, 100);
    for (const owner of ['a', 'b', 'a', 'b']) paceFailed(pacing.pace, owner, 429, 500);
    expect(isPaced(pacing.pace)).toBe(true);
  });

  it.each([
    ['of less than 200 ms counts as one of 200 ms', 100, [[0, 100]], 500],
    ['of half a second', 500, [[0, 100]], 200],
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
      'after a silence of two seconds begins anew',
      2_500,
      [
        [0, 100],
        [2_400, 30],
      ],
      150,
    ],
    [
      'is that of the last seconds only',
      2_250,
      [
        [0, 100],
        [1_100, 40],
        [2_100, 20],
      ],
      20 + 0.75 * 40,
    ],
  ] as const)(
    'is cut at four 429s in a row to what was sent, less their share: a burst %s',
    (_, nowMs, bursts, perSecond) => {
      const pacing = new Pacing();
      for (const [atMs, count] of bursts) pacing.sent(atMs, count);
      pacing.busy(nowMs, 4);
      expect(pacing.pace.perSecond).toEqual(perSecond === undefined ? 5 : less(perSecond));
      expect([pacing.pace.cutAtMs, pacing.pace.busyShare]).toEqual([nowMs, 0]);
    },
  );

  it('is cut again after half a second, by the share of 429s, and never below five a second', () => {
    const pacing = new Pacing().sent(0, 100).busy(500, 4);
    const first = pacing.pace.perSecond;
    expect(pacing.busy(999, 40).pace.perSecond).toBe(first);
    expect(pacing.busy(1_000).pace.perSecond).toEqual(expect.closeTo(100 * 0.95 ** 41, 6));
    for (let nowMs = 1_500; nowMs < 10_000; nowMs += 500) pacing.sent(nowMs, 10).busy(nowMs, 40);
    expect(pacing.pace.perSecond).toBe(5);
  });

  it('is cut from the learned one where less than that was sent', () => {
    const pacing = new Pacing().sent(0, 100).busy(500, 4).sent(900, 200);
    expect(pacing.busy(1_000, 4).pace.perSecond).toEqual(expect.closeTo(200 * (1 - SHARE) ** 2, 6));
  });

  it.each([
    ['right then', 1_000, 0.9 * 80],
    ['two seconds later', 3_000, 0.9 * 80 * 0.9 ** 2],
    ['a minute later', 61_000, 5],
  ])('is not cut below nine tenths of the best rate of tokens, which fades: %s', (_, nowMs, expected) => {
    const pacing = new Pacing().issued(500).issued(1_000, 79).sent(nowMs).busy(nowMs, 40);
    expect(pacing.pace.perSecond).toEqual(expect.closeTo(expected, 6));
  });

  it('the best rate of tokens is kept while later rates are lower', () => {
    const { pace } = new Pacing().issued(0, 80).issued(2_100, 3);
    expect(pace).toMatchObject({ bestPerSecond: 80, bestAtMs: 0 });
  });

  it('tokens issued within less than a second count as those of a whole second', () => {
    expect(new Pacing().issued(0, 80).issued(100, 20).pace).toMatchObject({ bestPerSecond: 100, bestAtMs: 100 });
  });

  it.each([
    ['tokens', (pacing: Pacing, nowMs: number) => pacing.issued(nowMs)],
    ['other failures', (pacing: Pacing, nowMs: number) => pacing.refused(nowMs)],
  ])('rises by a tenth each second while there are %s, without a jump after a silence', (_, answer) => {
    const pacing = new Pacing().sent(0, 100).busy(500, 4);
    const cut = pacing.pace.perSecond;
    answer(answer(pacing, 1_000), 1_500);
    expect(pacing.pace.perSecond).toEqual(expect.closeTo(cut * 1.1, 6));
    answer(pacing, 9_500);
    expect(pacing.pace.perSecond).toEqual(expect.closeTo(cut * 1.1 ** 2, 6));
    expect(pacing.pace.raisedAtMs).toBe(9_500);
  });

  it('does not rise with a 429', () => {
    const pacing = new Pacing().sent(0, 100).busy(500, 4);
    const cut = pacing.pace.perSecond;
    expect(pacing.busy(900).pace.perSecond).toBe(cut);
  });

  it('is forgotten once a minute has passed since the last cut', () => {
    const pacing = new Pacing().sent(0, 100).busy(500, 4);
    expect(isPaced(pacing.sent(60_500).pace)).toBe(true);
    expect(isPaced(pacing.sent(60_501).pace)).toBe(false);
    expect(pacing.sent(70_000).pace.nextStartMs).toBe(70_000);
  });

  it('is forgotten with its share of 429s where it was learned from an outage', () => {
    const pacing = new Pacing(20).sent(0, 100).busy(500, 6);
    paceRestarted(pacing.pace);
    expect(pacing.pace).toMatchObject({ busyShare: 0, quotaPerSecond: 20, perSecond: Number.POSITIVE_INFINITY });
    // The spacing of the quota goes on.
    expect(pacing.sent(600).pace.nextStartMs).toBe(5_050);
    const free = new Pacing().sent(0, 100).busy(500, 6).sent(500, 10_000);
    paceRestarted(free.pace);
    expect(free.sent(600).pace.nextStartMs).toBe(600);
  });
});

it.each([
  [undefined, Number.POSITIVE_INFINITY, 0, undefined],
  [7, Number.POSITIVE_INFINITY, 0, { perSecond: 7, reason: 'quota' }],
  [undefined, 20, 60_000, { perSecond: 20, reason: 'overload' }],
  [undefined, 20, 60_001, undefined],
  [7, 20, 0, { perSecond: 7, reason: 'quota' }],
  [30, 20, 0, { perSecond: 20, reason: 'overload' }],
] as const)(
  'the pace that is reported is the lower one of a quota of %s and a learned rate of %d, after %d ms',
  (quota, learned, ageMs, expected) => {
    const pace: Pace = { ...initialPace(quota), perSecond: learned, cutAtMs: 0 };
    expect(paceStat(pace, ageMs)).toEqual(expected);
  },
);

describe('503s', () => {
  const ISSUED = 7;
  /** In each second, some owners get a 503 and seven a token; afterwards an owner that got one is served. */
  const seconds = (busyEach: number, servedAfterMs = 1_000) => {
    const { pace } = new Pacing().sent(0, 100);
    for (let second = 0; second < 10; second++) {
      const nowMs = 1_000 * second;
      for (let n = 0; n < busyEach; n++) paceFailed(pace, `${second} ${n}`, 503, nowMs);
      for (let n = 0; n < ISSUED; n++) paceIssued(pace, 'well', nowMs);
    }
    paceFailed(pace, 'late', 503, 10_000);
    paceIssued(pace, 'late', 10_000 + servedAfterMs);
    return pace;
  };
  const isCut = (pace: Pace, nowMs: number) => {
    for (const owner of 'abcd') paceFailed(pace, owner, 503, nowMs);
    return isPaced(pace);
  };

  it('that some owners get again and again cut no rate', () => {
    const { pace } = new Pacing().sent(0, 100);
    for (let n = 0; n < 1_000; n++) paceFailed(pace, `${n % 300}`, 503, n);
    expect([isPaced(pace), pace.unavailable.size]).toEqual([false, 256]);
  });

  it.each([
    ['many, and an owner is served after one', seconds(9), true],
    ['few', seconds(1), false],
    ['many, and an owner is served long after one', seconds(9, 2_001), false],
  ])('count as 429s if they are %s', (_, pace, expected) => {
    expect(isCut(pace, 15_000)).toBe(expected);
  });

  it('count as 429s for five seconds after that', () => {
    expect([isCut(seconds(9), 15_999), isCut(seconds(9), 16_000)]).toEqual([true, false]);
  });
});
