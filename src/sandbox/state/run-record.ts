import type { LedgerObserver } from './ledger.ts';
import type { LedgerEntry } from './ledger-entry.ts';

/** Entries kept for a verdict. Counters have no such bound. */
const MAX_ENTRIES = 100_000;

/** A client may not have read an answer yet when it sends the next request. */
const READING_MS = 1000;

/** Records what the integration did during a scenario, for its verdict. */
export class RunRecord implements LedgerObserver {
  readonly #clock: { now(): number };
  /** When the scenario's fault ends; the start where it has none. */
  readonly recoveryAtMs: number;
  /** The token requests that began during the run. */
  readonly requests: LedgerEntry[] = [];
  sent = 0;
  /** Most token requests in flight at once: during the run, and after the fault has ended. */
  peak = 0;
  peakAfterRecovery = 0;
  /** Token requests for an owner that already had one in flight. */
  duplicates = 0;
  /** Token requests that began although a 429 said to wait longer. */
  early = 0;
  /** Calls with another owner's token that began after a resource had flagged that token. */
  wrongTokenReuses = 0;
  readonly #inFlight = new Map<string, number>();
  #total: number;
  #waitFromMs = Number.POSITIVE_INFINITY;
  #waitUntilMs = Number.NEGATIVE_INFINITY;
  /** Tokens that a resource flagged, and when it first did. */
  readonly #flaggedAtMs = new Map<string, number>();

  constructor(clock: { now(): number }, recoveryAtMs: number, inFlight: number) {
    this.#clock = clock;
    this.recoveryAtMs = recoveryAtMs;
    this.#total = inFlight;
  }

  begun(entry: Readonly<LedgerEntry>): void {
    const nowMs = entry.atMs;
    if (entry.kind === 'echo' && nowMs > (this.#flaggedAtMs.get(entry.token ?? '') ?? nowMs) + READING_MS) {
      this.wrongTokenReuses++;
    }
    if (entry.kind !== 'token') return;
    this.sent++;
    if (this.requests.length < MAX_ENTRIES) this.requests.push(entry);
    this.#total++;
    this.peak = Math.max(this.peak, this.#total);
    if (nowMs >= this.recoveryAtMs) this.peakAfterRecovery = Math.max(this.peakAfterRecovery, this.#total);
    if (nowMs > this.#waitFromMs + READING_MS && nowMs < this.#waitUntilMs) this.early++;
    if (entry.owner === undefined) return;
    const before = this.#inFlight.get(entry.owner) ?? 0;
    if (before > 0) this.duplicates++;
    this.#inFlight.set(entry.owner, before + 1);
  }

  ended(entry: Readonly<LedgerEntry>): void {
    const { token } = entry;
    if (entry.kind === 'echo' && entry.outcome === 'wrong_owner' && token !== undefined) {
      if (!this.#flaggedAtMs.has(token)) this.#flaggedAtMs.set(token, this.#clock.now());
    }
    if (entry.kind !== 'token') return;
    this.#total--;
    if (entry.owner !== undefined) {
      this.#inFlight.set(entry.owner, Math.max(0, (this.#inFlight.get(entry.owner) ?? 0) - 1));
    }
    if (entry.outcome === 'rate_limited' && entry.retryAfterSeconds !== undefined) {
      const nowMs = this.#clock.now();
      if (nowMs >= this.#waitUntilMs) this.#waitFromMs = nowMs;
      this.#waitUntilMs = Math.max(this.#waitUntilMs, nowMs + entry.retryAfterSeconds * 1000);
    }
  }

  count(matches: (entry: LedgerEntry) => boolean): number {
    return this.requests.filter(matches).length;
  }

  owners(): number {
    return new Set(this.requests.map(({ owner }) => owner)).size;
  }

  /** How long the slowest token request took, or has taken so far. */
  longestMs(): number {
    const nowMs = this.#clock.now();
    return Math.max(0, ...this.requests.map(({ atMs, durationMs }) => durationMs ?? nowMs - atMs));
  }

  /** Milliseconds from the end of the fault to the first token issued after it. */
  recoveredAfterMs(): number | undefined {
    const first = this.requests.find(({ outcome, atMs }) => outcome === 'issued' && atMs >= this.recoveryAtMs);
    return first && first.atMs - this.recoveryAtMs;
  }
}
