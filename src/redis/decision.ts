/** What a call does, and what it holds if it leads. See `shared-tokens.ts`. */

import type { OwnerTokenError } from '../errors.ts';
import type { IssuedToken } from '../token.ts';

export type Decision =
  | { readonly do: 'share'; readonly issued: IssuedToken }
  | { readonly do: 'refuse'; readonly error: OwnerTokenError }
  | { readonly do: 'lead'; readonly lead: Lead }
  | { readonly do: 'fall-back' };

/** What a leader holds. */
export interface Lead {
  readonly generation: number;
  /** The monotonic time at which the call asked for the lease. */
  readonly askedAtMs: number;
  /** The server's time when the lease was acquired. */
  readonly nowUs: number;
  /** The owner's ended failure, sealed; empty if none. */
  readonly failureBefore: string;
  /** Defined if the request is the fleet's trial. */
  readonly trial: Trial | undefined;
}

/** The lease of the circuit's record, and the ended failure that it holds. */
export interface Trial {
  readonly failureBefore: string;
}

export const FALL_BACK: Decision = Object.freeze({ do: 'fall-back' });
