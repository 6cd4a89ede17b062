/**
 * From a token response to what the record stores, and back.
 *
 * A replica's registry dates a shared token with its own expiry policy, so the {@link IssuedToken} it is given must lead
 * that policy to an expiry no later than the one sealed with the token. The first of three forms that does so is used:
 *
 * 1. As issued, with its age taken from this replica's clock. Right for policies that read the response, a JWT's
 *    `exp` − `iat`, or nothing.
 * 2. Dated back by the difference between this policy's lifetime and the sealed one.
 * 3. With the sealed lifetime as `expires_in`. Right for a JWT without `iat`, whose end the policy computes from a clock
 *    that may be minutes off.
 *
 * If no form fits, this replica cannot use the token and requests its own.
 */

import type { Clock } from '../clock.ts';
import { jwtTimes } from '../expiry/jwt-times.ts';
import { planLife } from '../expiry/lifetime.ts';
import type { IssuedToken, TokenRequest } from '../token.ts';
import type { KnownGenerations } from './known-generations.ts';
import type { Sealer, SharedToken } from './sealing.ts';
import type { SealedToken, StoredToken } from './shared-record.ts';

/** One call on its way. */
export interface SharedCall {
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

export class StoredTokens {
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
  raiseAvoid(call: SharedCall): void {
    const { rejected, held, reason } = call.request;
    if (rejected) call.avoid = Math.max(call.avoid, this.#known.of(rejected.value));
    if (held && reason === 'refresh') call.avoid = Math.max(call.avoid, this.#known.of(held.value));
  }

  /** For a refresh of a token of which no generation is known: more life than that has left. */
  leastLifeMs({ request: { reason, held } }: SharedCall): number {
    if (reason !== 'refresh' || !held || this.#known.of(held.value) > 0) return 0;
    return held.expiresAtMs === Infinity ? 0 : Math.max(0, held.expiresAtMs - this.#clock.now());
  }

  /**
   * The grant for a stored token. Undefined for one that is not for this call: it does not open, was refused here, is
   * the held one that a refresh is to replace, is older than that, or over for this replica.
   *
   * @param askedAtMs this replica's wall clock before the record was asked.
   */
  receive(call: SharedCall, stored: StoredToken, askedAtMs: number): IssuedToken | undefined {
    const { request, owner } = call;
    const { generation, nowUs, sealed } = stored;
    const shared = this.#sealer.open(sealed, owner, generation);
    if (!shared) {
      this.#onUnreadable();
      return undefined;
    }
    const knownAs = this.#known.of(shared.token);
    this.#known.remember(shared.token, { generation });
    this.raiseAvoid(call);
    // The service may have answered another's refresh with the same token: then it would answer ours so too.
    const isHeld = request.reason === 'refresh' && shared.token === request.held?.value;
    const isNews = isHeld ? knownAs > 0 && knownAs < generation : generation > call.avoid;
    if (!isNews) return undefined;
    const ageMs = (nowUs - shared.requestedAtUs) / 1000;
    try {
      return issuedTokenFrom({ shared, ageMs, askedAtMs, lifetimeMs: (issued) => request.lifetimeMs(issued) });
    } catch {
      // A policy that throws will do so for a token of our own, where it is heard.
      return undefined;
    }
  }

  /** What others are given of a token obtained here; undefined: nothing. */
  give(call: SharedCall, issued: IssuedToken, generation: number, requestedAtUs: number): SealedToken | undefined {
    const { request, owner } = call;
    // The service insists on a token that was refused here: others shall find out by themselves.
    if (issued.token === request.rejected?.value) return undefined;
    const { token, tokenType, response } = issued;
    try {
      const lifetimeMs = request.lifetimeMs(issued);
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

export interface ReissueFacts {
  readonly shared: SharedToken;
  /** How old the token is by the server's time. */
  readonly ageMs: number;
  /** This replica's wall clock just before it asked: the age counts from there, never from later. */
  readonly askedAtMs: number;
  /** What this replica's policy makes of a issued. */
  lifetimeMs(issued: IssuedToken): number;
}

/** Undefined: over for this replica, or never to be dated right. */
export function issuedTokenFrom(facts: ReissueFacts): IssuedToken | undefined {
  const { shared, ageMs, askedAtMs } = facts;
  // A server whose time went back cannot tell the age of what it stored before.
  if (!(ageMs >= 0)) return undefined;
  const { token, tokenType, response, lifetimeMs } = shared;
  const requestedAtMs = Math.floor(askedAtMs - ageMs);
  const asObtained: IssuedToken = {
    token,
    requestedAtMs,
    ...(tokenType !== undefined && { tokenType }),
    ...(response && { response }),
  };
  const excessMs = facts.lifetimeMs(asObtained) - lifetimeMs;
  const datedBack = { ...asObtained, requestedAtMs: Math.floor(requestedAtMs - excessMs) };
  const stated = { ...asObtained, response: { ...response, expires_in: lifetimeMs / 1000 } };
  const fits = (issued: IssuedToken) => expiryOf(issued, facts) <= requestedAtMs + lifetimeMs;
  const issued = [asObtained, datedBack, stated].find((form) => Number.isFinite(form.requestedAtMs) && fits(form));
  if (!issued || expiryOf(issued, facts) <= askedAtMs) return undefined;
  // A registry refuses a JWT that is over by its own word, unless its policy keeps tokens until they are rejected.
  const saysItEnds = facts.lifetimeMs(issued) === Infinity ? undefined : jwtTimes(token)?.expiresAtMs;
  return saysItEnds !== undefined && saysItEnds <= askedAtMs ? undefined : issued;
}

function expiryOf(issued: IssuedToken, facts: ReissueFacts): number {
  return expiresAtMs(issued.requestedAtMs ?? 0, facts.lifetimeMs(issued));
}

/** When a registry stops serving a token, its margin taken off. */
export function expiresAtMs(requestedAtMs: number, lifetimeMs: number): number {
  return planLife({ requestedAtMs, lifetimeMs, refreshWindow: [1, 1], random: () => 0 }).expiresAtMs;
}
