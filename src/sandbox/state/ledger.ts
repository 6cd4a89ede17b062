/**
 * What was asked of the sandbox, by whom, with what outcome. It holds ids and fingerprints, never a secret and nothing
 * of a body, a header or an address that a caller made up.
 */

export const KINDS = ['token', 'echo', 'other'] as const;

export type LedgerKind = (typeof KINDS)[number];

/**
 * How a request ended. `issued`, `accepted`: as asked. `refused`: the token plane's 4xx. `rejected`: a resource's 401.
 * `wrong_owner`: the caller expected another owner, or was given another owner's token. `rate_limited`: 429.
 * `server_error`: 5xx. `bad_answer`: an answer that cannot be used. `socket_fault`: no whole answer. `aborted`: the
 * caller left first. `not_found`: no such route. `pending`: not over.
 */
export const OUTCOMES = [
  'issued',
  'accepted',
  'refused',
  'rejected',
  'wrong_owner',
  'rate_limited',
  'server_error',
  'bad_answer',
  'socket_fault',
  'aborted',
  'not_found',
  'pending',
] as const;

export type Outcome = (typeof OUTCOMES)[number];

export interface LedgerEntry {
  /** Counted from 1. */
  readonly id: number;
  readonly kind: LedgerKind;
  /** Epoch ms by the sandbox's clock, when the request had been read. */
  readonly atMs: number;
  /** From then until the answer was out, by the same clock. */
  durationMs?: number;
  readonly method: string;
  /** The app's id, once its client id was known. */
  readonly app?: string;
  /** The owner's id, once the access key or token was known. */
  readonly owner?: string;
  /** Fingerprint of the access key that was sent, known or not. */
  readonly accessKey?: string;
  /** Fingerprint of the token that was given or presented. */
  token?: string;
  /** Epoch ms: when the token that was given ends. */
  tokenExpiresAtMs?: number;
  outcome: Outcome;
  status?: number;
  /** The `error` of the answer, and the field that it is about. */
  error?: string;
  field?: string;
  /** The id and kind of the fault rule that had a hand in it. */
  fault?: string;
  faultKind?: string;
  /** The owner had a good token already: more than half of its life left, not revoked, not refused. */
  wasted: boolean;
}

/** What a request is known by when it is entered. */
export type LedgerFacts = Pick<LedgerEntry, 'kind' | 'method' | 'app' | 'owner' | 'accessKey'> & { token?: string };

/** Which requests are meant; what is left out may be anything. */
export interface LedgerFilter {
  kind?: LedgerKind;
  /** An owner's id. */
  owner?: string;
  outcome?: Outcome;
  wasted?: boolean;
}

export interface LedgerSummary {
  total: number;
  wasted: number;
  /** Distinct owners that were given a token. */
  ownersServed: number;
  byOutcome: Partial<Record<Outcome, number>>;
}

/** What a user reads in the ledger. */
export interface SandboxLedger {
  /** How many requests there were, over all time or since `clear`. */
  count(filter?: LedgerFilter): number;
  /** Requests for a token that owners with a good token made. */
  readonly wasted: number;
  /** The last requests in full, oldest first. Copies. */
  entries(filter?: LedgerFilter): LedgerEntry[];
  /** Counts by outcome, of all requests or of those that match. */
  summary(filter?: LedgerFilter): LedgerSummary;
  /** Forgets all requests, counts too. Numbers go on; one that is still under way counts for nothing when it ends. */
  clear(): void;
}

/**
 * The last requests in full, and counts of all of them. The counts have no bound in time: they are kept by kind, owner,
 * outcome and waste, which is bounded by how many owners there are.
 */
export class Ledger implements SandboxLedger {
  readonly #entries: LedgerEntry[] = [];
  readonly #capacity: number;
  /** By owner: how many requests of each kind, outcome and waste, as {@link slotOf} orders them. */
  readonly #tallies = new Map<string | undefined, number[]>();
  readonly #clock: { now(): number; monotonic(): number };
  #lastId = 0;
  #generation = 0;
  /** Called whenever an entry was made or has changed. */
  onChange: ((entry: Readonly<LedgerEntry>) => void) | undefined;

  /** @param capacity how many requests are kept in full. */
  constructor(clock: { now(): number; monotonic(): number }, capacity: number) {
    this.#clock = clock;
    this.#capacity = capacity;
  }

  /** Enters a request and returns how to say what became of it; said twice, the first counts. */
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
    this.#count(entry, 1);
    this.onChange?.(entry);
    const generation = this.#generation;
    let over = false;
    const note = (outcome: Outcome, changes: Partial<LedgerEntry> | undefined) => {
      const counts = generation === this.#generation;
      if (counts) this.#count(entry, -1);
      Object.assign(entry, changes);
      entry.outcome = outcome;
      if (counts) this.#count(entry, 1);
    };
    const close = (outcome: Outcome, changes?: Partial<LedgerEntry>) => {
      if (over) return;
      over = true;
      entry.durationMs = Math.max(0, this.#clock.monotonic() - startedMs);
      note(outcome, changes);
      this.onChange?.(entry);
    };
    return { entry, note: (changes) => note(changes.outcome ?? entry.outcome, changes), close };
  }

  /** One request, while it is kept. */
  find(id: number): LedgerEntry | undefined {
    const entry = this.#entries[(id - 1) % this.#capacity];
    return entry?.id === id ? { ...entry } : undefined;
  }

  count(filter: LedgerFilter = {}): number {
    let count = 0;
    this.#eachTally(filter, (_tally, counted) => {
      count += counted;
    });
    return count;
  }

  get wasted(): number {
    return this.count({ kind: 'token', wasted: true });
  }

  entries(filter: LedgerFilter = {}): LedgerEntry[] {
    const oldest = Math.max(0, this.#lastId - this.#capacity);
    const found: LedgerEntry[] = [];
    for (let index = oldest; index < this.#lastId; index++) {
      const entry = this.#entries[index % this.#capacity];
      if (entry && matches(entry, filter)) found.push({ ...entry });
    }
    return found;
  }

  summary(filter: LedgerFilter = {}): LedgerSummary {
    const summary: LedgerSummary = { total: 0, wasted: 0, ownersServed: 0, byOutcome: {} };
    const served = new Set<string>();
    this.#eachTally(filter, ({ owner, outcome, wasted }, counted) => {
      summary.total += counted;
      if (wasted) summary.wasted += counted;
      if (outcome === 'issued' && owner !== undefined) served.add(owner);
      summary.byOutcome[outcome] = (summary.byOutcome[outcome] ?? 0) + counted;
    });
    return { ...summary, ownersServed: served.size };
  }

  clear(): void {
    this.#generation++;
    this.#entries.length = 0;
    this.#tallies.clear();
  }

  #count(entry: LedgerEntry, by: number): void {
    let counts = this.#tallies.get(entry.owner);
    if (!counts) {
      counts = new Array<number>(TALLIES.length).fill(0);
      this.#tallies.set(entry.owner, counts);
    }
    const slot = slotOf(entry);
    counts[slot] = (counts[slot] ?? 0) + by;
  }

  #eachTally(
    filter: LedgerFilter,
    use: (of: TallyFacts & { owner: string | undefined }, counted: number) => void,
  ): void {
    for (const [owner, counts] of this.#tallies) {
      for (const [slot, tally] of TALLIES.entries()) {
        const counted = counts[slot] ?? 0;
        if (counted > 0 && matches({ ...tally, owner }, filter)) use({ ...tally, owner }, counted);
      }
    }
  }
}

type TallyFacts = Required<Pick<LedgerEntry, 'kind' | 'outcome' | 'wasted'>>;

/** Every combination that is counted by itself, in the order of {@link slotOf}. */
const TALLIES: readonly TallyFacts[] = KINDS.flatMap((kind) =>
  OUTCOMES.flatMap((outcome) => [false, true].map((wasted) => ({ kind, outcome, wasted }))),
);

function slotOf({ kind, outcome, wasted }: TallyFacts): number {
  return (KINDS.indexOf(kind) * OUTCOMES.length + OUTCOMES.indexOf(outcome)) * 2 + (wasted ? 1 : 0);
}

/** A request that was entered, and the two things that can be said of it afterwards. */
export interface OpenEntry {
  readonly entry: Readonly<LedgerEntry>;
  note(changes: Partial<LedgerEntry>): void;
  close(outcome: Outcome, changes?: Partial<LedgerEntry>): void;
}

function matches(of: TallyFacts & { owner?: string | undefined }, filter: LedgerFilter): boolean {
  return (
    (filter.kind === undefined || of.kind === filter.kind) &&
    (filter.owner === undefined || of.owner === filter.owner) &&
    (filter.outcome === undefined || of.outcome === filter.outcome) &&
    (filter.wasted === undefined || of.wasted === filter.wasted)
  );
}
