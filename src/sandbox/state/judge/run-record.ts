import type { LedgerObserver } from '../ledger/ledger.ts';
import type { LedgerEntry } from '../ledger/ledger-entry.ts';

/** Requests kept for a verdict. A run that exceeds them has failed long before. */
const MAX_KEPT = 100_000;

/** A client may not have read an answer yet when it sends the next request. */
const READING_MS = 1000;

/** A token request of the run. Its entry changes until the request ends. */
export interface RecordedRequest {
  readonly entry: Readonly<LedgerEntry>;
  /** Token requests in flight when it began, itself included. */
  readonly inFlight: number;
  /** Its owner already had one in flight. */
  readonly isDuplicate: boolean;
  /** A 429 had told this owner to wait longer. */
  readonly isEarly: boolean;
}

/** What is known of a run when it begins. */
export interface RunStart {
  readonly startedAtMs: number;
  /** When the fault ends; the start where there is none. */
  readonly recoveryAtMs: number;
  /** When the run ends. */
  readonly endsAtMs: number;
  /** The owner that the scenario concerns. */
  readonly owner: string | undefined;
  /** The id of the scenario's fault rule. */
  readonly faultId: string;
  /** Owners that had a usable token. */
  readonly ownersCovered: number;
  /** Token requests in flight. */
  readonly inFlight: number;
}

/** Records what the integration does during a scenario. The verdict is computed from it. */
export class RunRecord implements LedgerObserver {
  readonly start: RunStart;
  readonly requests: RecordedRequest[] = [];
  /** Calls to the echo resource, and whether each used a token long after the resource had flagged it. */
  readonly calls: { readonly entry: Readonly<LedgerEntry>; readonly usesFlagged: boolean }[] = [];
  readonly #clock: { now(): number };
  readonly #inFlightOf = new Map<string, number>();
  /** By owner: since when, and until when, it was told to wait. */
  readonly #waits = new Map<string, { fromMs: number; untilMs: number }>();
  readonly #flaggedAtMs = new Map<string, number>();
  #inFlight: number;

  constructor(clock: { now(): number }, start: RunStart) {
    this.#clock = clock;
    this.start = start;
    this.#inFlight = start.inFlight;
  }

  begun(entry: Readonly<LedgerEntry>): void {
    if (entry.kind === 'echo' && this.calls.length < MAX_KEPT) {
      const flaggedAtMs = this.#flaggedAtMs.get(entry.token ?? '') ?? entry.atMs;
      this.calls.push({ entry, usesFlagged: entry.atMs > flaggedAtMs + READING_MS });
    }
    if (entry.kind !== 'token') return;
    const { owner = '', atMs } = entry;
    const before = this.#inFlightOf.get(owner) ?? 0;
    const wait = this.#waits.get(owner);
    this.#inFlightOf.set(owner, before + 1);
    this.#inFlight++;
    if (this.requests.length === MAX_KEPT) return;
    this.requests.push({
      entry,
      inFlight: this.#inFlight,
      isDuplicate: owner !== '' && before > 0,
      isEarly: wait !== undefined && atMs > wait.fromMs + READING_MS && atMs < wait.untilMs,
    });
  }

  ended(entry: Readonly<LedgerEntry>): void {
    const { kind, token = '', owner = '', outcome, retryAfterSeconds } = entry;
    const nowMs = this.#clock.now();
    if (kind === 'echo' && outcome === 'wrong_owner' && !this.#flaggedAtMs.has(token)) {
      this.#flaggedAtMs.set(token, nowMs);
    }
    if (kind !== 'token') return;
    this.#inFlight--;
    this.#inFlightOf.set(owner, Math.max(0, (this.#inFlightOf.get(owner) ?? 0) - 1));
    if (outcome !== 'rate_limited' || retryAfterSeconds === undefined) return;
    const before = this.#waits.get(owner);
    const isWaiting = before !== undefined && nowMs < before.untilMs;
    const untilMs = Math.max(before?.untilMs ?? 0, nowMs + retryAfterSeconds * 1000);
    this.#waits.set(owner, { fromMs: isWaiting ? before.fromMs : nowMs, untilMs });
  }

  /** The requests that the scenario's fault met. */
  faulted(): Readonly<LedgerEntry>[] {
    return this.entries(({ fault }) => fault === this.start.faultId);
  }

  /** The token requests that match, oldest first. */
  entries(matches: (entry: Readonly<LedgerEntry>) => boolean): Readonly<LedgerEntry>[] {
    return this.requests.map(({ entry }) => entry).filter(matches);
  }

  /** The token requests answered with a token that is not their owner's. */
  strayTokens(): Set<string | undefined> {
    return new Set(this.entries(({ outcome }) => outcome === 'wrong_owner').map(({ token }) => token));
  }

  /** How long a request took, or has taken so far. */
  durationOf({ atMs, durationMs }: Readonly<LedgerEntry>): number {
    return durationMs ?? this.#clock.now() - atMs;
  }
}

/** The owners of these requests. */
export const ownersOf = (entries: readonly Readonly<LedgerEntry>[]): Set<string> =>
  new Set(entries.flatMap(({ owner }) => owner ?? []));
