/** What the ledger holds: one entry per request, with ids and fingerprints, never a secret. */

import { boolean, maybe, object, oneOf, string } from '../world/schema.ts';

/**
 * What a request was for: a token, the echo resource, or any other path.
 *
 * @example
 * ```ts
 * const kind: LedgerKind = 'token';
 * console.log(sandbox.ledger.count({ kind })); // → 0
 * ```
 */
export type LedgerKind = 'token' | 'echo' | 'other';

/** All kinds. */
export const KINDS: readonly LedgerKind[] = ['token', 'echo', 'other'];

/**
 * How a request ended. `issued`, `accepted`: successfully. `refused`: a 4xx of the token plane. `rejected`: a 401 of a
 * resource. `wrong_owner`: the client expected another owner, or got another owner's token. `rate_limited`: 429.
 * `server_error`: 5xx. `bad_answer`: a complete but unusable answer. `socket_fault`: no complete answer. `aborted`: the
 * client closed first. `not_found`: no such route. `pending`: not ended.
 *
 * @example
 * ```ts
 * const outcome: Outcome = 'issued';
 * await registry.getToken(accessKey);
 * console.log(sandbox.ledger.count({ outcome })); // → 1
 * ```
 */
export type Outcome =
  | 'issued'
  | 'accepted'
  | 'refused'
  | 'rejected'
  | 'wrong_owner'
  | 'rate_limited'
  | 'server_error'
  | 'bad_answer'
  | 'socket_fault'
  | 'aborted'
  | 'not_found'
  | 'pending';

/** All outcomes. */
export const OUTCOMES: readonly Outcome[] = [
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
];

/**
 * One request in the ledger.
 *
 * @example
 * ```ts
 * await registry.getToken(accessKey);
 * const [entry]: LedgerEntry[] = sandbox.ledger.entries();
 * console.log(entry?.kind, entry?.outcome, entry?.status); // → token issued 200
 * ```
 */
export interface LedgerEntry {
  /** Counted from 1. */
  readonly id: number;
  /** What it was for. */
  readonly kind: LedgerKind;
  /** Epoch ms by the sandbox's clock: when the request had been read. */
  readonly atMs: number;
  /** From then until the answer was sent, by the same clock. */
  durationMs?: number;
  /** The HTTP method. */
  readonly method: string;
  /** The owner's id, if the access key or token is known. */
  readonly owner?: string;
  /** Fingerprint of the access key in the request, known or not. */
  readonly accessKey?: string;
  /** Fingerprint of the issued or presented token. */
  token?: string;
  /** Epoch ms: when that token expires. */
  tokenExpiresAtMs?: number;
  /** How it ended. */
  outcome: Outcome;
  /** The HTTP status of the answer. */
  status?: number;
  /** The `error` of the answer. */
  error?: string;
  /** Why the request was refused, in words. Names fields of the request, never a value. */
  description?: string;
  /** The field of the request that the error names. */
  field?: string;
  /** The seconds of `Retry-After`, where the answer had one. */
  retryAfterSeconds?: number;
  /** The id of the fault rule that was applied. */
  fault?: string;
  /** Its kind. */
  faultKind?: string;
  /**
   * The owner already had a good token (delivered, not revoked, not rejected, more than half of its lifetime left) when
   * the request began or was answered. However it ended.
   */
  wasted: boolean;
}

/** What is known of a request when it begins. */
export type LedgerFacts = Pick<LedgerEntry, 'kind' | 'method' | 'owner' | 'accessKey'> &
  Partial<Pick<LedgerEntry, 'token' | 'tokenExpiresAtMs' | 'wasted'>>;

/**
 * Selects requests. An absent member matches all; an unknown member or value is refused.
 *
 * @example
 * ```ts
 * const filter: LedgerFilter = { kind: 'token', wasted: true };
 * console.log(sandbox.ledger.count(filter)); // → 0
 * ```
 */
export interface LedgerFilter {
  /** What the request was for. */
  kind?: LedgerKind;
  /** An owner's id. */
  owner?: string;
  /** How the request ended. */
  outcome?: Outcome;
  /** Whether the owner already had a good token. */
  wasted?: boolean;
}

/** What a {@link LedgerFilter} may hold. */
export const FILTER = object({
  kind: maybe(oneOf(KINDS)),
  owner: maybe(string),
  outcome: maybe(oneOf(OUTCOMES)),
  wasted: maybe(boolean),
});

/**
 * Counts of requests.
 *
 * @example
 * ```ts
 * await registry.getToken(accessKey);
 * const { ownersServed, byOutcome }: LedgerSummary = sandbox.ledger.summary();
 * console.log(ownersServed, byOutcome.issued); // → 1 1
 * ```
 */
export interface LedgerSummary {
  /** All requests. */
  total: number;
  /** Token requests for owners that already had a good token. */
  wasted: number;
  /** Owners that got at least one token. */
  ownersServed: number;
  /** Requests by outcome; an absent one has none. */
  byOutcome: Partial<Record<Outcome, number>>;
}

/**
 * The request journal of a sandbox.
 *
 * @example
 * ```ts
 * const { ledger }: { ledger: SandboxLedger } = sandbox;
 * await Promise.all([registry.getToken(accessKey), registry.getToken(accessKey)]);
 * console.log(ledger.count({ kind: 'token' }), ledger.wasted); // → 1 0
 * ```
 */
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
