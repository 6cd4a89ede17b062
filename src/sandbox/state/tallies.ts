import { KINDS, type LedgerEntry, type LedgerFilter, type LedgerSummary, OUTCOMES } from './ledger-entry.ts';

/** Counts of all requests by owner, kind, outcome and waste: exact, bounded by the number of owners. */
export class Tallies {
  /** One counter for each of {@link SLOTS}. */
  #all: number[] = SLOTS.map(() => 0);
  readonly #byOwner = new Map<string | undefined, number[]>();
  #ownersServed = 0;
  /** The owners that a token was requested for. */
  readonly #asked = new Set<string>();

  count(entry: Readonly<LedgerEntry>, by: 1 | -1): void {
    let counts = this.#byOwner.get(entry.owner);
    if (!counts) {
      counts = SLOTS.map(() => 0);
      this.#byOwner.set(entry.owner, counts);
    }
    if (entry.kind === 'token' && entry.owner !== undefined) this.#asked.add(entry.owner);
    const slot = slotOf(entry);
    const servedBefore = isServed(counts);
    counts[slot] = (counts[slot] ?? 0) + by;
    this.#all[slot] = (this.#all[slot] ?? 0) + by;
    if (entry.owner !== undefined && entry.outcome === 'issued') {
      this.#ownersServed += Number(isServed(counts)) - Number(servedBefore);
    }
  }

  /** Takes constant time for any number of requests, except when it counts owners filtered by waste. */
  summary(filter: LedgerFilter = {}): LedgerSummary {
    const summary: LedgerSummary = { total: 0, wasted: 0, ownersServed: 0, byOutcome: {} };
    for (const [slot, counted] of this.#countsOf(filter.owner).entries()) {
      const facts = SLOTS[slot];
      if (counted === 0 || !facts || !matches(facts, filter)) continue;
      summary.total += counted;
      if (facts.wasted) summary.wasted += counted;
      summary.byOutcome[facts.outcome] = (summary.byOutcome[facts.outcome] ?? 0) + counted;
    }
    return { ...summary, ownersServed: summary.byOutcome.issued ? this.#served(filter) : 0 };
  }

  get ownersAsked(): number {
    return this.#asked.size;
  }

  clear(): void {
    this.#asked.clear();
    this.#all = SLOTS.map(() => 0);
    this.#byOwner.clear();
    this.#ownersServed = 0;
  }

  #countsOf(owner: string | undefined): readonly number[] {
    return owner === undefined ? this.#all : (this.#byOwner.get(owner) ?? []);
  }

  #served(filter: LedgerFilter): number {
    if (filter.owner !== undefined) return 1;
    if (filter.wasted === undefined) return this.#ownersServed;
    const { wasted } = filter;
    let served = 0;
    for (const [owner, counts] of this.#byOwner) {
      if (owner !== undefined && counts[slotOf({ kind: 'token', outcome: 'issued', wasted })]) served++;
    }
    return served;
  }
}

type SlotFacts = Required<Pick<LedgerEntry, 'kind' | 'outcome' | 'wasted'>>;

/** Every combination that has a counter, in the order of {@link slotOf}. */
const SLOTS: readonly SlotFacts[] = KINDS.flatMap((kind) =>
  OUTCOMES.flatMap((outcome) => [false, true].map((wasted) => ({ kind, outcome, wasted }))),
);

function slotOf({ kind, outcome, wasted }: SlotFacts): number {
  return (KINDS.indexOf(kind) * OUTCOMES.length + OUTCOMES.indexOf(outcome)) * 2 + (wasted ? 1 : 0);
}

const ISSUED = slotOf({ kind: 'token', outcome: 'issued', wasted: false });

const isServed = (counts: readonly number[]): boolean => !!(counts[ISSUED] || counts[ISSUED + 1]);

const matches = (facts: SlotFacts, filter: LedgerFilter): boolean =>
  (filter.kind === undefined || facts.kind === filter.kind) &&
  (filter.outcome === undefined || facts.outcome === filter.outcome) &&
  (filter.wasted === undefined || facts.wasted === filter.wasted);
