/**
 * Learns the token lifetime, which the service does not document, from the ages at which the API accepts and rejects the tokens of
 * all owners.
 *
 * **Raising the estimate.** A token that is accepted beyond the estimate raises it to that age. Since tokens are refreshed before the
 * estimate, some, the explorers, get twice the lifetime. They become rarer with each one that ends beyond the estimate, since that
 * costs a repeated call. They get longer while no token is accepted in the second half of the estimate, because calls may come too
 * rarely to find one alive there.
 *
 * **Lowering it.** A rejection may be a revocation, and some owners may differ from the others. So a token that ends before the
 * estimate is only a strike. An owner has at most one, until a token of its own is accepted in the second half of the estimate. It
 * takes three strikes (fewer if there are fewer owners), and three for each recent owner whose token was accepted at a higher age than
 * those behind the strikes. Then the estimate falls to the highest age at which one of those had been accepted.
 */

import { LRUCache } from 'lru-cache';
import { checkOptions, type OptionRule, type OptionRules } from '../option-check.ts';
import type { IssuedToken } from '../token-source.ts';
import { DEFAULT_LIFETIME_MS, type ExpiryPolicy, MAX_LIFETIME_MS, type TokenAge } from './lifetime.ts';

/**
 * Options of `learnedLifetime`.
 *
 * @example
 * ```ts
 * const options: LearnedLifetimeOptions = { guessMs: 600_000, maxMs: 86_400_000 };
 * ```
 */
export interface LearnedLifetimeOptions {
  /** The first estimate in milliseconds, such as the last one of an earlier process. Default: 300,000. */
  guessMs?: number | undefined;
  /** The shortest estimate. Default: 1,000. */
  minMs?: number | undefined;
  /** The longest estimate. Default: 30 days. */
  maxMs?: number | undefined;
}

/**
 * A policy that learns, and what it has learned.
 *
 * @example
 * ```ts
 * const expiry: LearnedLifetime = learnedLifetime();
 * console.log(expiry.estimateMs); // → 300000
 * ```
 */
export interface LearnedLifetime extends ExpiryPolicy {
  lifetimeMs(issued: IssuedToken): number;
  accepted(age: TokenAge): void;
  rejected(age: TokenAge): void;
  /** The estimated lifetime of tokens. */
  readonly estimateMs: number;
}

/** This many strikes lower the estimate; if owners contradict, this many for each of them. */
const STRIKES_TO_LOWER = 3;
/** Only the owners of this many last reports count. */
const LATELY = 256;
/** One token in this many is an explorer, at first and at the least; and after how many without a success they get longer. */
const EXPLORERS = { atFirst: 4, fewest: 1_024, toLengthen: 8 } as const;
/** The most owners whose token is tracked, and tokens whose lifetime is remembered. */
const MAX_TRACKED = 10_000;

/**
 * A policy that starts with a guess and learns the lifetime, which is assumed to be the same for all owners, from the ages at which
 * tokens are accepted and rejected. Both must be reported (`ownerFetch` does so).
 *
 * @throws {OwnerTokenError} `invalid_options`
 *
 * @example
 * ```ts
 * const expiry = learnedLifetime();
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, expiry });
 * await tokens.ownerFetch(accessKey)(`${baseUrl}/echo`);
 * ```
 */
export function learnedLifetime(given: LearnedLifetimeOptions = {}): LearnedLifetime {
  return new Learner(checkOptions('learnedLifetime', given, OPTIONS) as CheckedOptions);
}

type CheckedOptions = Record<keyof LearnedLifetimeOptions, number>;

/** What is known of an owner. */
interface Known {
  /** Its token, and at which age that was last accepted. */
  token: string;
  ageMs: number;
  /** How often the estimate had been lowered before the token came. */
  lowered: number;
  /** Its strike: at which age a token that ended too early had last been accepted. */
  struckMs: number | undefined;
}

class Learner implements LearnedLifetime {
  estimateMs: number;
  readonly #within: (ms: number) => number;
  readonly #owners = new LRUCache<string, Known>({ max: MAX_TRACKED });
  /** The owners of the last reports. */
  readonly #lately: Known[] = [];
  /** By token, because a source that stores tokens asks about the same one again. */
  readonly #stated = new LRUCache<string, number>({ max: MAX_TRACKED });
  #reports = 0;
  #lowered = 0;
  #issued = 0;
  /** Explorers since a token was accepted in the second half of the estimate. */
  #explorers = 0;
  #oneExplorerIn: number = EXPLORERS.atFirst;

  constructor({ guessMs, minMs, maxMs }: CheckedOptions) {
    this.#within = (ms) => Math.min(maxMs, Math.max(minMs, ms));
    this.estimateMs = this.#within(guessMs);
  }

  lifetimeMs({ token }: IssuedToken): number {
    const known = this.#stated.get(token);
    if (known !== undefined) return known;
    const isExplorer = ++this.#issued % this.#oneExplorerIn === 0;
    const statedMs = isExplorer ? this.#within(this.#explorerMs()) : this.estimateMs;
    this.#stated.set(token, statedMs);
    return statedMs;
  }

  #explorerMs(): number {
    return this.estimateMs * 2 ** (1 + Math.floor(++this.#explorers / EXPLORERS.toLengthen));
  }

  accepted({ owner, token, ageMs }: TokenAge): void {
    const known = this.#owners.get(owner) ?? { token: '', ageMs, lowered: 0, struckMs: undefined };
    this.#owners.set(owner, known);
    if (known.token !== token) known.lowered = this.#lowered;
    known.token = token;
    known.ageMs = ageMs;
    if (ageMs >= this.estimateMs / 2) {
      known.struckMs = undefined;
      this.#explorers = 0;
    }
    this.#lately[this.#reports++ % LATELY] = known;
    if (ageMs > this.estimateMs) this.#change(ageMs);
  }

  rejected({ owner, token, ageMs }: TokenAge): void {
    const known = this.#owners.get(owner);
    // The ending of a token that was never accepted proves nothing.
    if (known?.token !== token) return;
    if (ageMs > this.estimateMs && known.ageMs >= this.estimateMs / 2) {
      this.#oneExplorerIn = Math.min(EXPLORERS.fewest, 2 * this.#oneExplorerIn);
      return;
    }
    // A token from before the estimate was last lowered is one more of those that lowered it.
    if (known.lowered < this.#lowered) return;
    known.struckMs = known.ageMs;
    this.#lately[this.#reports++ % LATELY] = known;
    this.#lower([...new Set(this.#lately)]);
  }

  #lower(owners: readonly Known[]): void {
    const strikes = owners.flatMap(({ struckMs }) => struckMs ?? []);
    const highestMs = Math.max(...strikes);
    const contradicting = owners.filter(({ ageMs }) => ageMs > highestMs).length;
    const least = Math.min(STRIKES_TO_LOWER, owners.length);
    if (strikes.length < Math.max(least, STRIKES_TO_LOWER * contradicting)) return;
    this.#lowered++;
    for (const known of this.#owners.values()) known.struckMs = undefined;
    this.#change(highestMs);
  }

  #change(ms: number): void {
    this.estimateMs = this.#within(ms);
    this.#oneExplorerIn = EXPLORERS.atFirst;
  }
}

const lifetime = (fallback: number): OptionRule => ({
  passes: (value) => typeof value === 'number' && value >= 1_000 && value <= MAX_LIFETIME_MS,
  expected: 'milliseconds from 1000 to ten years',
  fallback,
});

const OPTIONS: OptionRules<LearnedLifetimeOptions> = {
  guessMs: lifetime(DEFAULT_LIFETIME_MS),
  minMs: lifetime(1_000),
  maxMs: lifetime(30 * 86_400_000),
};
