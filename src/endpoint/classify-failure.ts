/**
 * From what an exchange came to, to the error that says what it stops. Pure: the table "Failures" of the guarantees, and
 * nothing else.
 *
 * - 429 stops the endpoint, a redirect too, and so does a connection that could not be made (refused, DNS, TLS): no
 *   owner can be the cause.
 * - A 4xx stops what its OAuth code says; 405 and 415 stop the client, whose request is at fault.
 * - A 4xx without a code, a time-out, a reset, a 5xx and an answer that cannot be used may be the doing of anyone. They
 *   leave the scope open: it begins with the owner and is widened when other owners fail in the same way.
 */

import { type FailureScope, looksLikeOauthError, OwnerTokenError, type OwnerTokenErrorCode } from '../errors.ts';

/** What `classifyFailure` is shown. It may hold secrets that the service sent back: for judging, not for logging. */
export interface EndpointFailure {
  /**
   * `network`: no connection, or one that broke. `tls`: no secure one. `timeout`: the deadline passed. `status`: an
   * answer outside 200 to 299, whatever became of its body. `body`: a 2xx answer, or one that is no HTTP, that cannot
   * be used.
   */
  readonly kind: 'network' | 'tls' | 'timeout' | 'status' | 'body';
  readonly status?: number;
  /** The `error` of an RFC 6749 §5.2 error response, unless it may be an echo of what was sent. */
  readonly oauthError?: string;
  /** `Retry-After`, in milliseconds from now, between 1 s and 1 h. */
  readonly retryAfterMs?: number;
  /** The body: parsed where it is JSON, else its text; absent when it did not come whole. */
  readonly body?: unknown;
}

/** What went wrong, as it was found. */
export interface ExchangeFailure {
  readonly status?: number | undefined;
  readonly retryAfter?: string | undefined;
  readonly redirected?: boolean | undefined;
  /** What broke the exchange off. */
  readonly error?: unknown;
  readonly unreached?: boolean | undefined;
  /** Parsed JSON, or text. */
  readonly body?: unknown;
  /** The deadline passed. */
  readonly timedOut?: boolean;
  /** Why a whole answer cannot be used, in words that do not quote it. */
  readonly problem?: string | undefined;
}

export interface ClassifyOptions {
  /** Epoch ms. */
  nowMs: number;
  /** Every value that was sent, and must not come back in an error. */
  sent: readonly string[];
  classifyFailure?: ((failure: EndpointFailure) => FailureScope | undefined) | undefined;
}

/** The error for a failed exchange. `classifyFailure` has the last word on what it stops. */
export function classifyExchange(breakdown: ExchangeFailure, options: ClassifyOptions): OwnerTokenError {
  const { timedOut, error } = breakdown;
  const { classifyFailure } = options;
  const failure = describeFailure(breakdown, options);
  const { code, message, failureScope } = classificationOf(failure, breakdown);
  const { status, oauthError, retryAfterMs } = failure;
  const facts = { status, oauthError, retryAfterMs, failedAtMs: options.nowMs, cause: timedOut ? undefined : error };
  let asked: FailureScope | undefined;
  try {
    asked = classifyFailure?.(failure);
    if (asked !== undefined && !SCOPES.includes(asked)) throw new TypeError('not a failure scope');
  } catch (cause) {
    return new OwnerTokenError('source_failed', 'classifyFailure threw, or gave no failure scope', { ...facts, cause });
  }
  const scope = asked ?? failureScope;
  return new OwnerTokenError(codeForScope(code, asked), message, { ...facts, ...(scope && { failureScope: scope }) });
}

const SCOPES: readonly unknown[] = ['owner', 'client', 'endpoint'] satisfies FailureScope[];

/** A refusal is named after whom it stops. */
function codeForScope(code: OwnerTokenErrorCode, asked: FailureScope | undefined): OwnerTokenErrorCode {
  if (code === 'owner_refused' && asked === 'client') return 'client_refused';
  if (code === 'client_refused' && asked === 'owner') return 'owner_refused';
  return code;
}

function describeFailure(breakdown: ExchangeFailure, { nowMs, sent }: ClassifyOptions): EndpointFailure {
  const { status, body } = breakdown;
  const oauthError = oauthErrorOf(body, sent);
  const retryAfterMs = retryAfterMsOf(breakdown.retryAfter, nowMs);
  return {
    kind: kindOf(breakdown),
    ...(status !== undefined && { status }),
    ...(oauthError !== undefined && { oauthError }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(body !== undefined && { body }),
  };
}

/** A status that says enough is believed, whatever became of the body behind it. */
function kindOf({ status, redirected, timedOut, problem, error }: ExchangeFailure): EndpointFailure['kind'] {
  if (redirected || (status !== undefined && !isSuccess(status))) return 'status';
  if (timedOut) return 'timeout';
  if (problem !== undefined) return 'body';
  return kindOfError(error);
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

interface Classification {
  code: OwnerTokenErrorCode;
  message: string;
  /** Absent: open, see above. */
  failureScope?: FailureScope;
}

function classificationOf(
  failure: EndpointFailure,
  { redirected, unreached, problem, error }: ExchangeFailure,
): Classification {
  switch (failure.kind) {
    case 'status':
      if (redirected || failure.status === undefined) return REDIRECT;
      return classificationOfStatus(failure.status, failure.oauthError);
    case 'timeout':
      return { code: 'endpoint_unavailable', message: 'the token endpoint did not answer in time' };
    case 'body': {
      const why = problem ?? 'it is too large, garbled or wrongly encoded';
      return { code: 'invalid_response', message: `the answer of the token endpoint cannot be used: ${why}` };
    }
    case 'tls':
      return {
        ...{ code: 'endpoint_unavailable', failureScope: 'endpoint' },
        message: 'no secure connection to the token endpoint could be made',
      };
    case 'network':
      return unreached || isUnreached(error)
        ? {
            ...{ code: 'endpoint_unavailable', failureScope: 'endpoint' },
            message: 'no connection to the token endpoint could be made',
          }
        : { code: 'endpoint_unavailable', message: 'the connection to the token endpoint broke' };
  }
}

const REDIRECT: Classification = {
  code: 'redirect_refused',
  message: 'the token endpoint redirects elsewhere, where secrets are not sent: is the base URL right?',
  failureScope: 'endpoint',
};

/**
 * The codes that say whose failure a refusal is.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
const SCOPE_OF_OAUTH_ERROR: Readonly<Record<string, 'owner' | 'client'>> = {
  invalid_grant: 'owner',
  invalid_scope: 'owner',
  access_denied: 'owner',
  invalid_client: 'client',
  unauthorized_client: 'client',
  invalid_request: 'client',
  unsupported_grant_type: 'client',
};

function classificationOfStatus(status: number, oauthError: string | undefined): Classification {
  const said = `the token endpoint answered ${status}${oauthError ? ` (${oauthError})` : ''}`;
  if (status === 429) return { code: 'rate_limited', message: said, failureScope: 'endpoint' };
  if (status < 400 || status > 499) return { code: 'endpoint_unavailable', message: said };
  const scope = scopeOfOauthError(oauthError) ?? (status === 405 || status === 415 ? 'client' : undefined);
  const code = scope === 'client' ? 'client_refused' : 'owner_refused';
  return { code, message: said, ...(scope && { failureScope: scope }) };
}

function scopeOfOauthError(oauthError: string | undefined): 'owner' | 'client' | undefined {
  return oauthError !== undefined && Object.hasOwn(SCOPE_OF_OAUTH_ERROR, oauthError)
    ? SCOPE_OF_OAUTH_ERROR[oauthError]
    : undefined;
}

/**
 * The `error` of an error response. Services echo what they were sent, in odd places: a code of no standard that holds
 * such a value (of six characters or more: shorter ones are in every word), or is a piece of one, is dropped. The
 * standard ones are public words, whatever an access key may hold.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function oauthErrorOf(body: unknown, sent: readonly string[]): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { error } = body as { error?: unknown };
  if (!looksLikeOauthError(error)) return undefined;
  if (scopeOfOauthError(error)) return error;
  const echoes = sent
    .map((value) => value.toLowerCase())
    .some((value) => value.includes(error) || (value.length >= LEAST_ECHO_LENGTH && error.includes(value)));
  return echoes ? undefined : error;
}

const LEAST_ECHO_LENGTH = 6;

const MIN_RETRY_AFTER_MS = 1_000;
const MAX_RETRY_AFTER_MS = 3_600_000;

/**
 * `Retry-After` in milliseconds from now, between 1 s and 1 h: seconds, or a date in any of the three forms that
 * recipients must accept. Undefined for anything else.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3 RFC 9110 §10.2.3}
 */
export function retryAfterMsOf(retryAfter: string | undefined, nowMs: number): number | undefined {
  const value = retryAfter?.trim() ?? '';
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : httpDateMs(value) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, MIN_RETRY_AFTER_MS), MAX_RETRY_AFTER_MS);
}

/** @see {@link https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7 RFC 9110 §5.6.7} */
function httpDateMs(value: string): number {
  if (/^[A-Z][a-z]{2,8}, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT$/.test(value))
    return Date.parse(value);
  const isAsctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/.test(value);
  return isAsctime ? Date.parse(`${value} GMT`) : Number.NaN;
}

const TLS_CODES =
  /^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MIS|INVALID_CA$|INVALID_PURPOSE$|PATH_LENGTH_EXCEEDED$|ERROR_IN_C)/;
const TIMEOUT_CODES = /^(ETIMEDOUT|ESOCKETTIMEDOUT|UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT)$/;
/** From Node's HTTP parser, zlib, brotli, undici and ourselves. An answer that just ends is no garbled one. */
const BODY_CODES =
  /^(HPE_(?!INVALID_EOF_STATE$)|Z_|ERR_(BROTLI|_ERROR)_|ERR_BUFFER_TOO_LARGE$|ERR_UNUSABLE_BODY$|UND_ERR_(HEADERS_OVERFLOW|RES_|RESPONSE)|HTTPParserError$)/;
const UNREACHED_CODES =
  /^(ECONNREFUSED|ENOTFOUND|EAI_[A-Z]+|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL)$/;

/** What kind of failure a thrown thing is, by the first code in it or its causes that tells. */
function kindOfError(error: unknown): 'network' | 'tls' | 'timeout' | 'body' {
  for (const code of codesOf(error)) {
    if (TLS_CODES.test(code)) return 'tls';
    if (TIMEOUT_CODES.test(code)) return 'timeout';
    if (BODY_CODES.test(code)) return 'body';
  }
  return 'network';
}

/** Whether it says that no connection could be made, for a `fetch`, which does not tell otherwise. */
function isUnreached(error: unknown): boolean {
  return codesOf(error).some((code) => UNREACHED_CODES.test(code));
}

/**
 * Codes, and names for want of them: undici's parser errors lost theirs in Node 24. Errors come wrapped: `fetch failed`
 * around an aggregate of what each address said.
 */
function codesOf(error: unknown, depth = 0): string[] {
  if (typeof error !== 'object' || error === null || depth > 4) return [];
  const { code, name, cause, errors } = error as Partial<Record<'code' | 'name' | 'cause' | 'errors', unknown>>;
  const own = [code, name].filter((each) => typeof each === 'string');
  const inner = [cause, ...(Array.isArray(errors) ? errors.slice(0, 8) : [])];
  return [...own, ...inner.flatMap((each) => codesOf(each, depth + 1))];
}
