/**
 * The fleet's time as this replica estimates it: its monotonic clock, plus the largest difference to the server's clock seen in
 * the last hour or two. So it does not step back with that clock, as after a failover to a server whose clock is behind, and
 * no token seems younger than it is. Each sample counts from when the reply came, so the estimate is never ahead of the
 * furthest server.
 *
 * While the server is far behind, tokens are dated by the fleet's time. A replica that starts then learns it from the others.
 */

/** Uses the samples of at least this period, and of at most twice that. */
const WINDOW_MS = 3_600_000;

/** A server that is behind by no more than this is trusted. More than clocks drift apart in two windows. */
export const MAX_BEHIND_MS = 10_000;

export class ServerTime {
  readonly #onBehind: (behindMs: number) => void;
  #currentUs = Number.NEGATIVE_INFINITY;
  #previousUs = Number.NEGATIVE_INFINITY;
  #windowEndsMs = Number.NEGATIVE_INFINITY;
  /** The last server's difference. */
  #lastUs = Number.NEGATIVE_INFINITY;
  #reportedMs = 0;

  /** @param onBehind called when the server is behind the fleet's time, and again only if it is even further behind. */
  constructor(onBehind: (behindMs: number) => void = () => {}) {
    this.#onBehind = onBehind;
  }

  /** @param sentMs before the server read its clock. @param nowMs after that. */
  sample(serverUs: number, sentMs: number, nowMs: number): void {
    this.#lastUs = serverUs - Math.ceil(nowMs * 1000);
    this.learn(serverUs, nowMs);
    const behindMs = Math.floor((this.at(sentMs) - serverUs) / 1000);
    if (behindMs <= this.#reportedMs + MAX_BEHIND_MS) return;
    this.#reportedMs = behindMs;
    this.#onBehind(behindMs);
  }

  /** @param fleetUs a time that another replica knows to have passed. */
  learn(fleetUs: number, nowMs: number): void {
    if (nowMs >= this.#windowEndsMs) {
      this.#previousUs = this.#currentUs;
      this.#currentUs = Number.NEGATIVE_INFINITY;
      this.#windowEndsMs = nowMs + WINDOW_MS;
    }
    this.#currentUs = Math.max(this.#currentUs, fleetUs - Math.ceil(nowMs * 1000));
  }

  /** Microseconds at a monotonic moment of this process; 0 before the first sample. */
  at(monotonicMs: number): number {
    return Math.max(0, Math.floor(monotonicMs * 1000) + Math.max(this.#currentUs, this.#previousUs));
  }

  /** The same by the clock of the server that replied last. */
  onServer(monotonicMs: number): number {
    return Math.max(0, Math.floor(monotonicMs * 1000) + this.#lastUs);
  }

  /** The fleet's time when the server's clock shows this, unless the two are close. */
  since(serverUs: number, monotonicMs: number): number {
    const fleetUs = this.at(monotonicMs);
    return fleetUs - serverUs > MAX_BEHIND_MS * 1000 ? fleetUs : serverUs;
  }
}
