import { createRegistry } from './owner-tokens.mjs';

const shared = globalThis;

export function ownerTokens() {
  shared.ownerTokens ??= createRegistry();
  return shared.ownerTokens;
}
