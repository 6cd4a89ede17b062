/** The code of an OAuth error response: what it says, and whether it may be shown. */

/** The OAuth error codes that concern the owner, however many owners get them. */
const OWNER_REFUSALS: readonly unknown[] = ['invalid_grant', 'invalid_scope', 'access_denied'];

const CLIENT_REFUSALS: readonly unknown[] = [
  'invalid_client',
  'unauthorized_client',
  'invalid_request',
  'unsupported_grant_type',
];

/**
 * Whether an OAuth error code refuses the owner or the client; undefined for any other code.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function refusalCodeOf(oauthError: string | undefined): 'owner_refused' | 'client_refused' | undefined {
  if (OWNER_REFUSALS.includes(oauthError)) return 'owner_refused';
  return CLIENT_REFUSALS.includes(oauthError) ? 'client_refused' : undefined;
}

/** The OAuth error codes that mean "try later": of RFC 6749 §4.1.2.1, sent with any status, and of RFC 8628. */
const OUTAGES: readonly unknown[] = ['server_error', 'temporarily_unavailable', 'slow_down'];

/**
 * Whether an OAuth error code concerns the endpoint's state.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1 RFC 6749 §4.1.2.1}
 */
export function isOutage(oauthError: unknown): boolean {
  return OUTAGES.includes(oauthError);
}

/**
 * Whether a value has the shape of an OAuth error code. A key may have it too; see {@link shownCode}.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function looksLikeOauthError(value: unknown): value is string {
  return typeof value === 'string' && /^[a-z][a-z0-9_]{0,63}$/.test(value);
}

/** A code that has this many characters of a secret in a row repeats it. */
const MIN_ECHO_LENGTH = 6;

/**
 * The code, unless it is one of the service's own and may be an echo of what was sent: it contains a credential or a part of a
 * secret one, or is part of one. A code with digits is not shown either, since it may be a secret in hexadecimal or another
 * encoding.
 *
 * @param credentials by name. The client id is no secret: only all of it is an echo.
 */
export function shownCode(code: string | undefined, credentials: Readonly<Record<string, string>>): string | undefined {
  if (code === undefined || refusalCodeOf(code) || isOutage(code)) return code;
  const shown = plain(code);
  const isEcho = Object.entries(credentials).some(([name, value]) => {
    const sent = plain(value);
    const length = Math.min(name === 'clientId' ? sent.length : MIN_ECHO_LENGTH, sent.length, shown.length);
    return [...shown].some((_, at) => at + length <= shown.length && sent.includes(shown.slice(at, at + length)));
  });
  return isEcho || /\d/.test(code) ? undefined : code;
}

/** An echo may be in lower case, and have other punctuation. */
const plain = (text: string) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
