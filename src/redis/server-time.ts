/**
 * The server's time as this replica estimates it: its monotonic clock, plus the largest difference seen in the last
 * hour or two. A failover to a server whose clock is behind therefore makes no token younger. Each sample counts from when
 * the reply came, so the estimate is never ahead of the furthest server.
 */

/** Uses the samples of at least this period, and of at most twice that. */
const WINDOW_MS = 3_600_000;

export class ServerTime {
  #currentUs: number | undefined;
  #previousUs = Number.NEGATIVE_INFINITY;
  #windowEndsMs = 0;

  sample(serverUs: number, nowMs: number): void {
    const aheadUs = serverUs - Math.ceil(nowMs * 1000);
    if (this.#currentUs === undefined || nowMs >= this.#windowEndsMs) {
      this.#previousUs = this.#currentUs ?? aheadUs;
      this.#currentUs = aheadUs;
      this.#windowEndsMs = nowMs + WINDOW_MS;
    }
    this.#currentUs = Math.max(this.#currentUs, aheadUs);
  }

  /** Microseconds at a monotonic moment of this process; undefined before the first sample. */
  at(monotonicMs: number): number | undefined {
    if (this.#currentUs === undefined) return undefined;
    return Math.floor(monotonicMs * 1000) + Math.max(this.#currentUs, this.#previousUs);
  }
}
