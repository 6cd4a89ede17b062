/**
 * Replaces this process's clocks and timers, before any library is loaded, by ones that can run faster and jump. All
 * libraries see the same time, whatever they read it by; only timers inside Node (of sockets, `fetch` and
 * `AbortSignal.timeout`) stay real.
 */

const RealDate = Date;
const realNow = performance.now.bind(performance);
const realSetTimeout = setTimeout;

let speed = 1;
let sinceMs = realNow();
let monotonicMs = sinceMs;
let wallMs = RealDate.now();

const elapsedMs = () => (realNow() - sinceMs) * speed;
const wallNow = () => Math.floor(wallMs + elapsedMs());

class SteeredDate extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [wallNow()] : args));
  }
  static now() {
    return wallNow();
  }
}

export function install() {
  globalThis.Date = SteeredDate;
  performance.now = () => monotonicMs + elapsedMs();
  globalThis.setTimeout = (fn, ms, ...args) => realSetTimeout(fn, ms / speed, ...args);
}

function settle() {
  [monotonicMs, wallMs] = [monotonicMs + elapsedMs(), wallMs + elapsedMs()];
  sinceMs = realNow();
}

export const clock = {
  realNow,
  now: () => monotonicMs + elapsedMs(),
  /** Both clocks go forward, as time does. */
  advance(ms) {
    settle();
    monotonicMs += ms;
    wallMs += ms;
  },
  /** The same, and libraries that read the clock only once a second get to read it. */
  async pass(ms) {
    this.advance(ms);
    await this.sleep(1_100);
  },
  /** Somebody sets the wall clock. */
  setWall(byMs) {
    settle();
    wallMs += byMs;
  },
  run(times) {
    settle();
    speed = times;
  },
  sleep: (ms) => new Promise((resolve) => realSetTimeout(resolve, ms / speed)),
};
