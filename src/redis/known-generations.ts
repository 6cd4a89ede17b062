/**
 * The generations of the tokens that this replica obtained or adopted, so that it can say which one it does not want
 * again. A token that was obtained while Redis was away has none; the server's time when it was requested stands for
 * it, since generations are times. By digest, and bounded: one that is forgotten is recognised when it comes again.
 */

import { createHash } from 'node:crypto';

/** Two or three for each owner of a large registry. */
const MAX_KNOWN = 30_000;

type Known = { readonly generation: number } | { readonly requestedAtMonotonicMs: number };

export class KnownGenerations {
  readonly #known = new Map<string, Known>();
  readonly #serverTimeUs: (monotonicMs: number) => number | undefined;

  /** @param serverTimeUs the server's time at a moment of this process; undefined while it is not known. */
  constructor(serverTimeUs: (monotonicMs: number) => number | undefined) {
    this.#serverTimeUs = serverTimeUs;
  }

  remember(token: string, known: Known): void {
    const digest = digestOf(token);
    this.#known.delete(digest);
    this.#known.set(digest, known);
    if (this.#known.size <= MAX_KNOWN) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      break;
    }
  }

  /** 0 when it is not known. */
  of(token: string): number {
    const known = this.#known.get(digestOf(token));
    if (!known) return 0;
    return 'generation' in known ? known.generation : (this.#serverTimeUs(known.requestedAtMonotonicMs) ?? 0);
  }
}

function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url').slice(0, 22);
}
