/**
 * Converts a token response to what the record stores, and back.
 *
 * A replica's registry dates a shared token with its own expiry policy, so the {@link IssuedToken} it is given must lead
 * that policy to an expiry no later than the one sealed with the token. If the policy gives it a longer lifetime, the
 * token is dated back by the difference. If that does not help, this replica cannot use the token and requests its own.
 */

import { jwtTimes } from '../expiry/jwt-times.ts';
import { endOf } from '../expiry/lifetime.ts';
import type { IssuedToken, TokenRequest } from '../token-source.ts';
import type { Sealer } from './sealing.ts';

/** The sealed content of a token: what another replica's registry needs to compute the same expiry. */
export interface SharedToken extends IssuedToken {
  /** The fleet's time just before the token was requested. */
  readonly requestedAtUs: number;
  /** By the policy of the replica that requested it. `Infinity`: until rejected. */
  readonly lifetimeMs: number;
}

/** The last part of a lifetime, in which a token is no longer shared: it would expire in transit. */
const LAST_OF_LIFE = { share: 0.05, maxMs: 1_000 } as const;

/** How far apart two replicas' estimates of the fleet's time may be while they differ from the server's clock. */
const MAX_SKEW_MS = 1_000;

/** The sealed JSON: `null` stands for `Infinity`, and the names of the fields that held the token for its copies in the response. */
type WireToken = Omit<SharedToken, 'lifetimeMs'> & { readonly lifetimeMs: number | null; readonly own: string[] };

/**
 * A token of this replica, sealed for the others. Undefined if it must not or cannot be shared.
 *
 * @param at the fleet's time just before the token was requested, and the server's clock then.
 */
export function sealToken(
  sealer: Sealer,
  context: string,
  { token, tokenType, serviceTimeMs, response: fields = {} }: IssuedToken,
  request: TokenRequest,
  { requestedAtUs, serverUs }: { readonly requestedAtUs: number; readonly serverUs: number },
) {
  try {
    const lifetimeMs = request.lifetimeMs({ token, tokenType, serviceTimeMs, response: fields });
    const [own, others]: [string[], [string, unknown][]] = [[], []];
    for (const entry of Object.entries(fields)) {
      if (entry[1] === token) own.push(entry[0]);
      else others.push(entry);
    }
    const response = Object.fromEntries(others);
    const wire: WireToken = { token, tokenType, serviceTimeMs, response, own, requestedAtUs, lifetimeMs };
    const usableUntilUs = Math.floor(serverUs + (endOf(0, lifetimeMs) - lastMsOf(lifetimeMs)) * 1000);
    const sealed = sealer.seal(wire, context);
    return sealed && { sealed, usableUntilUs };
  } catch {
    // A policy that throws, or a response that is not JSON: the registry reports it.
    return undefined;
  }
}

/** Undefined if it cannot be decrypted. Only a replica with our key could have sealed it. */
export function openToken(sealer: Sealer, context: string, sealed: string): SharedToken | undefined {
  const wire = sealer.open(sealed, context) as WireToken | undefined;
  if (!wire) return undefined;
  const { own, ...shared } = wire;
  const response = { ...wire.response, ...Object.fromEntries(own.map((field) => [field, wire.token])) };
  return { ...shared, response, lifetimeMs: wire.lifetimeMs ?? Infinity };
}

const lastMsOf = (lifetimeMs: number) => Math.min(lifetimeMs * LAST_OF_LIFE.share, LAST_OF_LIFE.maxMs);

/**
 * The token for this replica's registry. Undefined if it has expired, or if this replica's policy gives it no correct expiry
 * in any form.
 *
 * @param at its age by the fleet's time; this replica's wall clock just before it read the record, from which the age
 * counts back; and that clock now.
 * @param lifetimeOf the lifetime by this replica's policy.
 */
export function issuedTokenFrom(
  { requestedAtUs: _, lifetimeMs, ...shared }: SharedToken,
  { ageMs, askedAtMs, nowMs }: { readonly ageMs: number; readonly askedAtMs: number; readonly nowMs: number },
  lifetimeOf: (issued: IssuedToken) => number,
): IssuedToken | undefined {
  // Until this replica has heard the fleet's time, after the server's clock was set back.
  if (!(ageMs >= -MAX_SKEW_MS)) return undefined;
  const issuedAt = (atMs: number) => ({ ...shared, requestedAtMs: Math.floor(atMs) });
  let issued = issuedAt(askedAtMs - Math.max(0, ageMs));
  const sealedEndMs = issued.requestedAtMs + lifetimeMs;
  let ownMs = lifetimeOf(issued);
  if (ownMs > lifetimeMs) {
    issued = issuedAt(sealedEndMs - ownMs);
    ownMs = lifetimeOf(issued);
  }
  const endsAtMs = endOf(issued.requestedAtMs, ownMs);
  // Also false for NaN, where this policy has no end and the sealed token has one.
  if (!(endsAtMs <= sealedEndMs && endsAtMs > nowMs + lastMsOf(lifetimeMs))) return undefined;
  // Without the service's time, a registry refuses a JWT past its `exp`, unless its policy keeps tokens until they are rejected.
  const isUnbound = ownMs === Infinity || shared.serviceTimeMs !== undefined;
  const statedEndMs = isUnbound ? undefined : jwtTimes(shared.token)?.expiresAtMs;
  return statedEndMs !== undefined && statedEndMs <= nowMs ? undefined : issued;
}
