/**
 * The request journal: every request to the sandbox with its owner and outcome. It holds ids and fingerprints, never a
 * secret, and nothing of a body, header or path that a client made up.
 */

import { Timeline } from '../../../page-engine/timeline.ts';
import { checked } from '../world/schema.ts';
import {
  FILTER,
  type LedgerEntry,
  type LedgerFacts,
  type LedgerFilter,
  type LedgerSummary,
  type Outcome,
  type SandboxLedger,
} from './ledger-entry.ts';
import { markOf } from './marks.ts';
import { matches, Tallies } from './tallies.ts';

/** Follows the requests of a scenario as they begin and end. */
export interface LedgerObserver {
  begun(entry: Readonly<LedgerEntry>): void;
  ended(entry: Readonly<LedgerEntry>): void;
}

/** Requests that the portal draws are kept apart, so that calls to /echo cannot displace them. */
const DRAWN_KEPT = 50_000;

/** Four hours, the longest window of the portal. */
const KEPT_SECONDS = 4 * 3600;

/** The last requests in full, and exact counts of all of them. */
export class Ledger implements SandboxLedger {
  readonly #entries: LedgerEntry[] = [];
  readonly #drawn: LedgerEntry[] = [];
  #drawnCount = 0;
  readonly #capacity: number;
  readonly #tallies = new Tallies();
  readonly timeline = new Timeline(KEPT_SECONDS);
  readonly #clock: { now(): number; monotonic(): number };
  #lastId = 0;
  #generation = 0;
  /** Token requests that have begun and not ended. */
  tokensInFlight = 0;
  /** Called whenever an entry was added or changed. */
  onChange: ((entry: Readonly<LedgerEntry>) => void) | undefined;
  observer: LedgerObserver | undefined;

  /** @param capacity how many requests are kept in full. */
  constructor(clock: { now(): number; monotonic(): number }, capacity: number) {
    this.#clock = clock;
    this.#capacity = capacity;
  }

  /** Adds a request that has begun. Of several calls of `close`, the first counts. */
  open(facts: LedgerFacts): OpenEntry {
    const entry: LedgerEntry = {
      id: ++this.#lastId,
      atMs: this.#clock.now(),
      outcome: 'pending',
      wasted: false,
      ...facts,
    };
    const startedMs = this.#clock.monotonic();
    this.#entries[(entry.id - 1) % this.#capacity] = entry;
    const isToken = entry.kind === 'token';
    if (isToken) this.#draw(entry);
    if (isToken) this.tokensInFlight++;
    this.#count(entry, 1);
    this.observer?.begun(entry);
    this.onChange?.(entry);
    const generation = this.#generation;
    let ended = false;
    const note = (outcome: Outcome, changes: Partial<LedgerEntry> | undefined) => {
      const counts = generation === this.#generation;
      if (counts) this.#count(entry, -1);
      // What was a waste when it began stays one, however it ends.
      Object.assign(entry, changes, { wasted: entry.wasted || changes?.wasted === true });
      entry.outcome = outcome;
      if (counts) this.#count(entry, 1);
    };
    const close = (outcome: Outcome, changes?: Partial<LedgerEntry>) => {
      if (ended) return;
      ended = true;
      // Whole microseconds.
      entry.durationMs = Math.max(0, Math.round((this.#clock.monotonic() - startedMs) * 1000) / 1000);
      if (isToken) this.tokensInFlight--;
      note(outcome, changes);
      if (!isToken && outcome !== 'accepted' && generation === this.#generation) this.#draw(entry);
      this.observer?.ended(entry);
      this.onChange?.(entry);
    };
    return { entry, note: (changes) => note(changes.outcome ?? entry.outcome, changes), close };
  }

  /** One request, while it is kept. */
  find(id: number): LedgerEntry | undefined {
    const last = this.#entries[(id - 1) % this.#capacity];
    const entry = last?.id === id ? last : this.#drawn.find((drawn) => drawn.id === id);
    return entry && { ...entry };
  }

  /** The number of owners that a token was requested for. */
  get ownersAsked(): number {
    return this.#tallies.ownersWith({ kind: 'token' });
  }

  count(filter: LedgerFilter = {}): number {
    return this.#tallies.total(checkedFilter(filter));
  }

  get wasted(): number {
    return this.count({ kind: 'token', wasted: true });
  }

  entries(wanted: LedgerFilter = {}): LedgerEntry[] {
    const filter = checkedFilter(wanted);
    const oldest = Math.max(0, this.#lastId - this.#capacity);
    const found: LedgerEntry[] = [];
    for (let index = oldest; index < this.#lastId; index++) {
      const entry = this.#entries[index % this.#capacity];
      if (!entry || (filter.owner !== undefined && entry.owner !== filter.owner)) continue;
      if (matches(entry, filter)) found.push({ ...entry });
    }
    return found;
  }

  /** Token requests, and other requests that failed, from the newest back. */
  *drawn(): Iterable<Readonly<LedgerEntry>> {
    const oldest = Math.max(0, this.#drawnCount - DRAWN_KEPT);
    for (let index = this.#drawnCount - 1; index >= oldest; index--) {
      const entry = this.#drawn[index % DRAWN_KEPT];
      if (entry) yield entry;
    }
  }

  summary(filter: LedgerFilter = {}): LedgerSummary {
    return this.#tallies.summary(checkedFilter(filter));
  }

  clear(): void {
    this.#generation++;
    this.#entries.length = 0;
    this.#drawn.length = 0;
    this.#drawnCount = 0;
    this.#tallies.clear();
    this.timeline.clear();
  }

  #draw(entry: LedgerEntry): void {
    this.#drawn[this.#drawnCount++ % DRAWN_KEPT] = entry;
  }

  #count(entry: LedgerEntry, by: 1 | -1): void {
    this.#tallies.count(entry, by);
    if (entry.kind === 'token') this.timeline.count(entry.atMs, markOf(entry), by);
  }
}

/** Throws for an unknown name, which would otherwise match every request, or an unknown value, which would match none. */
const checkedFilter = (filter: LedgerFilter): LedgerFilter => checked('ledger filter', FILTER, filter);

/** A request that was added, with what may still be recorded about it. */
export interface OpenEntry {
  readonly entry: Readonly<LedgerEntry>;
  note(changes: Partial<LedgerEntry>): void;
  close(outcome: Outcome, changes?: Partial<LedgerEntry>): void;
}
