import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import type { OwnerPause } from '../../src/failures/pauses.ts';
import { type HeldToken, Slot } from '../../src/registry/owners/slot.ts';
import type { AccessToken } from '../../src/token.ts';

/** The slot of an owner with this name. The access key of `owner_a` is `a`. */
export function createSlot(owner: string): Slot {
  return new Slot(owner.replace(/^owner_/, ''), { nameOf: () => owner });
}

/** A slot of an owner that has succeeded before but holds no token. */
export function createProvenSlot(owner: string): Slot {
  const slot = createSlot(owner);
  slot.history = { ...slot.history, issuedAtMs: 0 };
  return slot;
}

/** A token to hold. */
export const heldOf = (token: AccessToken, offsetMs = 0): HeldToken => ({ token, offsetMs, isStated: true });

/** The pause after a first failure. */
export function pauseUntil(retryAtMonotonicMs: number, count = 1): OwnerPause {
  return { error: new OwnerTokenError('endpoint_unavailable', 'down'), count, retryAtMonotonicMs, firstNumber: 1 };
}
