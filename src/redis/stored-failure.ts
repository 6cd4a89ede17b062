/**
 * From the error of a leader to what its followers learn of it, and back: a code, a status and how long to wait, never a
 * message, a body or a secret. It ends one lease and reaches only the calls that waited for that lease. What it means for
 * other owners each registry decides for itself.
 */

import { ERROR_CODES, OwnerTokenError, type OwnerTokenErrorOptions } from '../errors.ts';
import type { Sealer } from './sealing.ts';

/** As it is sealed. */
type WireFailure = { code: string } & Pick<
  OwnerTokenErrorOptions,
  'failureScope' | 'status' | 'oauthError' | 'retryAfterMs'
>;

/** Empty for what concerns no other replica: a closed registry, a full queue, invalid options. */
export function sealFailure(sealer: Sealer, context: string, thrown: unknown): string {
  const error = thrown instanceof OwnerTokenError ? thrown : new OwnerTokenError('source_failed', '');
  const { code, status, oauthError, retryAfterMs } = error;
  if (error.failureScope === undefined) return '';
  // A scope that nobody gave is left out: each registry decides what the failure means.
  const failureScope = OwnerTokenError.evidenceOf(error).isGiven ? error.failureScope : undefined;
  const wire: WireFailure = { code, failureScope, status, oauthError, retryAfterMs };
  return sealer.seal(wire, context) ?? '';
}

/** Undefined if it cannot be decrypted, or is of a version that has other codes. */
export function openFailure(sealer: Sealer, context: string, sealed: string) {
  // Only a replica with our key could seal it.
  const wire = sealer.open(sealed, context) as WireFailure | undefined;
  const code = ERROR_CODES.find((known) => known === wire?.code);
  return code && new OwnerTokenError(code, "another replica's token request failed", wire);
}
