/**
 * The circuit breaker in front of Redis. Pure: the link reports what happens with its time, and asks what may be sent.
 *
 * | state | an operation | Redis fails |
 * |---|---|---|
 * | closed | is sent | opens it |
 * | open | is refused, until the pause ends; then it waits for the probe | no change: that operation was sent before |
 * | half-open | waits for the probe | opens it if it is the probe |
 *
 * Redis fails with an error, with a lost connection, or by leaving an operation without a reply for a second. Only the probe
 * closes the circuit: it writes, so reads that succeed while writes fail prove nothing.
 *
 * The pause is 0.5 to 1 s after a lost connection, because the client says when it is back. Otherwise it doubles with
 * each opening, from 0.5 to 4 s, less up to half as jitter, so that the replicas do not probe in step. A client that
 * restarts its socket timeout with each command thus gets a pause in which it notices a dead connection.
 */

/**
 * Why Redis is unavailable. `timeout`: no reply within a second. `connection`: the client is not connected. `read_only`: a
 * replica or a server that accepts no writes. `full`: out of memory. `denied`: missing permissions or credentials.
 * `refused`: any other error of the server. `protocol_error`: a reply that none of the scripts returns.
 *
 * @example
 * ```ts
 * const needsAPerson: RedisTrouble[] = ['denied', 'full'];
 * ```
 */
export type RedisTrouble = 'timeout' | 'connection' | 'read_only' | 'full' | 'denied' | 'refused' | 'protocol_error';

const PAUSE_MS = { base: 1_000, cap: 4_000 } as const;
/** More doublings than the base needs to reach the cap. */
const MAX_DOUBLINGS = 8;
/** The doubling starts over after this long without a failure. */
const HEALTHY_AFTER_MS = 30_000;

export class RedisCircuit {
  readonly #random: () => number;
  /** When the pause ends; undefined while the circuit is closed. */
  #openUntilMs: number | undefined;
  #openings = 0;
  #lastFailureMs = Number.NEGATIVE_INFINITY;

  constructor(random: () => number) {
    this.#random = random;
  }

  get isClosed(): boolean {
    return this.#openUntilMs === undefined;
  }

  /** Whether a probe may be sent. */
  isDue(nowMs: number): boolean {
    return this.#openUntilMs !== undefined && nowMs >= this.#openUntilMs;
  }

  /** Returns whether the circuit was closed. */
  failed(nowMs: number, trouble: RedisTrouble, isProbe: boolean): boolean {
    const wasClosed = this.isClosed;
    if (!wasClosed && !isProbe) return false;
    if (nowMs - this.#lastFailureMs > HEALTHY_AFTER_MS) this.#openings = 0;
    this.#lastFailureMs = nowMs;
    const doublings = trouble === 'connection' ? 0 : Math.min(this.#openings++, MAX_DOUBLINGS);
    const pauseMs = Math.min(PAUSE_MS.base * 2 ** doublings, PAUSE_MS.cap);
    this.#openUntilMs = nowMs + pauseMs * (0.5 + this.#random() / 2);
    return wasClosed;
  }

  /** The probe had a reply in time. */
  close(): void {
    this.#openUntilMs = undefined;
  }
}
