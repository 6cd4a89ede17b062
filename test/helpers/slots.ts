import { Slot } from '../../src/registry/slot.ts';

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
