/** The ready-made expiry policies, except the one that learns. */

import { systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { checkOptions, hasMethods, type OptionRules } from '../option-check.ts';
import { properties, property } from '../own-property.ts';
import type { IssuedToken } from '../token-source.ts';
import { exempt, overridesExp } from './exp-bound.ts';
import { jwtTimes } from './jwt-times.ts';
import { assessLifetime, type ExpiryPolicy, type StatedLifetime, type TokenAge } from './lifetime.ts';

const UNITS_MS = { ms: 1, s: 1000, min: 60_000 } as const;

const EXPIRES_IN_OPTIONS: OptionRules<ExpiresInOptions> = {
  field: {
    passes: (value) => typeof value === 'string' && value !== '',
    expected: 'the name of a field, or a path with dots',
    fallback: 'expires_in',
  },
  unit: {
    passes: (value) => typeof value === 'string' && Object.hasOwn(UNITS_MS, value),
    expected: "'ms', 's' or 'min'",
    fallback: 's',
  },
};

/**
 * Which response field holds the lifetime, and its unit.
 *
 * @example
 * ```ts
 * const options: ExpiresInOptions = { field: 'data.lifetime', unit: 'min' };
 * console.log(expiresIn(options).lifetimeMs({ token: 'x', response: { data: { lifetime: 5 } } })); // → 300000
 * ```
 */
export interface ExpiresInOptions {
  /** Name of the field, or a path such as `data.expires_in`. Default: `expires_in`. */
  field?: string | undefined;
  /** Unit of the number: `ms`, `s` or `min`. Default: `s`. */
  unit?: keyof typeof UNITS_MS | undefined;
}

/**
 * Reads the lifetime from the token response: a number, or a string that contains one. An absent field, or `null`, gives
 * `undefined`: the lifetime is unknown. Anything else gives `NaN`: it is malformed.
 *
 * The response may also say when to refresh. The field `refresh_in`, or else `refresh_after`, next to the lifetime and in the
 * same unit, is the latest refresh point ({@link StatedLifetime.refreshAfterMs}). No RFC defines these two.
 *
 * @throws {OwnerTokenError} `invalid_options`
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1, expires_in}
 * @see {@link https://github.com/AzureAD/microsoft-authentication-library-for-js/blob/dev/lib/msal-common/src/response/ServerAuthorizationTokenResponse.ts
 * MSAL, refresh_in}
 *
 * @example
 * ```ts
 * const expiry = expiresIn({ field: 'valid_for' });
 * console.log(expiry.lifetimeMs({ token: 'x', response: { valid_for: 60 } })); // → 60000
 * ```
 */
export function expiresIn(given: ExpiresInOptions = {}): ExpiryPolicy {
  const options = checkOptions('expiresIn', given, EXPIRES_IN_OPTIONS) as {
    field: string;
    unit: keyof typeof UNITS_MS;
  };
  const path = options.field.split('.');
  const field = path.pop() as string;
  const names = [field, 'refresh_in', 'refresh_after'];
  const unitMs = UNITS_MS[options.unit];
  return {
    lifetimeMs({ response }) {
      let holder: unknown = response;
      for (const name of path) holder = property(holder, name);
      const { [field]: stated, refresh_in: refreshIn, refresh_after: refreshAfter } = properties(holder, names);
      if (stated == null) return undefined;
      const lifetimeMs = numberOf(stated) * unitMs;
      // 1e999 is valid JSON and parses as Infinity, which would mean "until rejected". Only a policy may state that.
      const finiteMs = Math.abs(lifetimeMs) === Infinity ? Math.sign(lifetimeMs) * Number.MAX_VALUE : lifetimeMs;
      const hint = refreshIn ?? refreshAfter;
      return hint == null ? finiteMs : { lifetimeMs: finiteMs, refreshAfterMs: numberOf(hint) * unitMs };
    },
  };
}

function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^[+-]?\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : Number.NaN;
}

/**
 * Reads the lifetime from a JWT access token: `exp` − `iat`. If there is no `iat`: `exp` − the service's time if that is before
 * `exp`, or else the time of the request. The signature is not verified. Opaque tokens, and JWTs without a readable `exp`, give `undefined`.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4 RFC 7519 §4.1.4, exp}
 *
 * @example
 * ```ts
 * const claims = Buffer.from(JSON.stringify({ iat: 1_000, exp: 1_600 })).toString('base64url');
 * console.log(jwtExp().lifetimeMs({ token: `e30.${claims}.` })); // → 600000
 * ```
 */
export function jwtExp(): ExpiryPolicy {
  return {
    lifetimeMs({ token, requestedAtMs = systemClock.now(), serviceTimeMs = Infinity }) {
      const { issuedAtMs, expiresAtMs } = jwtTimes(token) ?? {};
      if (expiresAtMs === undefined) return undefined;
      return expiresAtMs - (issuedAtMs ?? (serviceTimeMs < expiresAtMs ? serviceTimeMs : requestedAtMs));
    },
  };
}

/**
 * Gives every token the same lifetime, whatever the response says, and even beyond the `exp` of a JWT.
 *
 * @param ms milliseconds, over 0 and up to ten years.
 * @throws {OwnerTokenError} `invalid_options`
 *
 * @example
 * ```ts
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, expiry: fixedLifetime(15 * 60_000) });
 * ```
 */
export function fixedLifetime(ms: number): ExpiryPolicy {
  if (typeof ms !== 'number' || assessLifetime(ms).problem || ms === Infinity) {
    throw new OwnerTokenError('invalid_options', 'fixedLifetime: expected milliseconds, over 0 and up to ten years');
  }
  return exempt({ lifetimeMs: () => ms });
}

/**
 * Keeps every token until it is rejected: for services whose tokens end only when a call is refused.
 *
 * @example
 * ```ts
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, expiry: untilRejected() });
 * console.log((await tokens.getToken(accessKey)).expiresAtMs); // → Infinity
 * ```
 */
export function untilRejected(): ExpiryPolicy {
  return { lifetimeMs: () => Infinity };
}

/**
 * Uses the first usable lifetime that one of these policies states. If none is usable, returns the first unusable one,
 * so that the registry can log what is wrong with it. Passes `accepted` and `rejected` to all of them.
 *
 * @throws {OwnerTokenError} `invalid_options`
 *
 * @example
 * ```ts
 * const expiry = firstKnown(expiresIn(), jwtExp(), fixedLifetime(60_000));
 * console.log(expiry.lifetimeMs({ token: 'opaque' })); // → 60000
 * ```
 */
export function firstKnown(...policies: ExpiryPolicy[]): ExpiryPolicy {
  if (policies.length === 0 || !policies.every((policy) => hasMethods(policy, 'lifetimeMs'))) {
    throw new OwnerTokenError('invalid_options', 'firstKnown: expected one or more policies with lifetimeMs(issued)');
  }
  const policy: ExpiryPolicy = {
    lifetimeMs(issued) {
      let unusable: number | StatedLifetime | undefined;
      for (const policy of policies) {
        const stated = policy.lifetimeMs(issued);
        if (!assessLifetime(stated).problem) return stated;
        unusable ??= stated;
      }
      return unusable;
    },
    // Omitted when unused, so that `accept()` can return early.
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
  const isUsed = (each: ExpiryPolicy, issued: IssuedToken) => !assessLifetime(each.lifetimeMs(issued)).problem;
  return exempt(policy, (issued) => {
    const used = policies.find((each) => isUsed(each, issued));
    return used !== undefined && overridesExp(used, issued, 0);
  });
}
