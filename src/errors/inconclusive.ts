/** Codes of causes of failures that prove nothing about the owner or the service. */

import type { OwnerTokenError } from './owner-token-error.ts';

/** A time limit passed while the process could not run. */
export const STOOD_STILL = 'ERR_STOOD_STILL';
/** The token of an answer had already expired when it arrived. */
export const EXPIRED_ON_ARRIVAL = 'ERR_EXPIRED_ON_ARRIVAL';
/** The token of an answer was issued to another owner a moment ago. */
export const ANOTHER_OWNERS = 'ERR_ANOTHER_OWNERS';

const CODES: readonly unknown[] = [STOOD_STILL, EXPIRED_ON_ARRIVAL, ANOTHER_OWNERS];

export function provesNothing({ cause }: OwnerTokenError): boolean {
  return CODES.includes(cause?.code);
}
