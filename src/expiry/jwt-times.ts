/** The `iat` and `exp` claims of a JWT access token, read without verifying the signature. */

/** Longer than any token that fits in a header; longer input is never decoded. */
const MAX_JWT_LENGTH = 16_384;

/** The range of JavaScript dates. */
const MAX_DATE_MS = 8.64e15;

/**
 * The `iat` and `exp` of a JWT; `undefined` for anything else. Never throws. The claims are unverified, so use them
 * only to trust a token less.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4 RFC 7519 §4.1.4, exp}
 */
export function jwtTimes(token: string): { issuedAtMs?: number; expiresAtMs?: number } | undefined {
  const encoded = token.length > MAX_JWT_LENGTH ? undefined : /^[\w-]+\.([\w-]+)\.[\w-]*$/.exec(token)?.[1];
  if (encoded === undefined) return undefined;
  const claims = claimsIn(encoded);
  if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) return undefined;
  const issuedAtMs = instantOf(claims, 'iat');
  const expiresAtMs = instantOf(claims, 'exp');
  return { ...(issuedAtMs !== undefined && { issuedAtMs }), ...(expiresAtMs !== undefined && { expiresAtMs }) };
}

function claimsIn(encoded: string): unknown {
  const json = Buffer.from(encoded, 'base64url').toString('utf8');
  let claims: unknown;
  try {
    claims = JSON.parse(json);
  } catch {
    // Not a JWT: there are no claims.
  }
  return claims;
}

/**
 * A NumericDate claim (seconds, a fraction allowed) as epoch milliseconds; `undefined` for anything else.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc7519#section-2 RFC 7519 §2, NumericDate}
 */
function instantOf(claims: object, name: 'iat' | 'exp'): number | undefined {
  const claim = Object.hasOwn(claims, name) ? (claims as Record<string, unknown>)[name] : undefined;
  if (typeof claim !== 'number') return undefined;
  const atMs = claim * 1000;
  return Math.abs(atMs) <= MAX_DATE_MS ? atMs : undefined;
}
