import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../../src/sandbox/state/world/virtual-clock.ts';

const frozen = () => {
  const clock = new VirtualClock();
  clock.freeze();
  return clock;
};

describe('the virtual clock', () => {
  it('runs with the machine until it is frozen, and on from there when resumed', async () => {
    const clock = new VirtualClock();
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1000);
    clock.freeze();
    const held = [clock.now(), clock.monotonic()];
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect([clock.now(), clock.monotonic(), clock.frozen]).toEqual([...held, true]);
    clock.advance(10_000_000);
    clock.resume();
    expect(clock.frozen).toBe(false);
    expect(clock.now() - Date.now()).toBeGreaterThan(9_000_000);
    expect(clock.monotonic()).toBeGreaterThanOrEqual((held[1] ?? 0) + 10_000_000);
  });

  it('runs what falls due, each at its own moment, in order', () => {
    const clock = frozen();
    const startMs = clock.monotonic();
    const ran: [string, number][] = [];
    const note = (name: string) => () => ran.push([name, clock.monotonic() - startMs]);
    clock.setTimeout(note('late'), 300);
    clock.setTimeout(() => {
      note('early')();
      clock.setTimeout(note('nested'), 50);
    }, 100);
    clock.setTimeout(note('never'), 10_000);
    clock.setTimeout(note('cancelled'), 200)();
    clock.advance(400);
    expect(ran).toEqual([
      ['early', 100],
      ['nested', 150],
      ['late', 300],
    ]);
    expect(clock.monotonic() - startMs).toBe(400);
  });

  it('sets real timers only while it runs', async () => {
    const clock = frozen();
    let fired = 0;
    const done = new Promise<void>((resolve) => {
      clock.setTimeout(() => {
        fired++;
        resolve();
      }, 1);
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(fired).toBe(0);
    clock.resume();
    await done;
    expect(fired).toBe(1);
  });

  it('goes on though a timer throws', () => {
    const clock = frozen();
    const startMs = clock.monotonic();
    clock.setTimeout(() => {
      throw new Error('mine');
    }, 1);
    expect(() => clock.advance(10)).toThrow('mine');
    expect(clock.monotonic() - startMs).toBe(10);
    clock.advance(10);
  });

  it('refuses to go back, to NaN, and from within a timer', () => {
    const clock = frozen();
    expect(() => clock.advance(-1)).toThrow(RangeError);
    expect(() => clock.advance(Number.NaN)).toThrow(RangeError);
    clock.setTimeout(() => clock.advance(1), 1);
    expect(() => clock.advance(2)).toThrow('already');
  });
});
