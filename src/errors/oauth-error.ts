/** What an OAuth error response says: its code, and its description. */

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
 * Whether a value has the shape of an OAuth error code: a few lower-case words. Services echo what they were sent in
 * odd places; keys and tokens do not have this shape.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function looksLikeOauthError(value: unknown): value is string {
  return typeof value === 'string' && /^[a-z]{2,20}(_[a-z]{2,20}){0,4}$/.test(value);
}

export const MAX_DESCRIPTION_LENGTH = 300;

/** Long enough to be a key or a token in some encoding. Ordinary words have no digits, and a UUID is usually a request ID. */
const OPAQUE = /[\w+/=%~.-]{24,}/g;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\.?$/i;

/**
 * The beginning of a description as one line of plain text. Control characters, which could change what a terminal shows, become
 * spaces, and long strings that are not words become `[removed]`. Undefined for markup, and for anything but text.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2, error_description}
 */
export function plainDescription(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const line = value
    .slice(0, MAX_DESCRIPTION_LENGTH)
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim();
  if (line === '' || /<[a-z!?/]/i.test(line)) return undefined;
  return line.replace(OPAQUE, (word) => (/[\d+/=%~]/.test(word) && !UUID.test(word) ? '[removed]' : word));
}
