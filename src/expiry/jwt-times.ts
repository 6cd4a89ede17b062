/** The `iat` and `exp` claims of a JWT access token, read without verifying the signature. */

import { properties } from '../own-property.ts';

const CLAIMS = ['iat', 'exp'] as const;

/** The range of JavaScript dates. */
const MAX_DATE_MS = 8.64e15;

/**
 * The claims are a JSON object: its base64url form begins with `e`, or with `C`, `D` or `I` if white space comes first. So most
 * opaque tokens are never decoded.
 */
const JWT = /^[\w-]+\.([eCDI][\w-]+)\.[\w-]*$/;

/**
 * The `iat` and `exp` of a JWT, each undefined if it cannot be read; undefined if the token is not a JWT. Never throws. The
 * claims are unverified, so use them only to trust a token less.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4 RFC 7519 §4.1.4, exp}
 */
export function jwtTimes(
  token: string,
): { readonly issuedAtMs: number | undefined; readonly expiresAtMs: number | undefined } | undefined {
  const encoded = JWT.exec(token)?.[1];
  if (encoded === undefined) return undefined;
  try {
    const claims: object = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'));
    const { iat, exp } = properties(claims, CLAIMS);
    return { issuedAtMs: instantOf(iat), expiresAtMs: instantOf(exp) };
  } catch {
    // Not JSON.
    return undefined;
  }
}

/**
 * A NumericDate claim (seconds, a fraction allowed) as epoch milliseconds; `undefined` for anything else.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-2 RFC 7519 §2, NumericDate}
 */
function instantOf(claim: unknown): number | undefined {
  const isDate = typeof claim === 'number' && Math.abs(claim * 1000) <= MAX_DATE_MS;
  return isDate ? claim * 1000 : undefined;
}
