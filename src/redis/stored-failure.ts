/**
 * From an error to the failure that the record stores, and back. A stored failure has a code, a scope and a status, never
 * a message, a body or a secret. It is sealed like a token, together with its generation, its end and the number of
 * failures before it, so nobody else with access to Redis can read, change or forge one.
 *
 * | failure | stored for | backoff |
 * |---|---|---|
 * | of an owner, may succeed later | its owner | 0.25 to 2 s: each replica adds its own, longer backoff to its own attempts |
 * | of an owner, refused | its owner | 1 s to 1 min |
 * | of the client | all | 1 to 30 s, or `Retry-After` |
 * | of the endpoint | all | 0.5 to 4 s, or `Retry-After` |
 */

import { ERROR_CODES, type FailureScope, OwnerTokenError } from '../errors.ts';
import type { Sealer } from './sealing.ts';
import type { SealedFailure } from './shared-record.ts';

interface Backoff {
  readonly baseMs: number;
  readonly capMs: number;
}

const TRANSIENT: Backoff = { baseMs: 250, capMs: 2_000 };
const REFUSED: Backoff = { baseMs: 1_000, capMs: 60_000 };
const OF_ALL: Readonly<Record<'client' | 'endpoint', Backoff>> = {
  client: { baseMs: 1_000, capMs: 30_000 },
  endpoint: { baseMs: 500, capMs: 4_000 },
};
const RETRY_AFTER_MS = { least: 1_000, most: 3_600_000 } as const;
/** More doublings than any base needs to reach its cap. */
const MAX_DOUBLINGS = 16;

/** The longest that a replica applies another replica's failure before it reads the record again. */
const MAX_FOLLOWED_MS = 60_000;

/** As it is sealed. */
interface WireFailure {
  code: string;
  scope?: FailureScope;
  status?: number;
  oauthError?: string;
  /** Generation of the lease under which the request failed. */
  g: number;
  /** Its end, server's time in microseconds. */
  e: number;
  /** Failures in a row, this one included. */
  n: number;
}

/** What a failure is sealed with. */
export interface FailureContext {
  /** The record's name. */
  readonly name: string;
  /** Defined for a failure of the client or the endpoint. */
  readonly scope: 'client' | 'endpoint' | undefined;
  readonly generation: number;
  /** The server's time when the answer came. The backoff counts from there, however late it is stored. */
  readonly answeredAtUs: number;
  /** The ended failure that the record held before, sealed; empty if none. */
  readonly before: string;
  /** Its end, if another record determines it. */
  readonly endsAtUs?: number;
}

export class StoredFailures {
  readonly #sealer: Sealer;
  readonly #random: () => number;
  readonly #onUnreadable: () => void;

  constructor(sealer: Sealer, random: () => number, onUnreadable: () => void) {
    this.#sealer = sealer;
    this.#random = random;
    this.#onUnreadable = onUnreadable;
  }

  /** Undefined only if the sealer refuses. */
  seal(error: OwnerTokenError, context: FailureContext): SealedFailure | undefined {
    const { name, scope, generation, answeredAtUs, before } = context;
    const { code, status, oauthError } = error;
    // Left out where the registry may still escalate it: each replica decides that for itself.
    const stated = scope ?? (OwnerTokenError.escalationOf(error) ? undefined : error.failureScope);
    const n = Math.min((this.#open(name, before)?.n ?? 0) + 1, MAX_DOUBLINGS);
    const endsAtUs = context.endsAtUs ?? Math.floor(answeredAtUs + pauseMsOf(error, scope, n, this.#random) * 1000);
    const wire: WireFailure = {
      code,
      ...(stated && { scope: stated }),
      ...(status !== undefined && { status }),
      ...(oauthError !== undefined && { oauthError }),
      ...{ g: generation, e: endsAtUs, n },
    };
    const sealed = this.#sealer.seal(wire, { kind: 'failure', name });
    return sealed === undefined ? undefined : { sealed, endsAtUs };
  }

  /**
   * The error for a caller that follows a stored failure. Undefined if the failure cannot be decrypted, has ended
   * by its sealed end, or is older than what this caller knows.
   *
   * @param avoid a generation known to be later than the failure, if it is.
   */
  read(name: string, sealed: string, nowUs: number, avoid: number): OwnerTokenError | undefined {
    const failure = this.#open(name, sealed);
    if (!failure) this.#onUnreadable();
    const remainingMs = failure ? (failure.e - nowUs) / 1000 : 0;
    if (!failure || remainingMs <= 0 || failure.g < avoid) return undefined;
    const code = ERROR_CODES.find((known) => known === failure.code);
    if (!code) return undefined;
    const { scope, status, oauthError } = failure;
    const error = new OwnerTokenError(code, "another replica's token request failed and has not been retried yet", {
      ...(scope && { failureScope: scope }),
      ...(status !== undefined && { status }),
      ...(oauthError !== undefined && { oauthError }),
      pauseMs: Math.min(remainingMs, MAX_FOLLOWED_MS),
    });
    return error.failureScope === undefined ? undefined : error;
  }

  scopeOf(name: string, sealed: string): FailureScope | undefined {
    return this.#open(name, sealed)?.scope;
  }

  #open(name: string, sealed: string): WireFailure | undefined {
    const wire = sealed === '' ? undefined : this.#sealer.open(sealed, { kind: 'failure', name });
    // Only a replica with our key could seal it.
    return wire as WireFailure | undefined;
  }
}

/** The error for the replica whose request failed for client or endpoint: its registry pauses until the fleet's next trial. */
export function withFleetPause(error: OwnerTokenError, scope: 'client' | 'endpoint', pauseMs: number): OwnerTokenError {
  const { code, message, status, oauthError, failedAtMs, cause } = error;
  return new OwnerTokenError(code, message, { failureScope: scope, status, oauthError, failedAtMs, cause, pauseMs });
}

/** How long a failure lasts: as long as the service asked for, else the doubled base up to the cap, less up to half of it. */
function pauseMsOf(
  error: OwnerTokenError,
  scope: 'client' | 'endpoint' | undefined,
  count: number,
  random: () => number,
): number {
  const askedMs = error.retryAfterMs;
  if (askedMs !== undefined && !Number.isNaN(askedMs)) {
    return Math.min(Math.max(askedMs, RETRY_AFTER_MS.least), RETRY_AFTER_MS.most);
  }
  const ofOwner = error.retryable ? TRANSIENT : REFUSED;
  const { baseMs, capMs } = scope ? OF_ALL[scope] : ofOwner;
  return Math.min(capMs, baseMs * 2 ** (count - 1)) * (0.5 + random() / 2);
}
