/**
 * The oracle's own account of rejections: which tokens the registry must keep although they were rejected, because they
 * follow another rejected token in a row, and which it must replace at once. It judges only streaks that are certain: each
 * token arrived for a waiting caller, was requested after its predecessor was rejected, and was rejected within a second.
 */

import type { TokenRequest } from '../../src/index.ts';
import type { WatchedOptions, WorldView } from './observed.ts';

/** The newest token of an owner, as it arrived for a caller. */
interface Arrived {
  readonly value: string;
  readonly arrivedMs: number;
  /** How many tokens in a row were rejected before it, at least. */
  readonly rejectedBefore: number;
  wasAccepted: boolean;
  wasRejected: boolean;
}

/** The replacement of a rejected token. */
interface Awaited {
  readonly rejectedBefore: number;
  /** The first token that was issued since. */
  value: string | undefined;
}

/** What must follow from a rejection, as far as that is certain. */
export type Verdict = { readonly keptForMs: number } | 'replaced' | undefined;

const FIRST_KEPT_MS = 10_000;
/** Where success is never reported, only a rejection that soon after the arrival continues a streak. */
const SOON_MS = 1_000;

export class RejectionAccount {
  readonly #world: WorldView;
  readonly #capMs: number;
  /** Without evictions, what the registry knows about an owner stays until the owner is forgotten. */
  readonly #isRoomy: boolean;
  readonly #newest: (Arrived | undefined)[];
  readonly #awaited: (Awaited | undefined)[];

  constructor(world: WorldView, owners: number, options: WatchedOptions) {
    this.#world = world;
    this.#capMs = options.ownerCapMs;
    this.#isRoomy = options.maxOwners >= owners;
    this.#newest = Array(owners).fill(undefined);
    this.#awaited = Array(owners).fill(undefined);
  }

  /** A request was sent. One that is not for the replacement of a rejected token may begin a new streak. */
  requested(owner: number, { reason }: TokenRequest): void {
    if (reason !== 'rejected') this.#awaited[owner] = undefined;
  }

  /** The service issued a token; nobody may have received it yet. */
  issued(owner: number, value: string): void {
    this.#newest[owner] = undefined;
    const awaited = this.#awaited[owner];
    if (awaited?.value === undefined && awaited) awaited.value = value;
    else this.#awaited[owner] = undefined;
  }

  /** A caller that waited was given a token, which the registry now caches. */
  arrived(owner: number, value: string): void {
    if (!this.#isRoomy) return;
    const awaited = this.#awaited[owner];
    this.#awaited[owner] = undefined;
    this.#newest[owner] = {
      value,
      arrivedMs: this.#world.clock.monotonicMs,
      rejectedBefore: awaited?.value === value ? awaited.rejectedBefore : 0,
      wasAccepted: false,
      wasRejected: false,
    };
  }

  /** Any accepted call of the owner ends the streak. */
  accepted(owner: number, value: string): void {
    this.#awaited[owner] = undefined;
    const newest = this.#newest[owner];
    if (newest?.value === value) newest.wasAccepted = true;
    else this.#newest[owner] = undefined;
  }

  /** @param cached the token that a call would have been given. @param inFlight how many requests of the owner were. */
  rejected(owner: number, value: string, cached: string | undefined, inFlight: number): Verdict {
    const newest = this.#newest[owner];
    if (newest?.value !== value) {
      // The registry may cache a token that no caller waited for.
      if (!newest || cached === value) this.knowsNothing(owner);
      return undefined;
    }
    if (newest.wasRejected) return undefined;
    newest.wasRejected = true;
    const { arrivedMs, rejectedBefore, wasAccepted } = newest;
    const ageMs = this.#world.clock.monotonicMs - arrivedMs;
    const isInRow = rejectedBefore > 0 && !wasAccepted && ageMs < SOON_MS;
    // A request that was sent already may return a token as old as the rejected one.
    const inARow = isInRow ? rejectedBefore + 1 : 1;
    this.#awaited[owner] = inFlight === 0 ? { rejectedBefore: inARow, value: undefined } : undefined;
    if (!isInRow) return wasAccepted ? 'replaced' : undefined;
    return { keptForMs: Math.min(this.#capMs, FIRST_KEPT_MS * 2 ** (rejectedBefore - 1)) - ageMs };
  }

  /** The owner was forgotten or resumed. */
  knowsNothing(owner: number): void {
    this.#newest[owner] = undefined;
    this.#awaited[owner] = undefined;
  }

  knowsNothingOfAll(): void {
    this.#newest.fill(undefined);
    this.#awaited.fill(undefined);
  }
}
