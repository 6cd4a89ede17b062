import { KINDS, type LedgerEntry, type LedgerFilter, type LedgerSummary, OUTCOMES } from './ledger-entry.ts';

/** Counts of all requests by owner, kind, outcome and waste: exact, bounded by the number of owners. */
export class Tallies {
  /** One counter for each of {@link SLOTS}. */
  #all: number[] = SLOTS.map(() => 0);
  readonly #byOwner = new Map<string | undefined, number[]>();

  count(entry: Readonly<LedgerEntry>, by: 1 | -1): void {
    let counts = this.#byOwner.get(entry.owner);
    if (!counts) {
      counts = SLOTS.map(() => 0);
      this.#byOwner.set(entry.owner, counts);
    }
    const slot = slotOf(entry);
    counts[slot] = (counts[slot] ?? 0) + by;
    this.#all[slot] = (this.#all[slot] ?? 0) + by;
  }

  /** The number of requests that match. Takes constant time, unlike a summary, which also counts owners. */
  total(filter: LedgerFilter): number {
    const counts = filter.owner === undefined ? this.#all : (this.#byOwner.get(filter.owner) ?? []);
    return SLOTS.reduce((sum, facts, slot) => (matches(facts, filter) ? sum + (counts[slot] ?? 0) : sum), 0);
  }

  summary(filter: LedgerFilter = {}): LedgerSummary {
    const summary: LedgerSummary = { total: 0, wasted: 0, ownersServed: 0, byOutcome: {} };
    const counts = filter.owner === undefined ? this.#all : (this.#byOwner.get(filter.owner) ?? []);
    for (const [slot, counted] of counts.entries()) {
      const facts = SLOTS[slot];
      if (counted === 0 || !facts || !matches(facts, filter)) continue;
      summary.total += counted;
      if (facts.wasted) summary.wasted += counted;
      summary.byOutcome[facts.outcome] = (summary.byOutcome[facts.outcome] ?? 0) + counted;
    }
    return {
      ...summary,
      ownersServed: summary.byOutcome.issued ? this.ownersWith({ ...filter, outcome: 'issued' }) : 0,
    };
  }

  /** The number of known owners with such requests. */
  ownersWith(filter: LedgerFilter): number {
    const slots = SLOTS.flatMap((facts, slot) => (matches(facts, filter) ? slot : []));
    const owners = filter.owner === undefined ? this.#byOwner.keys() : [filter.owner];
    let found = 0;
    for (const owner of owners) {
      if (owner !== undefined && slots.some((slot) => this.#byOwner.get(owner)?.[slot])) found++;
    }
    return found;
  }

  clear(): void {
    this.#all = SLOTS.map(() => 0);
    this.#byOwner.clear();
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

/** Whether a request fits a filter, its owner aside. */
export const matches = (facts: SlotFacts, filter: LedgerFilter): boolean =>
  (filter.kind === undefined || facts.kind === filter.kind) &&
  (filter.outcome === undefined || facts.outcome === filter.outcome) &&
  (filter.wasted === undefined || facts.wasted === filter.wasted);
