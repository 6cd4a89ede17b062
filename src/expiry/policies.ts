/**
 * How long a token lives. A policy says what it knows of a grant's lifetime; {@link assessLifetime} makes of any
 * statement the lifetime that counts, and {@link planLife} makes of that the two instants a token carries. Lifetimes
 * count from just before the request, so the time an answer took is never added to them.
 */

import { systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { hasMethods, OptionCheck } from '../option-check.ts';
import type { IssuedToken } from '../token.ts';

/** Says how long a token lives, and may learn from what becomes of it. */
export interface ExpiryPolicy {
  /**
   * The lifetime of this grant's token in milliseconds, counted from `requestedAtMs`, which the registry always sets.
   * May be asked more than once of the same grant. `undefined`: cannot tell. `Infinity`: until it is rejected.
   */
  lifetimeMs(grant: IssuedToken): number | undefined;
  /** A call with a token of this age succeeded. */
  accepted?(age: TokenAge): void;
  /** A token of this age was refused. */
  rejected?(age: TokenAge): void;
}

/** Which token it was, by fingerprints only, and how long ago it was requested. */
export interface TokenAge {
  readonly owner: string;
  readonly token: string;
  readonly ageMs: number;
}

/** The lifetime of a token of which no policy knows one: short enough to be safe, long enough not to hammer. */
export const DEFAULT_LIFETIME_MS = 300_000;

/** Ten years of 365 days. What is stated beyond it is a mistake, or an instant taken for a duration. */
export const MAX_LIFETIME_MS = 10 * 365 * 86_400_000;

/** What can be wrong with a stated lifetime. */
export type LifetimeProblem = 'absent' | 'unreadable' | 'not_positive' | 'absurd';

/**
 * What a policy said, as the lifetime that counts. A positive number up to ten years counts as it is, and so does
 * exactly `Infinity`, which a policy says on purpose. Everything else has a problem and counts as
 * {@link DEFAULT_LIFETIME_MS}.
 */
export function assessLifetime(stated: unknown): { lifetimeMs: number; problem?: LifetimeProblem } {
  const problem = problemOfLifetime(stated);
  return problem ? { lifetimeMs: DEFAULT_LIFETIME_MS, problem } : { lifetimeMs: stated as number };
}

function problemOfLifetime(stated: unknown): LifetimeProblem | undefined {
  if (stated === undefined) return 'absent';
  if (typeof stated !== 'number' || Number.isNaN(stated)) return 'unreadable';
  if (stated <= 0) return 'not_positive';
  return stated > MAX_LIFETIME_MS && stated !== Infinity ? 'absurd' : undefined;
}

/** The margin kept before the end: a share, so that a token of five seconds is still reused, and never over 10 s. */
const MARGIN_SHARE = 0.05;
const MAX_MARGIN_MS = 10_000;

/**
 * From a lifetime to the instants a token carries; of one without an end, neither comes. The refresh point is drawn
 * here, once per token, and stored.
 */
export function planLife(life: {
  requestedAtMs: number;
  lifetimeMs: number;
  /** Shares of the lifetime, over 0, between which the refresh point is drawn. */
  refreshWindow: readonly [number, number];
  random: () => number;
}): { refreshAtMs: number; expiresAtMs: number } {
  const { requestedAtMs, lifetimeMs, refreshWindow } = life;
  const [opens, closes] = refreshWindow;
  const share = opens + (closes - opens) * life.random();
  const expiresAtMs = requestedAtMs + lifetimeMs - Math.min(lifetimeMs * MARGIN_SHARE, MAX_MARGIN_MS);
  return { refreshAtMs: Math.min(requestedAtMs + lifetimeMs * share, expiresAtMs), expiresAtMs };
}

const UNITS_MS = { ms: 1, s: 1000, min: 60_000 } as const;

/** Where an answer states its lifetime, and in what. */
export interface ExpiresInOptions {
  /** Name of the field, or a path such as `data.expires_in`. Default `expires_in`. */
  field?: string;
  /** What its number counts: `ms`, `s` or `min`. Default `s`. */
  unit?: keyof typeof UNITS_MS;
}

/**
 * The lifetime that the answer states, as a number or a numeric string. An absent or null field is `undefined`; one
 * that holds anything else is `NaN`, so that a service that says nothing and one that says nonsense can be told apart.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1, expires_in}
 */
export function expiresIn(options: ExpiresInOptions = {}): ExpiryPolicy {
  const check = new OptionCheck('expiresIn', options, ['field', 'unit']);
  check.when('field', (value) => typeof value === 'string' && value !== '', 'the name of a field, or a path with dots');
  check.when('unit', (value) => typeof value === 'string' && Object.hasOwn(UNITS_MS, value), "'ms', 's' or 'min'");
  check.done();
  const path = (options.field ?? 'expires_in').split('.');
  const unitMs = UNITS_MS[options.unit ?? 's'];
  return {
    lifetimeMs({ response }) {
      const stated = valueAt(response, path);
      if (stated === undefined || stated === null) return undefined;
      const lifetimeMs = numberOf(stated) * unitMs;
      // 1e999 is valid JSON and reads as Infinity, which would mean "until rejected": only a policy may say that.
      return Math.abs(lifetimeMs) === Infinity ? Math.sign(lifetimeMs) * Number.MAX_VALUE : lifetimeMs;
    },
  };
}

function valueAt(from: unknown, path: readonly string[]): unknown {
  let value = from;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^[+-]?\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : Number.NaN;
}

/**
 * The lifetime that a JWT access token states of itself: `exp` − `iat`, or `exp` − the time of the request without
 * `iat`. Read without any check of the signature, because nothing is granted by it. Opaque tokens, and JWTs without a
 * readable `exp`: `undefined`.
 */
export function jwtExp(): ExpiryPolicy {
  return {
    lifetimeMs({ token, requestedAtMs = systemClock.now() }) {
      const { issuedAtMs = requestedAtMs, expiresAtMs } = jwtTimes(token) ?? {};
      return expiresAtMs === undefined ? undefined : expiresAtMs - issuedAtMs;
    },
  };
}

/** Longer than any token that a header can carry; no more than this is ever decoded. */
const MAX_JWT_LENGTH = 16_384;

/** The range of JavaScript dates, which is what other code makes of an instant. */
const MAX_DATE_MS = 8.64e15;

/**
 * The times that a JWT states of itself; `undefined` for whatever is no JWT. Never throws. Unverified: of use only to
 * trust a token less.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4 RFC 7519 §4.1.4, exp}
 */
export function jwtTimes(token: string): { issuedAtMs?: number; expiresAtMs?: number } | undefined {
  if (token.length > MAX_JWT_LENGTH) return undefined;
  const encoded = /^[\w-]+\.([\w-]+)\.[\w-]*$/.exec(token)?.[1];
  if (encoded === undefined) return undefined;
  let claims: unknown;
  try {
    claims = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) return undefined;
  const issuedAtMs = instantOf(valueAt(claims, ['iat']));
  const expiresAtMs = instantOf(valueAt(claims, ['exp']));
  return { ...(issuedAtMs !== undefined && { issuedAtMs }), ...(expiresAtMs !== undefined && { expiresAtMs }) };
}

/** A NumericDate (seconds, a fraction allowed) as epoch milliseconds; undefined for what is none. */
function instantOf(claim: unknown): number | undefined {
  if (typeof claim !== 'number') return undefined;
  const atMs = claim * 1000;
  return Math.abs(atMs) <= MAX_DATE_MS ? atMs : undefined;
}

/** Every token lives this long, whatever its answer says. */
export function fixedLifetime(ms: number): ExpiryPolicy {
  if (problemOfLifetime(ms) || ms === Infinity) {
    throw new OwnerTokenError('invalid_options', 'fixedLifetime: expected milliseconds, over 0 and up to ten years');
  }
  return { lifetimeMs: () => ms };
}

/** Every token is kept until it is rejected: for services that end tokens only by refusing them. */
export function untilRejected(): ExpiryPolicy {
  return { lifetimeMs: () => Infinity };
}

/**
 * The lifetime of the first policy that states a usable one; when none does, the first statement there was, so that its
 * problem can be told. Evidence goes to all of them.
 */
export function firstKnown(...policies: ExpiryPolicy[]): ExpiryPolicy {
  if (policies.length === 0 || !policies.every((policy) => hasMethods(policy, 'lifetimeMs'))) {
    throw new OwnerTokenError('invalid_options', 'firstKnown: expected one or more policies with lifetimeMs(grant)');
  }
  return {
    lifetimeMs(grant) {
      let unusable: number | undefined;
      for (const policy of policies) {
        const stated = policy.lifetimeMs(grant);
        if (!problemOfLifetime(stated)) return stated;
        unusable ??= stated;
      }
      return unusable;
    },
    // Left out where nobody listens: the registry spares each accepted call the trouble of telling.
    ...(policies.some(({ accepted }) => accepted) && {
      accepted: (age: TokenAge) => {
        for (const policy of policies) policy.accepted?.(age);
      },
    }),
    ...(policies.some(({ rejected }) => rejected) && {
      rejected: (age: TokenAge) => {
        for (const policy of policies) policy.rejected?.(age);
      },
    }),
  };
}
