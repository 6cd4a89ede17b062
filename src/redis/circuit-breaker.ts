/**
 * The circuit breaker in front of Redis. Pure: callers report outcomes with their times, and it decides what is sent.
 *
 * | state | an operation asks to be sent | an operation succeeds | an operation fails |
 * |---|---|---|---|
 * | closed | `send` | failures in a row: 0 | the fifth in a row opens it |
 * | open | `refuse`, until the pause ends; then `trial`, which makes it half-open | closes it | no change: it was sent before |
 * | half-open | `await` the trial | closes it | opens it if it is the trial; else no change |
 *
 * An operation fails if it ends in an error. One that only gets no reply in time opens the circuit once no operation has
 * had a reply for 8 s (18 s while the replica has not had a reply yet), and is no failure before that: a slow Redis is
 * still of use to calls that wait for it. A late reply is a success. A trial fails as soon as its reply is late, because
 * others wait for it.
 *
 * The pause doubles with each opening, from half a second to five, less up to half as jitter, so that the replicas of a
 * fleet do not try a recovering Redis in step. After silence the pause is the longest right away. That costs little, since
 * a late reply ends it, and clients that restart their socket timeout with each command notice a dead connection only
 * while nothing is sent. The doubling starts over after half a minute without a failure: a Redis that answers every other
 * operation would otherwise open and close it twice a second.
 */

/**
 * How long Redis may leave operations unanswered before it counts as unavailable. A follower reads its record twice, which
 * a slower Redis could not answer within the default `maxWaitMs`.
 */
export const MAX_SILENCE_MS = 8_000;

/**
 * The limit until the replica's first reply. ioredis waits for two replies before it sends its first command, so this
 * allows three replies of 6 s each.
 */
export const MAX_FIRST_SILENCE_MS = 18_000;

const FAILURES_TO_OPEN = 5;
const PAUSE_MS = { base: 500, cap: 5_000 } as const;
const HEALTHY_AFTER_MS = 30_000;
/** More doublings than any base needs to reach the cap. */
const MAX_DOUBLINGS = 16;

type State =
  | { readonly kind: 'closed'; readonly failuresInARow: number }
  | { readonly kind: 'open'; readonly untilMs: number }
  | { readonly kind: 'half-open' };

/** What an operation may do. The one that gets `trial` must report its outcome as such. */
export type Admission = 'send' | 'trial' | 'await' | 'refuse';

/** A state change to report. */
export type BreakerChange = 'opened' | 'closed';

const CLOSED: State = Object.freeze({ kind: 'closed', failuresInARow: 0 });

export class RedisCircuitBreaker {
  readonly #random: () => number;
  #state: State = CLOSED;
  #openings = 0;
  #lastFailureMs = Number.NEGATIVE_INFINITY;
  #lastSuccessMs = Number.NEGATIVE_INFINITY;
  /** When the first operation was sent that has not been answered, unless one was answered since. */
  #silentSinceMs: number | undefined;

  constructor(random: () => number) {
    this.#random = random;
  }

  get isClosed(): boolean {
    return this.#state.kind === 'closed';
  }

  admit(nowMs: number): Admission {
    switch (this.#state.kind) {
      case 'closed':
        return 'send';
      case 'half-open':
        return 'await';
      case 'open':
        if (nowMs < this.#state.untilMs) return 'refuse';
        this.#state = { kind: 'half-open' };
        return 'trial';
    }
  }

  succeeded(nowMs: number): BreakerChange | undefined {
    const wasClosed = this.isClosed;
    this.#state = CLOSED;
    this.#lastSuccessMs = nowMs;
    this.#silentSinceMs = undefined;
    if (nowMs - this.#lastFailureMs > HEALTHY_AFTER_MS) this.#openings = 0;
    return wasClosed ? undefined : 'closed';
  }

  /** @param isTrial whether this operation was admitted as the trial. */
  failed(nowMs: number, isTrial: boolean): BreakerChange | undefined {
    this.#lastFailureMs = nowMs;
    if (this.#state.kind === 'closed') {
      const failuresInARow = this.#state.failuresInARow + 1;
      if (failuresInARow >= FAILURES_TO_OPEN) return this.#open(nowMs);
      this.#state = { kind: 'closed', failuresInARow };
    } else if (isTrial) {
      this.#open(nowMs);
    }
    return undefined;
  }

  /**
   * No reply came in time.
   *
   * @param maxSilenceMs how long Redis may leave operations unanswered.
   */
  unanswered(sentAtMs: number, nowMs: number, maxSilenceMs: number, isTrial: boolean): BreakerChange | undefined {
    this.#silentSinceMs ??= Math.max(sentAtMs, this.#lastSuccessMs);
    if (!isTrial && (!this.isClosed || nowMs - this.#silentSinceMs < maxSilenceMs)) return undefined;
    // Skips the doubling: the next pause is the longest.
    this.#openings = MAX_DOUBLINGS;
    if (isTrial) return this.failed(nowMs, true);
    this.#lastFailureMs = nowMs;
    return this.#open(nowMs);
  }

  #open(nowMs: number): BreakerChange {
    const pauseMs = Math.min(PAUSE_MS.base * 2 ** this.#openings, PAUSE_MS.cap);
    this.#openings = Math.min(this.#openings + 1, MAX_DOUBLINGS);
    this.#state = { kind: 'open', untilMs: nowMs + pauseMs * (0.5 + this.#random() / 2) };
    return 'opened';
  }
}
