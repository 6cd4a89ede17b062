/**
 * What a failed HTTP exchange shows: its kind, the error code that follows, how long to wait. Pure. The token endpoint
 * describes its own exchanges with it, and `foreign-error.ts` those of other HTTP clients, so both are classified alike:
 *
 * | failure | code |
 * |---|---|
 * | no connection, or no secure one; timeout, reset; 407, 408, 421, 425, 5xx | `endpoint_unavailable` |
 * | the OAuth error code `temporarily_unavailable`, `server_error` or `slow_down` | `endpoint_unavailable` |
 * | redirect | `redirect_refused` |
 * | 429 | `rate_limited` |
 * | 4xx with an OAuth error code | `owner_refused` or `client_refused`, by the code |
 * | 4xx with an HTML page: a gateway answered, not the service | `invalid_response` |
 * | 405, 415; 401 with a challenge, and a body that its client did not read | `client_refused` |
 * | other 4xx | `owner_refused` |
 * | unusable response | `invalid_response` |
 */

import { isOutage, refusalCodeOf } from './errors/oauth-error.ts';
import type { OwnerTokenErrorCode } from './errors/owner-token-error.ts';
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
  /** Whether the response has `WWW-Authenticate` and its client left the body, which has the OAuth error code, unread. */
  readonly isChallenge?: boolean;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Statuses that concern the connection or the endpoint (timeout, misdirected, too early), not the owner. */
const ENDPOINT_STATUSES: readonly number[] = [408, 421, 425];

/** The method or media type is wrong for every owner. */
const REQUEST_STATUSES: readonly number[] = [405, 415];

/**
 * The error code of a failed exchange, see the table above, and a message that quotes nothing from the response except an
 * OAuth error code.
 *
 * @param service its name in the message, and the setting that holds its URL.
 * @param problem why a complete body cannot be used.
 */
export function describeFailure(
  { name, url }: { readonly name: string; readonly url: string },
  { kind, status, oauthError, body, isChallenge }: HttpFailure,
  problem = 'it is too large, garbled or badly encoded',
): [code: OwnerTokenErrorCode, message: string] {
  const refusal = refusalCodeOf(oauthError);
  const responded = `${name} responded${status ? ` with ${status}` : ''}${oauthError ? ` (${oauthError})` : ''}`;
  if (kind === 'network') return ['endpoint_unavailable', `the connection to ${name} failed`];
  if (kind === 'tls') return ['endpoint_unavailable', `could not establish a secure connection to ${name}`];
  if (kind === 'timeout') return ['endpoint_unavailable', `${name} did not respond in time`];
  if (kind === 'body') {
    if (isOutage(oauthError)) return ['endpoint_unavailable', responded];
    return refusal ? [refusal, responded] : ['invalid_response', `unusable response from ${name}: ${problem}`];
  }
  // Even a 304, which refers to a cached response: there is none.
  if (status === undefined || (status >= 300 && status <= 399)) {
    return ['redirect_refused', `${name} redirects, and credentials are not forwarded: check ${url}`];
  }
  if (status === 429) return ['rate_limited', responded];
  if (status === 407) {
    return ['endpoint_unavailable', `a proxy on the way to ${name} responded with 407: check its credentials`];
  }
  const isEndpoints = status < 400 || status > 499 || ENDPOINT_STATUSES.includes(status) || isOutage(oauthError);
  if (isEndpoints) return ['endpoint_unavailable', responded];
  if (refusal) return [refusal, responded];
  if (isHtml(body)) {
    return ['invalid_response', `${responded} and an HTML page: a gateway answered, not the service; check ${url}`];
  }
  if (REQUEST_STATUSES.includes(status) || (status === 401 && isChallenge)) return ['client_refused', responded];
  return ['owner_refused', status === 404 ? `${responded}: check ${url}` : responded];
}

/** Whether a body is an HTML page, by its first element: some services send JSON as `text/html`. */
export function isHtml(body: unknown): boolean {
  return typeof body === 'string' && HTML.test(body.slice(0, MAX_HTML_PREFIX));
}

/** An XML declaration, comments and white space may come first. */
const HTML = /^(\s|<\?xml[^>]*>|<!--((?!-->).)*-->)*<(!doctype\s+html|html|head|title|body|center|h1)\b/is;
const MAX_HTML_PREFIX = 1_024;

/**
 * `Retry-After` in milliseconds: seconds, fractions included, or a date. A date counts from the `Date` of the same response,
 * because the service's clock and ours may differ. Some services send the date as Unix time, which is too large to be a
 * number of seconds to wait. If a proxy has joined two headers, the first one counts. Undefined for anything else,
 * 0 and the past included; the caller decides what is too long.
 *
 * @param date the `Date` header.
 * @param nowMs epoch ms by our clock, for a response without `Date`.
 * @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3 RFC 9110 §10.2.3}
 */
export function retryAfterMsOf(
  { retryAfter, date }: { readonly retryAfter?: string | undefined; readonly date?: string | undefined },
  nowMs: number,
): number | undefined {
  const answeredAtMs = dateMsOf(date) ?? nowMs;
  const [, seconds] = DELAY.exec(beginningOf(retryAfter)) ?? [];
  let ms = seconds === undefined ? (dateMsOf(retryAfter) ?? Number.NaN) - answeredAtMs : Number(seconds) * 1_000;
  if (Number(seconds) >= MIN_UNIX_TIME && Math.abs(ms - answeredAtMs) < DAY_MS) ms -= answeredAtMs;
  return ms > 0 ? Math.min(ms, Number.MAX_SAFE_INTEGER) : undefined;
}

const DELAY = /^(\d+(?:\.\d*)?)(?: ?s(?:ec(?:onds?)?)?)?(?: *,.*)?$/i;
const DAY_MS = 86_400_000;
const MIN_UNIX_TIME = 1e9;

/** As much of a header as a date needs, so that a long header costs nothing. */
const beginningOf = (value: string | undefined): string => value?.trim().slice(0, 100) ?? '';

/**
 * The epoch milliseconds of a date in a header: in any of the three forms that recipients must accept, in a time zone other
 * than GMT, or in ISO 8601. Undefined if it cannot be read.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7 RFC 9110 §5.6.7}
 */
export function dateMsOf(value: string | undefined): number | undefined {
  const [, iso, date, zone] = DATE.exec(beginningOf(value)) ?? [];
  const ms = Date.parse(iso ?? `${date} ${zone ?? 'GMT'}`);
  return Number.isNaN(ms) ? undefined : ms;
}

const DATE =
  /^(?:(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))|((?:[a-z]+,? )?[\w -]+ \d\d:\d\d:\d\d(?: \d{4})?)(?: (GMT|UTC|[+-]\d{4}))?)(?:,.*)?$/i;

/**
 * The status of a proxy that refused a tunnel for lack of valid credentials. undici's `ProxyAgent` and Node's environment
 * proxy report it only in the message.
 */
export function proxyStatusIn(error: unknown, depth = 0): 407 | undefined {
  if (typeof error !== 'object' || error === null || depth > 4) return undefined;
  const isProxys = /^Proxy response \(407\)|tunnel.* via .*\b407\b/is.test(
    String(property(error, 'message')).slice(0, 500),
  );
  return isProxys ? 407 : proxyStatusIn(property(error, 'cause'), depth + 1);
}

/**
 * The failure kind of each error code: those of Node's sockets, TLS, HTTP parser, zlib and brotli, of undici and other
 * HTTP clients, and our own.
 */
const KIND_OF_CODE: readonly (readonly [RegExp, HttpFailure['kind']])[] = [
  [/^ERR_REDIRECTED$/, 'status'],
  [/^(ERR_(TLS|SSL|OSSL)_|EPROTO$|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MIS)/, 'tls'],
  [/^(INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)$|^ERROR_IN_C/, 'tls'],
  [/^(E(SOCKET)?TIMEDOUT|ERR_STOOD_STILL|UND_ERR_[A-Z]+_TIMEOUT|TimeoutError|ECONNABORTED|OAUTH_TIMEOUT)$/, 'timeout'],
  // HPE_INVALID_EOF_STATE is a truncated response: the connection broke.
  [/^(HPE_(?!INVALID_EOF_STATE$)|HTTPParserError$|Z_|ERR_(BROTLI|_ERROR)_|ERR_BUFFER_TOO_LARGE$)/, 'body'],
  // A SyntaxError comes from JSON.parse: a running program throws no other.
  [/^(ERR_UNUSABLE_BODY|UND_ERR_(HEADERS_OVERFLOW|RES[A-Z_]+)|SyntaxError|ERR_BODY_PARSE_FAILURE)$/, 'body'],
  [/^OAUTH_(RESPONSE_IS_NOT_[A-Z]+|PARSE_ERROR|INVALID_RESPONSE)$|^token_parsing_error$/, 'body'],
  [/^(E(CONNREFUSED|CONNRESET|PIPE|ADDRNOTAVAIL|NOTFOUND)|E(HOST|NET)(UNREACH|DOWN)|EAI_[A-Z]+)$/, 'network'],
  // undici ends a request with UND_ERR_ABORTED if its proxy refuses the tunnel, with a 407 for example.
  [/^(UND_ERR_(ABORTED|SOCKET|CLOSED|DESTROYED)|HPE_INVALID_EOF_STATE|ERR_NETWORK|ERR_PROXY_TUNNEL)$/, 'network'],
  [/^(ERR_(STREAM_PREMATURE_CLOSE|HTTP2_[A-Z_]+)|network_error)$/, 'network'],
];

/** The failure kind of an error: that of the first row that matches a code of the error or of its causes. */
export function kindOfError(error: unknown): HttpFailure['kind'] | undefined {
  const codes = codesOf(error);
  return KIND_OF_CODE.find(([pattern]) => codes.some((code) => pattern.test(code)))?.[1];
}

/**
 * The codes of an error and its causes. Names count as codes because undici's parser errors have no
 * code in Node 24. `fetch failed` wraps an AggregateError with one error per address.
 */
function codesOf(error: unknown, depth = 0): string[] {
  if (typeof error !== 'object' || error === null || depth > 4) return [];
  const own = ['code', 'errorCode', 'name']
    .map((name) => property(error, name))
    .filter((each) => typeof each === 'string');
  const errors = property(error, 'errors');
  const inner = [property(error, 'cause'), ...(Array.isArray(errors) ? errors.slice(0, 8) : [])];
  return [...own, ...inner.flatMap((each) => codesOf(each, depth + 1))];
}
