/**
 * Converts a leader's error to what its followers learn, and back: a code, a status and how long to wait, never a message,
 * a body or a secret. A stored failure ends one lease and reaches only the calls that waited for that lease. Each registry
 * decides for itself what the failure means for other owners.
 */

import { provesNothing } from '../errors/inconclusive.ts';
import { ERROR_CODES, OwnerTokenError, type OwnerTokenErrorOptions } from '../errors/owner-token-error.ts';
import type { Sealer } from './sealing.ts';

/** The sealed JSON. */
type Wire = { code: string } & Pick<OwnerTokenErrorOptions, 'failureScope' | 'status' | 'oauthError' | 'retryAfterMs'>;

/**
 * Empty for an error that concerns no other replica: a closed registry, a full queue, a process that stood still, and a request
 * that hung, because it may hang in this replica alone.
 *
 * @param isOverdue whether the request took longer than a lease.
 */
export function sealFailure(sealer: Sealer, context: string, thrown: unknown, isOverdue: boolean): string {
  const error = thrown instanceof OwnerTokenError ? thrown : new OwnerTokenError('source_failed', '');
  const { code, status, oauthError, retryAfterMs } = error;
  if (error.failureScope === undefined || provesNothing(error) || (isOverdue && status === undefined)) return '';
  // A scope that the source did not set is left out: each registry decides what the failure means.
  const failureScope = OwnerTokenError.escalationOf(error).isGiven ? error.failureScope : undefined;
  const wire: Wire = { code, failureScope, status, oauthError, retryAfterMs };
  return sealer.seal(wire, context) ?? '';
}

/** Undefined if it cannot be decrypted, or comes from a version of the package with other codes. */
export function openFailure(sealer: Sealer, context: string, sealed: string) {
  // Only a replica with our key could have sealed it.
  const wire = sealer.open(sealed, context) as Wire | undefined;
  const code = ERROR_CODES.find((known) => known === wire?.code);
  return code && new OwnerTokenError(code, "another replica's token request failed", wire);
}
