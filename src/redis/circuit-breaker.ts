/**
 * Whether Redis is worth asking. Pure: it is told what happened and when, and says what to do.
 *
 * Closed, every operation goes out. After five failures in a row it opens: none goes out for a pause that doubles with
 * each opening, from half a second to ten. Then one operation is the trial, and what becomes of it closes or reopens.
 * The doubling is forgotten only after a while without failure, so that a Redis which answers every other operation
 * does not open and close twice a second.
 */

const FAILURES_TO_OPEN = 5;
const PAUSE_MS = { base: 500, cap: 10_000 } as const;
const HEALTHY_AFTER_MS = 30_000;

/** A change of state, of which others are told. */
export type BreakerChange = 'opened' | 'closed';

export class Breaker {
  #failures = 0;
  #openings = 0;
  #lastFailureMs = Number.NEGATIVE_INFINITY;
  /** Undefined: closed. */
  #triesAtMs: number | undefined;
  #trying = false;

  get open(): boolean {
    return this.#triesAtMs !== undefined;
  }

  /** Whether an operation may go out now, and whether it is the trial, which {@link Breaker.failed} is to be told. */
  admit(nowMs: number): 'send' | 'trial' | 'refuse' {
    if (this.#triesAtMs === undefined) return 'send';
    if (this.#trying || nowMs < this.#triesAtMs) return 'refuse';
    this.#trying = true;
    return 'trial';
  }

  succeeded(nowMs: number): BreakerChange | undefined {
    this.#failures = 0;
    this.#trying = false;
    if (nowMs - this.#lastFailureMs > HEALTHY_AFTER_MS) this.#openings = 0;
    if (this.#triesAtMs === undefined) return undefined;
    this.#triesAtMs = undefined;
    return 'closed';
  }

  failed(nowMs: number, trial: boolean): BreakerChange | undefined {
    this.#failures++;
    this.#lastFailureMs = nowMs;
    const open = this.#triesAtMs !== undefined;
    // While it is open only the trial counts: operations sent before may fail long after.
    if (open ? !trial : this.#failures < FAILURES_TO_OPEN) return undefined;
    this.#triesAtMs = nowMs + Math.min(PAUSE_MS.base * 2 ** this.#openings, PAUSE_MS.cap);
    this.#openings = Math.min(this.#openings + 1, 16);
    this.#trying = false;
    return open ? undefined : 'opened';
  }
}
