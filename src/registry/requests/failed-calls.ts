/** Calls that failed, by where: `stats().failedCalls`. */

import type { OwnerTokenError } from '../../errors/owner-token-error.ts';

/** `request`: a request failed. `refused`: a pause refused them, at once or in the queue. `queue`: it was full, or took too long. */
export type FailedCalls = Record<'request' | 'refused' | 'queue', number>;

/** Where the calls of a request failed that was refused before it was sent. */
export const refusedBy = ({ code }: OwnerTokenError): 'refused' | 'queue' =>
  code === 'queue_full' || code === 'queue_timeout' ? 'queue' : 'refused';
