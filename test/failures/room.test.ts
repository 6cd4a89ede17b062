import { describe, expect, it } from 'vitest';
import { growsAtMs, initialRoom, type Room, roomAnswered, roomAt } from '../../src/failures/room.ts';

/** A service whose latency depends on how many requests run at once, and requests that fill the room at any time. */
class Load {
  readonly room: Room;
  nowMs = 0;
  #number = 0;
  readonly #latencyMs: (atOnce: number) => number;

  constructor(latencyMs: (atOnce: number) => number, most = 100) {
    this.#latencyMs = latencyMs;
    this.room = initialRoom(most);
  }

  /** As many answers, one after the other, each to a request sent before the last `size` of them. */
  answers(count: number, given: { share?: number; running?: number; atOnce?: number } = {}): this {
    for (let n = 0; n < count; n++) {
      const { share = 1, running = this.room.size, atOnce = running } = given;
      this.room.lastSent = ++this.#number + this.room.size;
      const isToken = Math.floor((n + 1) * share) > Math.floor(n * share);
      const tookMs = this.#latencyMs(atOnce);
      roomAnswered(this.room, { number: this.#number, tookMs, running, atOnce }, isToken, this.nowMs);
    }
    return this;
  }

  /** The sizes that the room takes in the course of so many answers. */
  sizes(count: number): number[] {
    const sizes = [this.room.size];
    for (let n = 0; n < count; n++) if (this.answers(1).room.size !== sizes.at(-1)) sizes.push(this.room.size);
    return sizes;
  }
}

const steady = () => 50;
/** Each request beyond 32 makes all of them slower by the square. */
const collapsing = (atOnce: number) => 50 * Math.max(1, atOnce / 32) ** 2;

describe('the room', () => {
  it.each([
    [100, 32],
    [8, 8],
  ])('with a concurrency of %d begins at %d', (most, size) => {
    expect(new Load(steady, most).room.size).toBe(size);
  });

  it.each([
    ['nothing was sent', undefined, 0, 5_000, 16],
    ['ten milliseconds have passed', 1_000, 0, 1_010, 17],
    ['five tokens have come and 25 ms have passed', 1_000, 5, 1_025, 23],
    ['as many have passed as it is large', 1_000, 5, 1_110, 32],
  ])('begins slowly: when %s', (_, firstSentMs, issued, nowMs, expected) => {
    const room = { ...initialRoom(100), firstSentMs, issued };
    expect(roomAt(room, nowMs)).toBe(expected);
    expect(growsAtMs(room, nowMs)).toBe(expected === 32 ? Infinity : nowMs + 10);
  });

  it('grows by half as long as that brings more tokens a second, up to the concurrency', () => {
    expect(new Load(steady).sizes(1_000)).toEqual([32, 48, 72, 100]);
  });

  it('does not grow for answers that came while it was not full, or of requests from before its last step', () => {
    expect(new Load(steady).answers(1_000, { running: 31 }).room.size).toBe(32);
    const load = new Load(steady).answers(32);
    expect(load.answers(48).room.size).toBe(48);
  });

  it('goes back after twelve answers if a step brings far fewer tokens', () => {
    const load = new Load(collapsing).answers(32);
    expect(load.room.size).toBe(48);
    expect([load.answers(32 + 11).room.size, load.answers(1).room.size]).toEqual([48, 32]);
  });

  it('goes back after as many answers as it has places if a step brings hardly more tokens', () => {
    const load = new Load((atOnce) => 50 * Math.max(1, atOnce / 33)).answers(32);
    expect([load.answers(32 + 47).room.size, load.answers(1).room.size]).toEqual([48, 32]);
  });

  it('goes back if more requests at once are only refused more often', () => {
    const load = new Load(steady).answers(32);
    expect(load.answers(32 + 48, { share: 0.6 }).room.size).toBe(32);
  });

  it('tries again after five seconds, and then ever more rarely', () => {
    const load = new Load(collapsing);
    const triedAtMs: number[] = [];
    for (; load.nowMs < 300_000; load.nowMs += 1_000) {
      if (load.sizes(200).includes(48)) triedAtMs.push(load.nowMs);
    }
    expect(triedAtMs).toEqual([0, 5_000, 15_000, 35_000, 75_000, 155_000]);
  });

  it('counts requests that are far slower than usual as well', () => {
    const load = new Load(steady).answers(32, { atOnce: 64 });
    expect(load.room.best).toEqual({ size: 32, perMs: 64 / 50 });
  });
});
