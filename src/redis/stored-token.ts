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
import type { Sealer } from './sealing.ts';
import type { SealedToken, StoredToken } from './shared-record.ts';

/** The sealed content of a token: what another replica's registry needs to compute the same expiry. */
export interface SharedToken {
  readonly token: string;
  readonly tokenType?: string;
  /** As the service sent it: policies read lifetimes from it. */
  readonly response?: Readonly<Record<string, unknown>>;
  /** The server's time just before the token was requested. */
  readonly requestedAtUs: number;
  /** By the policy of the replica that requested it. `Infinity`: until rejected. */
  readonly lifetimeMs: number;
}

/** The last part of a lifetime, in which a token is no longer shared: it would expire in transit. */
const LAST_OF_LIFE = { share: 0.05, mostMs: 1_000 } as const;

export interface StoredTokensOptions {
  readonly sealer: Sealer;
  readonly known: KnownGenerations;
  readonly clock: Clock;
  /** The server's time (µs) by this replica's own timeline, which never goes back; see `redis-link.ts`. */
  readonly serverTimeUs: () => number | undefined;
  readonly onUnreadable: () => void;
}

export class StoredTokens {
  readonly #options: StoredTokensOptions;

  constructor(options: StoredTokensOptions) {
    this.#options = options;
  }

  /** The generation at or below which no token is wanted: the rejected one's, and for a refresh the held one's. */
  avoid({ rejected, held, reason }: TokenRequest): number {
    const { known } = this.#options;
    return Math.max(rejected ? known.of(rejected.value) : 0, held && reason === 'refresh' ? known.of(held.value) : 0);
  }

  /** For a refresh of a token whose generation is unknown: as much life as that token has left. */
  leastLifeMs({ reason, held }: TokenRequest): number {
    const { known, clock } = this.#options;
    if (reason !== 'refresh' || !held || known.of(held.value) > 0) return 0;
    return held.expiresAtMs === Infinity ? 0 : Math.max(0, held.expiresAtMs - clock.now());
  }

  /**
   * The stored token as this replica's registry is to receive it. Undefined if it cannot be decrypted, was rejected
   * here, is the held one that a refresh is to replace or older, or has ended for this replica.
   *
   * @param name the owner's record.
   * @param avoid the lowest generation that is not wanted.
   * @param askedAtMs this replica's wall clock before it read the record.
   */
  read(name: string, stored: StoredToken, request: TokenRequest, avoid: number, askedAtMs: number) {
    const { sealer, known, serverTimeUs, onUnreadable } = this.#options;
    const { generation, nowUs, sealed } = stored;
    const shared = fromWire(sealer.open(sealed, { kind: 'token', name, generation }));
    if (!shared) {
      onUnreadable();
      return undefined;
    }
    const knownAs = known.of(shared.token);
    known.remember(shared.token, { generation });
    // The service may have answered another replica's refresh with the same token, and would do the same for ours.
    const isHeld = request.reason === 'refresh' && shared.token === request.held?.value;
    const isWanted = isHeld ? knownAs > 0 && knownAs < generation : generation > Math.max(avoid, this.avoid(request));
    if (!isWanted) return undefined;
    const ageMs = (Math.max(nowUs, serverTimeUs() ?? 0) - shared.requestedAtUs) / 1000;
    try {
      return issuedTokenFrom({ shared, ageMs, askedAtMs, lifetimeMs: (issued) => request.lifetimeMs(issued) });
    } catch {
      // A policy that throws does so for this replica's own token too, where the registry reports it.
      return undefined;
    }
  }

  /** A token of this replica, sealed for the others. Undefined if it must not or cannot be shared. */
  seal(
    name: string,
    issued: IssuedToken,
    request: TokenRequest,
    at: { generation: number; requestedAtUs: number },
  ): SealedToken | undefined {
    // The service issued a rejected token again. Other replicas find that out for themselves.
    if (issued.token === request.rejected?.value) return undefined;
    const { generation, requestedAtUs } = at;
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
      const sealed = this.#options.sealer.seal(toWire(shared), { kind: 'token', name, generation });
      return sealed === undefined ? undefined : { sealed, generation, usableUntilUs };
    } catch {
      // A policy that throws, or a response that is not JSON: the registry reports it.
      return undefined;
    }
  }
}

/** The sealed JSON: short names, null for Infinity, and the token only once. */
interface WireToken {
  t: string;
  y?: string;
  r?: unknown;
  i: number;
  l: number | null;
}

/** Replaces the token within the response. A response string that starts with this mark is escaped by a second one. */
const TOKEN_MARK = '\u0000';

function toWire({ token, tokenType, response, requestedAtUs, lifetimeMs }: SharedToken): WireToken {
  const withMark = (_: string, value: unknown) => {
    if (value === token) return TOKEN_MARK;
    return typeof value === 'string' && value.startsWith(TOKEN_MARK) ? TOKEN_MARK + value : value;
  };
  return {
    t: token,
    ...(tokenType !== undefined && { y: tokenType }),
    ...(response && { r: JSON.parse(JSON.stringify(response, withMark)) }),
    i: requestedAtUs,
    l: lifetimeMs === Infinity ? null : lifetimeMs,
  };
}

function fromWire(wire: Partial<Record<keyof WireToken, unknown>> | undefined): SharedToken | undefined {
  const { t: token, y: tokenType, r, i: requestedAtUs, l: lifetimeMs } = wire ?? {};
  if (typeof token !== 'string' || typeof requestedAtUs !== 'number') return undefined;
  if (lifetimeMs !== null && typeof lifetimeMs !== 'number') return undefined;
  const withToken = (_: string, value: unknown) => {
    if (value === TOKEN_MARK) return token;
    return typeof value === 'string' && value.startsWith(TOKEN_MARK) ? value.slice(TOKEN_MARK.length) : value;
  };
  const response: unknown = r && JSON.parse(JSON.stringify(r), withToken);
  return {
    token,
    ...(typeof tokenType === 'string' && { tokenType }),
    ...(typeof response === 'object' && response !== null && { response: { ...response } }),
    requestedAtUs,
    lifetimeMs: lifetimeMs ?? Infinity,
  };
}

export interface ReissueFacts {
  readonly shared: SharedToken;
  /** Its age by the server's time. */
  readonly ageMs: number;
  /** This replica's wall clock just before it read the record; the age counts back from there. */
  readonly askedAtMs: number;
  /** The lifetime by this replica's policy. */
  lifetimeMs(issued: IssuedToken): number;
}

/** Undefined if the token has expired, or if this replica's policy derives a correct expiry from none of its forms. */
export function issuedTokenFrom(facts: ReissueFacts): IssuedToken | undefined {
  const { shared, ageMs, askedAtMs } = facts;
  // After the server's clock was set back, the age of what was stored before is unknown.
  if (!(ageMs >= 0)) return undefined;
  const { token, tokenType, response, lifetimeMs } = shared;
  const requestedAtMs = Math.floor(askedAtMs - ageMs);
  const asIssued: IssuedToken = {
    token,
    requestedAtMs,
    ...(tokenType !== undefined && { tokenType }),
    ...(response && { response }),
  };
  const excessMs = facts.lifetimeMs(asIssued) - lifetimeMs;
  const datedBack = { ...asIssued, requestedAtMs: Math.floor(requestedAtMs - excessMs) };
  const stated = { ...asIssued, response: { ...response, expires_in: lifetimeMs / 1000 } };
  const fits = (issued: IssuedToken) => expiryOf(issued, facts) <= requestedAtMs + lifetimeMs;
  const issued = [asIssued, datedBack, stated].find((form) => Number.isFinite(form.requestedAtMs) && fits(form));
  if (!issued || expiryOf(issued, facts) <= askedAtMs) return undefined;
  // A registry refuses a JWT past its `exp`, unless its policy keeps tokens until they are rejected.
  const statedEndMs = facts.lifetimeMs(issued) === Infinity ? undefined : jwtTimes(token)?.expiresAtMs;
  return statedEndMs !== undefined && statedEndMs <= askedAtMs ? undefined : issued;
}

function expiryOf(issued: IssuedToken, facts: ReissueFacts): number {
  return expiresAtMs(issued.requestedAtMs ?? 0, facts.lifetimeMs(issued));
}

/** When a registry stops serving a token: its end, less the margin. */
export function expiresAtMs(requestedAtMs: number, lifetimeMs: number): number {
  return planLife({ requestedAtMs, lifetimeMs, refreshWindow: [1, 1], random: () => 0 }).expiresAtMs;
}
