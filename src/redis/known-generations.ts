/**
 * The generations of the tokens that this replica requested or shared, so that it can name the generation of a rejected
 * token. A token requested without Redis has none; the server's time at its request stands in, since generations are
 * times. Keyed by digest and bounded: an evicted token is recognised when the record returns it again.
 */

import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** Two or three for each owner of a large registry. The cache allocates 22 bytes for each place up front. */
const MAX_KNOWN = 30_000;

type Known = { readonly generation: number } | { readonly requestedAtMonotonicMs: number };

export class KnownGenerations {
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  readonly #serverTimeUs: (monotonicMs: number) => number | undefined;

  /** @param serverTimeUs the server's time at a monotonic moment of this process; undefined while it is unknown. */
  constructor(serverTimeUs: (monotonicMs: number) => number | undefined) {
    this.#serverTimeUs = serverTimeUs;
  }

  remember(token: string, known: Known): void {
    this.#known.set(digestOf(token), known);
  }

  /** 0 if it is unknown. */
  of(token: string): number {
    const known = this.#known.get(digestOf(token));
    if (!known) return 0;
    return 'generation' in known ? known.generation : (this.#serverTimeUs(known.requestedAtMonotonicMs) ?? 0);
  }
}

function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url').slice(0, 22);
}
