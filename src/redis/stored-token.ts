/**
 * Tokens on their way from one replica to another: which are wanted for a call, what a stored one is worth to it, and
 * what others are to be given of one that was obtained. Asks nobody and keeps no lease.
 */

import type { Clock } from '../clock.ts';
import type { IssuedToken, TokenRequest } from '../token.ts';
import { adoptedGrant, expiresAtMs } from './adoption.ts';
import type { KnownGenerations } from './known-generations.ts';
import type { Sealer } from './sealing.ts';
import type { SealedToken, StoredToken } from './shared-record.ts';

/** One call on its way. */
export interface Flight {
  /** Of its own for each call: a replica may have several for one owner, of different generations. */
  readonly id: string;
  readonly accessKey: string;
  readonly request: TokenRequest;
  /** Names of the two records. */
  readonly owner: string;
  readonly endpoint: string;
  /** No token of this generation or an older one is wanted. */
  avoid: number;
}

/** The last of its life that is not shared: too short to be worth a hand-over. */
const LAST_OF_LIFE = { share: 0.05, mostMs: 1_000 } as const;

export class Handover {
  readonly #sealer: Sealer;
  readonly #known: KnownGenerations;
  readonly #clock: Clock;
  readonly #onUnreadable: () => void;

  constructor(sealer: Sealer, known: KnownGenerations, clock: Clock, onUnreadable: () => void) {
    this.#sealer = sealer;
    this.#known = known;
    this.#clock = clock;
    this.#onUnreadable = onUnreadable;
  }

  /** A refused token, and for a refresh the held one, are not wanted, nor any older. */
  raiseAvoid(flight: Flight): void {
    const { rejected, held, reason } = flight.request;
    if (rejected) flight.avoid = Math.max(flight.avoid, this.#known.of(rejected.value));
    if (held && reason === 'refresh') flight.avoid = Math.max(flight.avoid, this.#known.of(held.value));
  }

  /** For a refresh of a token of which no generation is known: more life than that has left. */
  leastLifeMs({ request: { reason, held } }: Flight): number {
    if (reason !== 'refresh' || !held || this.#known.of(held.value) > 0) return 0;
    return held.expiresAtMs === Infinity ? 0 : Math.max(0, held.expiresAtMs - this.#clock.now());
  }

  /**
   * The grant for a stored token. Undefined for one that is not for this call: it does not open, was refused here, is
   * the held one that a refresh is to replace, is older than that, or over for this replica.
   *
   * @param askedAtMs this replica's wall clock before the record was asked.
   */
  receive(flight: Flight, stored: StoredToken, askedAtMs: number): IssuedToken | undefined {
    const { request, owner } = flight;
    const { generation, nowUs, sealed } = stored;
    const shared = this.#sealer.open(sealed, owner, generation);
    if (!shared) {
      this.#onUnreadable();
      return undefined;
    }
    const knownAs = this.#known.of(shared.token);
    this.#known.remember(shared.token, { generation });
    this.raiseAvoid(flight);
    // The service may have answered another's refresh with the same token: then it would answer ours so too.
    const isHeld = request.reason === 'refresh' && shared.token === request.held?.value;
    const isNews = isHeld ? knownAs > 0 && knownAs < generation : generation > flight.avoid;
    if (!isNews) return undefined;
    const ageMs = (nowUs - shared.requestedAtUs) / 1000;
    try {
      return adoptedGrant({ shared, ageMs, askedAtMs, lifetimeMs: (grant) => request.lifetimeMs(grant) });
    } catch {
      // A policy that throws will do so for a token of our own, where it is heard.
      return undefined;
    }
  }

  /** What others are given of a token obtained here; undefined: nothing. */
  give(flight: Flight, grant: IssuedToken, generation: number, requestedAtUs: number): SealedToken | undefined {
    const { request, owner } = flight;
    // The service insists on a token that was refused here: others shall find out by themselves.
    if (grant.token === request.rejected?.value) return undefined;
    const { token, tokenType, response } = grant;
    try {
      const lifetimeMs = request.lifetimeMs(grant);
      const lastMs = Math.min(lifetimeMs * LAST_OF_LIFE.share, LAST_OF_LIFE.mostMs);
      const usableUntilUs = requestedAtUs + (expiresAtMs(0, lifetimeMs) - lastMs) * 1000;
      const shared = {
        token,
        requestedAtUs,
        lifetimeMs,
        ...(tokenType && { tokenType }),
        ...(response && { response }),
      };
      const sealed = this.#sealer.seal(shared, owner, generation);
      return sealed === undefined ? undefined : { sealed, generation, usableUntilUs };
    } catch {
      // A policy that throws, or an answer that cannot be written down: the registry will say so.
      return undefined;
    }
  }
}
