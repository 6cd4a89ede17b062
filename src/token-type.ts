/** What a token response states: the token and its type, and the authentication scheme that the type is sent with. */

import { properties } from './own-property.ts';
import type { IssuedToken, TokenResponse } from './token-source.ts';

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

/** A few words of letters. A value of any other shape could be a misplaced secret. */
const PRINTABLE_TYPE = /^ ?[a-z]{1,20}([ _:./-][a-z]{1,20}){0,9} ?$/i;

/**
 * The scheme to send. Many services answer `bearer` but accept only `Bearer`; others answer with something that is not a
 * scheme of their API, such as `BearerToken`, `jwt-bearer` or a URN.
 */
export function schemeOf(tokenType = 'Bearer'): string {
  const scheme = tokenType.trim();
  const isKept = REGISTERED_SCHEMES.includes(scheme.toLowerCase()) && scheme.toLowerCase() !== 'bearer';
  return isKept ? scheme : 'Bearer';
}

/** Shorter tokens and keys, such as those of tests, occur in ordinary words. */
const MAX_PLAIN_LENGTH = 5;

/** The name in a log of a token type that is not a registered scheme; undefined for one that is. */
export function unregisteredType({ token, tokenType = 'Bearer' }: IssuedToken, accessKey: string): string | undefined {
  if (tokenType === '' || REGISTERED_SCHEMES.includes(tokenType.toLowerCase())) return undefined;
  const isEcho = (secret: string) =>
    secret.includes(tokenType.trim()) || (secret.length > MAX_PLAIN_LENGTH && tokenType.includes(secret));
  return PRINTABLE_TYPE.test(tokenType) && !isEcho(token) && !isEcho(accessKey) ? tokenType : 'unprintable';
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
