/** What the ledger holds: one entry per request, with ids and fingerprints, never a secret. */

export const KINDS = ['token', 'echo', 'other'] as const;

export type LedgerKind = (typeof KINDS)[number];

/**
 * How a request ended. `issued`, `accepted`: successfully. `refused`: a 4xx of the token plane. `rejected`: a 401 of a
 * resource. `wrong_owner`: the client expected another owner, or got another owner's token. `rate_limited`: 429.
 * `server_error`: 5xx. `bad_answer`: a complete but unusable answer. `socket_fault`: no complete answer. `aborted`: the
 * client closed first. `not_found`: no such route. `pending`: not ended.
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
  /** Epoch ms by the sandbox's clock: when the request had been read. */
  readonly atMs: number;
  /** From then until the answer was sent, by the same clock. */
  durationMs?: number;
  readonly method: string;
  /** The app's id, if the client id is known. */
  readonly app?: string;
  /** The owner's id, if the access key or token is known. */
  readonly owner?: string;
  /** Fingerprint of the access key in the request, known or not. */
  readonly accessKey?: string;
  /** Fingerprint of the issued or presented token. */
  token?: string;
  /** Epoch ms: when the issued token expires. */
  tokenExpiresAtMs?: number;
  outcome: Outcome;
  status?: number;
  /** The `error` of the answer, and the field it names. */
  error?: string;
  field?: string;
  /** The seconds of `Retry-After`, where the answer had one. */
  retryAfterSeconds?: number;
  /** The id and kind of the fault rule that was applied. */
  fault?: string;
  faultKind?: string;
  /** The owner already had a good token: delivered, not revoked, not rejected, more than half of its lifetime left. */
  wasted: boolean;
}

/** What is known of a request when it begins. */
export type LedgerFacts = Pick<LedgerEntry, 'kind' | 'method' | 'app' | 'owner' | 'accessKey'> & { token?: string };

/** Selects requests. An absent member matches all. */
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
  /** Owners that got at least one token. */
  ownersServed: number;
  byOutcome: Partial<Record<Outcome, number>>;
}

/** The request journal of a sandbox. */
export interface SandboxLedger {
  /** Number of requests since the start or the last `clear`. */
  count(filter?: LedgerFilter): number;
  /** Token requests for owners that already had a good token. */
  readonly wasted: number;
  /** The last requests in full, oldest first, as copies. */
  entries(filter?: LedgerFilter): LedgerEntry[];
  /** Counts by outcome, of all requests or of those that match. */
  summary(filter?: LedgerFilter): LedgerSummary;
  /** Deletes all entries and counts. Ids continue; requests still in flight are not counted when they end. */
  clear(): void;
}
