import { expect, it } from 'vitest';
import { ManualClock } from './manual-clock.ts';

/** A clock, and what ran when. */
function recordingClock() {
  const clock = new ManualClock(0);
  const ran: [what: string, atMs: number][] = [];
  const note = (what: string) => () => void ran.push([what, clock.monotonic()]);
  return { clock, ran, note };
}

it.each<[string, (clock: ManualClock) => unknown]>([
  ['advance', (clock) => clock.advance(15)],
  ['passUntil', (clock) => clock.passUntil(15)],
])(
  '%s runs timers and other events at their time, and those of one time in the order in which they were scheduled',
  async (...row) => {
    const { clock, ran, note } = recordingClock();
    clock.setTimeout(note('late'), 20);
    clock.at(10, note('first'));
    clock.setTimeout(note('second'), 10);
    clock.setTimeout(note('cancelled'), 5)();
    expect(clock.pendingTimers).toBe(2);
    await row[1](clock);
    expect(ran).toEqual([
      ['first', 10],
      ['second', 10],
    ]);
    expect([clock.monotonic(), clock.now(), clock.pendingTimers, clock.nextDueMs]).toEqual([15, 15, 1, 20]);
  },
);

it('after a standstill, timers run before what has arrived, and promises settle after each event', async () => {
  const { clock, ran, note } = recordingClock();
  clock.at(10, () => clock.standStill(90));
  clock.at(20, () => queueMicrotask(note('a reaction')));
  clock.at(25, note('what came later'));
  clock.setTimeout(note('a timer'), 30);
  await clock.passUntil(200);
  expect(ran).toEqual([
    ['a timer', 100],
    ['a reaction', 100],
    ['what came later', 100],
  ]);
});

it('the timeline follows the wall time forward, and never back', () => {
  const clock = new ManualClock(1_000);
  clock.jumpWall(500);
  clock.jumpWall(-2_000);
  clock.advance(10);
  expect([clock.now(), clock.monotonic(), clock.timelineMs]).toEqual([-490, 10, 510]);
});
