/**
 * Classifies a failed exchange: which error it is, and which scope it stops. Pure.
 *
 * | failure | code | scope |
 * |---|---|---|
 * | no connection, or no secure one; 407 | `endpoint_unavailable` | endpoint: no owner can be the cause |
 * | redirect | `redirect_refused` | endpoint |
 * | 429 | `rate_limited` | endpoint |
 * | 4xx with an OAuth error code | `owner_refused` or `client_refused` | owner or client, by the code |
 * | 405, 415 | `client_refused` | client: the request itself is wrong |
 * | other 4xx | `owner_refused` | ambiguous: owner, then client |
 * | timeout, reset, 408, 421, 425, 5xx | `endpoint_unavailable` | ambiguous: owner, then endpoint |
 * | unusable response | `invalid_response` | ambiguous: owner, then endpoint |
 *
 * An ambiguous failure stops its owner at first and escalates when other owners fail in the same way.
 */

import {
  codeInScope,
  type FailureScope,
  looksLikeOauthError,
  OwnerTokenError,
  type OwnerTokenErrorCode,
} from '../errors.ts';
import { type ExchangeResult, isRedirect } from './http-exchange.ts';

/**
 * The argument of `classifyFailure`. It may contain secrets that the service sent back, so do not log it.
 *
 * @example
 * ```ts
 * const classifyFailure = ({ status, oauthError }: EndpointFailure) =>
 *   status === 400 && oauthError === 'unknown_tenant' ? 'owner' : undefined; // undefined: the default
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, classifyFailure });
 * ```
 */
export interface EndpointFailure {
  /**
   * `network`: no connection, or a broken one. `tls`: no secure connection. `timeout`: the deadline passed. `status`: a
   * response outside 200 to 299, even if its body was incomplete. `body`: a 2xx response that cannot be used, or a
   * response that is not HTTP.
   */
  readonly kind: 'network' | 'tls' | 'timeout' | 'status' | 'body';
  /** The HTTP status, if there was a response. */
  readonly status?: number | undefined;
  /**
   * The `error` of an OAuth error response, unless it may be an echo of what was sent.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
   */
  readonly oauthError?: string | undefined;
  /** `Retry-After` in milliseconds from now, 0 or more. */
  readonly retryAfterMs?: number | undefined;
  /** The body: parsed JSON, or text. Undefined if it is incomplete. */
  readonly body?: unknown;
}

/** What a complete body contains, and why it cannot be used. */
export interface UnusableBody {
  /** Parsed JSON, or text. */
  readonly body?: unknown;
  /** Does not quote the body. */
  readonly problem?: string | undefined;
}

export interface ClassifyOptions {
  /** Epoch ms. */
  readonly nowMs: number;
  /** Every value that was sent; none may appear in the error. */
  readonly sent: readonly string[];
  readonly classifyFailure?: ((failure: EndpointFailure) => FailureScope | undefined) | undefined;
}

/** The error for a failed exchange. What `classifyFailure` returns overrides the default scope. */
export function classify(
  result: ExchangeResult,
  { body, problem }: UnusableBody,
  { nowMs, sent, classifyFailure }: ClassifyOptions,
): OwnerTokenError {
  const { status, error: cause } = result;
  const oauthError = oauthErrorOf(body, sent);
  const retryAfterMs = retryAfterMsOf(result.retryAfter, nowMs);
  const failure: EndpointFailure = { kind: kindOf(result, problem), status, oauthError, retryAfterMs, body };
  const facts = { status, oauthError, retryAfterMs, failedAtMs: nowMs, cause };
  const code = codeOf(failure);
  const concernsAll = concernsEveryOwner(failure, result);
  const message = messageOf(failure, code, concernsAll, problem);
  try {
    const given = classifyFailure?.(failure);
    if (given !== undefined) {
      return new OwnerTokenError(codeInScope(code, given), message, { ...facts, failureScope: given });
    }
  } catch (thrown) {
    const wrong = 'classifyFailure threw, or returned something other than a failure scope';
    return new OwnerTokenError('source_failed', wrong, { ...facts, cause: thrown });
  }
  return new OwnerTokenError(code, message, { ...facts, failureScope: concernsAll ? 'endpoint' : undefined });
}

/** A non-2xx status decides, even if its body was interrupted. */
function kindOf({ status, error }: ExchangeResult, problem: string | undefined): EndpointFailure['kind'] {
  if (status !== undefined && !isSuccess(status)) return 'status';
  return problem === undefined ? kindOfError(error) : 'body';
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

function codeOf({ kind, status, oauthError }: EndpointFailure): OwnerTokenErrorCode {
  const refusal = refusalOf(oauthError);
  if (kind === 'body') return refusal ?? 'invalid_response';
  if (kind !== 'status') return 'endpoint_unavailable';
  if (status === undefined || isRedirect(status)) return 'redirect_refused';
  if (status === 429) return 'rate_limited';
  if (status < 400 || status > 499 || ENDPOINT_STATUSES.includes(status)) return 'endpoint_unavailable';
  return refusal ?? (REQUEST_STATUSES.includes(status) ? 'client_refused' : 'owner_refused');
}

/** No owner can be the cause: no connection, no secure one, or a proxy in between that refuses. */
function concernsEveryOwner({ kind, status }: EndpointFailure, { unreached, error }: ExchangeResult): boolean {
  return kind === 'tls' || status === 407 || (kind === 'network' && (unreached === true || isUnreached(error)));
}

function messageOf(
  { kind, status, oauthError }: EndpointFailure,
  code: OwnerTokenErrorCode,
  concernsAll: boolean,
  problem: string | undefined,
): string {
  const answered = `the token endpoint responded with ${status}${oauthError ? ` (${oauthError})` : ''}`;
  if (code === 'redirect_refused') {
    return 'the token endpoint redirects, and credentials are not forwarded: check baseUrl';
  }
  switch (kind) {
    case 'status':
      return status === 404 && !refusalOf(oauthError) ? `${answered}: check baseUrl` : answered;
    case 'timeout':
      return 'the token endpoint did not respond in time';
    case 'body':
      if (code !== 'invalid_response') return answered;
      return `unusable response from the token endpoint: ${problem ?? 'it is too large, garbled or badly encoded'}`;
    case 'tls':
      return 'could not establish a secure connection to the token endpoint';
    case 'network':
      if (concernsAll) return 'could not connect to the token endpoint';
      return 'the connection to the token endpoint broke';
  }
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

const refusalOf = (oauthError: string | undefined) => REFUSALS.get(oauthError ?? '');

/**
 * The `error` of an OAuth error response. Services echo what they were sent in odd places, so a non-standard code is
 * dropped if it is part of a sent value, or contains one of at least six characters (shorter ones occur in many words).
 * The standard codes are public words and always kept.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function oauthErrorOf(body: unknown, sent: readonly string[]): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { error } = body as { error?: unknown };
  if (!looksLikeOauthError(error)) return undefined;
  if (refusalOf(error)) return error;
  const echoes = sent
    .map((value) => value.toLowerCase())
    .some((value) => value.includes(error) || (value.length >= MIN_ECHO_LENGTH && error.includes(value)));
  return echoes ? undefined : error;
}

const MIN_ECHO_LENGTH = 6;

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

/** The failure kind of the error codes of Node's sockets, TLS, HTTP parser, zlib and brotli, of undici, and our own. */
const KIND_OF_CODE: readonly (readonly [RegExp, EndpointFailure['kind']])[] = [
  [/^ERR_REDIRECTED$/, 'status'],
  [/^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MIS)/, 'tls'],
  [/^(INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)$|^ERROR_IN_C/, 'tls'],
  [/^(ETIMEDOUT|ESOCKETTIMEDOUT|UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT)$/, 'timeout'],
  // HPE_INVALID_EOF_STATE is a truncated response: the connection broke.
  [/^(HPE_(?!INVALID_EOF_STATE$)|Z_|ERR_(BROTLI|_ERROR)_|UND_ERR_(HEADERS_OVERFLOW|RES_|RESPONSE))/, 'body'],
  [/^(ERR_BUFFER_TOO_LARGE|ERR_UNUSABLE_BODY|HTTPParserError)$/, 'body'],
];

/** The failure kind of an error, by the first known code of the error and its causes. */
function kindOfError(error: unknown): EndpointFailure['kind'] {
  for (const code of codesOf(error)) {
    const kind = KIND_OF_CODE.find(([pattern]) => pattern.test(code))?.[1];
    if (kind) return kind;
  }
  return 'network';
}

/** Whether the error code shows that no connection was established; a `fetch` gives no other evidence. */
function isUnreached(error: unknown): boolean {
  return codesOf(error).some((code) => UNREACHED_CODES.test(code));
}

const UNREACHED_CODES =
  /^(ECONNREFUSED|ENOTFOUND|EAI_[A-Z]+|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL)$/;

/**
 * The codes of an error and its causes, outermost first. Names count as codes because undici's parser errors have no
 * code in Node 24. `fetch failed` wraps an AggregateError with one error per address.
 */
function codesOf(error: unknown, depth = 0): string[] {
  if (typeof error !== 'object' || error === null || depth > 4) return [];
  const { code, name, cause, errors } = error as Partial<Record<'code' | 'name' | 'cause' | 'errors', unknown>>;
  const own = [code, name].filter((each) => typeof each === 'string');
  const inner = [cause, ...(Array.isArray(errors) ? errors.slice(0, 8) : [])];
  return [...own, ...inner.flatMap((each) => codesOf(each, depth + 1))];
}
