/** Token types, as services state them, and the authentication scheme that each is sent with. */

import type { IssuedToken } from './token.ts';

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
 * The scheme to send. Many services answer `bearer` but accept only `Bearer`; others answer with something else that is no scheme
 * of their API, such as `BearerToken`, `jwt-bearer` or a URN.
 */
export function schemeOf(tokenType = 'Bearer'): string {
  const scheme = tokenType.trim();
  const isKept = REGISTERED_SCHEMES.includes(scheme.toLowerCase()) && scheme.toLowerCase() !== 'bearer';
  return isKept ? scheme : 'Bearer';
}

/** Shorter tokens and keys, such as those of tests, occur in ordinary words. */
const MAX_PLAIN_LENGTH = 5;

/** What a token type that is no registered scheme may be called in a log; undefined for a registered one. */
export function unregisteredType({ token, tokenType = 'Bearer' }: IssuedToken, accessKey: string): string | undefined {
  if (tokenType === '' || REGISTERED_SCHEMES.includes(tokenType.toLowerCase())) return undefined;
  const isEcho = (secret: string) =>
    secret.includes(tokenType.trim()) || (secret.length > MAX_PLAIN_LENGTH && tokenType.includes(secret));
  return PRINTABLE_TYPE.test(tokenType) && !isEcho(token) && !isEcho(accessKey) ? tokenType : 'unprintable';
}
