/**
 * The server's time as this replica estimates it: its monotonic clock, plus the largest difference seen in the last
 * hour or two. A failover to a server whose clock is behind therefore makes no token younger. Each sample counts from when
 * the reply came, so the estimate is never ahead of the furthest server.
 */

/** Uses the samples of at least this period, and of at most twice that. */
const WINDOW_MS = 3_600_000;

export class ServerTime {
  #currentUs = Number.NEGATIVE_INFINITY;
  #previousUs = Number.NEGATIVE_INFINITY;
  #windowEndsMs = Number.NEGATIVE_INFINITY;

  sample(serverUs: number, nowMs: number): void {
    if (nowMs >= this.#windowEndsMs) {
      this.#previousUs = this.#currentUs;
      this.#currentUs = Number.NEGATIVE_INFINITY;
      this.#windowEndsMs = nowMs + WINDOW_MS;
    }
    this.#currentUs = Math.max(this.#currentUs, serverUs - Math.ceil(nowMs * 1000));
  }

  /** Microseconds at a monotonic moment of this process; 0 before the first sample. */
  at(monotonicMs: number): number {
    return Math.max(0, Math.floor(monotonicMs * 1000) + Math.max(this.#currentUs, this.#previousUs));
  }
}
