/**
 * What a failed HTTP exchange says about itself: its kind, the error code that follows, how long to wait. Pure. The token
 * endpoint describes its own exchanges with it, and `foreign-error.ts` those of other HTTP clients, so both are
 * classified alike:
 *
 * | failure | code |
 * |---|---|
 * | no connection, or no secure one; timeout, reset; 407, 408, 421, 425, 5xx | `endpoint_unavailable` |
 * | redirect | `redirect_refused` |
 * | 429 | `rate_limited` |
 * | 4xx with an OAuth error code | `owner_refused` or `client_refused`, by the code |
 * | 4xx with an HTML page: a gateway answered, not the service | `invalid_response` |
 * | 405, 415 | `client_refused` |
 * | other 4xx | `owner_refused` |
 * | unusable response | `invalid_response` |
 */

import type { OwnerTokenErrorCode } from './errors.ts';
import { property } from './own-property.ts';

/** The facts of a failed exchange. */
export interface HttpFailure {
  /** `status` if a response outside 200 to 299 began, `body` if a response cannot be used. */
  readonly kind: 'network' | 'tls' | 'timeout' | 'status' | 'body';
  /** Undefined if there was no response, or if the client hides the status of a redirect. */
  readonly status?: number | undefined;
  /** The code of an OAuth error response. */
  readonly oauthError?: string | undefined;
  /** Parsed JSON, or text. */
  readonly body?: unknown;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/**
 * About the connection or the endpoint's state (proxy authentication, timeout, misdirected, too early), not the owner.
 */
const ENDPOINT_STATUSES: readonly number[] = [407, 408, 421, 425];

/** The method or media type is wrong for every owner. */
const REQUEST_STATUSES: readonly number[] = [405, 415];

/** The error code of a failed exchange; see the table above. */
export function codeOfFailure({ kind, status, oauthError, body }: HttpFailure): OwnerTokenErrorCode {
  const refusal = refusalOf(oauthError);
  if (kind === 'body') return refusal ?? 'invalid_response';
  if (kind !== 'status') return 'endpoint_unavailable';
  // Even a 304, which refers to a cached response: there is none.
  if (status === undefined || (status >= 300 && status <= 399)) return 'redirect_refused';
  if (status === 429) return 'rate_limited';
  if (status < 400 || status > 499 || ENDPOINT_STATUSES.includes(status)) return 'endpoint_unavailable';
  if (refusal) return refusal;
  if (isHtml(body)) return 'invalid_response';
  return REQUEST_STATUSES.includes(status) ? 'client_refused' : 'owner_refused';
}

/**
 * The error message. It quotes nothing from the response except an OAuth error code.
 *
 * @param service its name in the message, and the setting that holds its URL.
 * @param error what interrupted the exchange.
 * @param problem why a complete body cannot be used.
 */
export function messageOf(
  service: { readonly name: string; readonly url: string },
  failure: HttpFailure,
  error: unknown,
  problem = 'it is too large, garbled or badly encoded',
): string {
  const { kind, status, oauthError } = failure;
  const responded = `${service.name} responded${status ? ` with ${status}` : ''}${oauthError ? ` (${oauthError})` : ''}`;
  if (codeOfFailure(failure) === 'redirect_refused') {
    return `${service.name} redirects, and credentials are not forwarded: check ${service.url}`;
  }
  switch (kind) {
    case 'status':
      return `${responded}${hintOn(failure, service.url)}`;
    case 'timeout':
      return `${service.name} did not respond in time`;
    case 'body':
      return refusalOf(oauthError) ? responded : `unusable response from ${service.name}: ${problem}`;
    case 'tls':
      return `could not establish a secure connection to ${service.name}`;
    case 'network':
      return status === undefined && isUnreached(error)
        ? `could not connect to ${service.name}`
        : `the connection to ${service.name} broke`;
  }
}

function hintOn({ status, oauthError, body }: HttpFailure, url: string): string {
  if (status === 404 && !refusalOf(oauthError)) return `: check ${url}`;
  if (status === 407) return ': the proxy in between requires authentication';
  return isHtml(body) ? ' and an HTML page: a gateway answered, not the service' : '';
}

/**
 * The OAuth error codes that tell whether the owner or the client is refused.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
const REFUSALS: ReadonlyMap<string, 'owner_refused' | 'client_refused'> = new Map([
  ['invalid_grant', 'owner_refused'],
  ['invalid_scope', 'owner_refused'],
  ['access_denied', 'owner_refused'],
  ['invalid_client', 'client_refused'],
  ['unauthorized_client', 'client_refused'],
  ['invalid_request', 'client_refused'],
  ['unsupported_grant_type', 'client_refused'],
]);

export const refusalOf = (oauthError: string | undefined) => REFUSALS.get(oauthError ?? '');

/** Whether a body is an HTML page, by its first element: some services send JSON as `text/html`. */
export function isHtml(body: unknown): boolean {
  return typeof body === 'string' && HTML.test(body.slice(0, MAX_HTML_PREFIX));
}

/** An XML declaration, comments and white space may come first. */
const HTML = /^\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html|head|title|body|center|h1)\b/is;
const MAX_HTML_PREFIX = 1_024;

/**
 * `Retry-After` in milliseconds from now: seconds, or a date in any of the three forms that recipients must accept.
 * Undefined for anything else. Never negative; the caller decides what is too long.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3 RFC 9110 §10.2.3}
 */
export function retryAfterMsOf(retryAfter: string | undefined, nowMs: number): number | undefined {
  const value = retryAfter?.trim() ?? '';
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : httpDateMs(value) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), Number.MAX_SAFE_INTEGER);
}

/** @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7 RFC 9110 §5.6.7} */
function httpDateMs(value: string): number {
  if (/^[A-Z][a-z]{2,8}, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT$/.test(value))
    return Date.parse(value);
  const isAsctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/.test(value);
  return isAsctime ? Date.parse(`${value} GMT`) : Number.NaN;
}

/** undici ends a request with UND_ERR_ABORTED if its proxy refuses the tunnel, with a 407 for example. */
const UNREACHED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_[A-Z]+|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL|UND_ERR_ABORTED)$/;

/**
 * The failure kind of each error code: first the codes of Node's sockets, TLS, HTTP parser, zlib and brotli, of undici, and
 * our own; then the codes and names that HTTP clients replace them with.
 */
const KIND_OF_CODE: readonly (readonly [RegExp, HttpFailure['kind']])[] = [
  [/^ERR_REDIRECTED$/, 'status'],
  [/^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MIS)/, 'tls'],
  [/^(INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)$|^ERROR_IN_C/, 'tls'],
  [/^(ETIMEDOUT|ESOCKETTIMEDOUT|UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT)$/, 'timeout'],
  // HPE_INVALID_EOF_STATE is a truncated response: the connection broke.
  [/^(HPE_(?!INVALID_EOF_STATE$)|Z_|ERR_(BROTLI|_ERROR)_|UND_ERR_(HEADERS_OVERFLOW|RES_|RESPONSE))/, 'body'],
  [/^(ERR_BUFFER_TOO_LARGE|ERR_UNUSABLE_BODY|HTTPParserError)$/, 'body'],
  [UNREACHED, 'network'],
  [/^(ECONNRESET|EPIPE|ERR_NETWORK|UND_ERR_(SOCKET|CLOSED|DESTROYED)|HPE_INVALID_EOF_STATE)$/, 'network'],
  [/^(ERR_STREAM_PREMATURE_CLOSE|ERR_HTTP2_[A-Z_]+|ERR_PROXY_TUNNEL)$/, 'network'],
  [/^(TimeoutError|ECONNABORTED|OAUTH_TIMEOUT)$/, 'timeout'],
  // A SyntaxError is that of JSON.parse: a program has no other once it runs.
  [/^(SyntaxError|ERR_BODY_PARSE_FAILURE|OAUTH_(RESPONSE_IS_NOT_[A-Z]+|PARSE_ERROR|INVALID_RESPONSE))$/, 'body'],
];

/** The failure kind of an error: that of the first row that matches a code of the error or of its causes. */
export function kindOfError(error: unknown): HttpFailure['kind'] | undefined {
  const codes = codesOf(error);
  return KIND_OF_CODE.find(([pattern]) => codes.some((code) => pattern.test(code)))?.[1];
}

/** Whether the error code shows that no connection was established; a `fetch` gives no other evidence. */
function isUnreached(error: unknown): boolean {
  return codesOf(error).some((code) => UNREACHED.test(code));
}

/**
 * The codes of an error and its causes. Names count as codes because undici's parser errors have no
 * code in Node 24. `fetch failed` wraps an AggregateError with one error per address.
 */
function codesOf(error: unknown, depth = 0): string[] {
  if (typeof error !== 'object' || error === null || depth > 4) return [];
  const own = [property(error, 'code'), property(error, 'name')].filter((each) => typeof each === 'string');
  const errors = property(error, 'errors');
  const inner = [property(error, 'cause'), ...(Array.isArray(errors) ? errors.slice(0, 8) : [])];
  return [...own, ...inner.flatMap((each) => codesOf(each, depth + 1))];
}
