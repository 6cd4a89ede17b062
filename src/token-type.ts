/** What a token response states: the token and its type, and the authentication scheme that the type is sent with. */

import { properties } from './own-property.ts';
import type { TokenResponse } from './token-source.ts';

const RESPONSE_NAMES = ['access_token', 'token_type'] as const satisfies (keyof TokenResponse)[];

/**
 * In lower case.
 *
 * @see {@link https://www.iana.org/assignments/http-authschemes/http-authschemes.xhtml}
 */
const REGISTERED_SCHEMES: readonly string[] = [
  ...['basic', 'bearer', 'concealed', 'digest', 'dpop', 'gnap', 'hoba', 'mutual', 'negotiate', 'oauth', 'privatetoken'],
  ...['scram-sha-1', 'scram-sha-256', 'vapid'],
];

/**
 * The scheme to send. Many services answer `bearer` but accept only `Bearer`; others answer with something that is not a
 * scheme of their API, such as `BearerToken`, `jwt-bearer` or a URN.
 */
export function schemeOf(tokenType = 'Bearer'): string {
  const scheme = tokenType.trim();
  const isKept = REGISTERED_SCHEMES.includes(scheme.toLowerCase()) && scheme.toLowerCase() !== 'bearer';
  return isKept ? scheme : 'Bearer';
}

/** Whether a token type is a registered scheme. The others are not logged, because they could be an echo of what was sent. */
export function isRegistered(tokenType = 'Bearer'): boolean {
  return tokenType === '' || REGISTERED_SCHEMES.includes(tokenType.toLowerCase());
}

/**
 * Reads the token from a successful token response.
 * @throws {TypeError} that describes the problem without quoting the body.
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1}
 */
export function parseTokenResponse(body: unknown): { token: string; tokenType?: string } {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new TypeError('it is not a JSON object');
  const { access_token: token, token_type: tokenType } = properties(body, RESPONSE_NAMES);
  if (typeof token !== 'string') throw new TypeError('access_token is missing or not a string: see parseResponse');
  return { token, ...(typeof tokenType === 'string' && tokenType !== '' && { tokenType }) };
}
