/**
 * Maps a failed exchange with the token endpoint to an error. `http-failure.ts` has the table of codes. Every failure is
 * attributed to its owner at first, see `failures/blame.ts`. Pure.
 */

import { looksLikeOauthError, shownCode } from '../errors/oauth-error.ts';
import { codeInScope, type FailureScope, OwnerTokenError } from '../errors/owner-token-error.ts';
import { describeFailure, type HttpFailure, isSuccess, kindOfError, retryAfterMsOf } from '../http-failure.ts';
import { property } from '../own-property.ts';
import type { ExchangeResult } from './http-exchange.ts';

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
export interface EndpointFailure extends HttpFailure {
  /**
   * `network`: no connection, or a broken one. `tls`: no secure connection. `timeout`: the deadline passed. `status`: a
   * response outside 200 to 299, even if its body was incomplete. `body`: a 2xx response that cannot be used, or a
   * response that is not HTTP.
   */
  readonly kind: 'network' | 'tls' | 'timeout' | 'status' | 'body';
  /** The HTTP status, if there was a response. */
  readonly status?: number | undefined;
  /**
   * The `error` of an OAuth error response.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
   */
  readonly oauthError?: string | undefined;
  /** `Retry-After` in milliseconds, 0 or more; a date counts from the response's own `Date`. */
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
  /** What the user gave, by name. */
  readonly credentials?: Readonly<Record<string, string>>;
  readonly classifyFailure?: ((failure: EndpointFailure) => FailureScope | undefined) | undefined;
}

const SERVICE = { name: 'the token endpoint', url: 'baseUrl' };

/** The error for a failed exchange. What `classifyFailure` returns overrides the default scope. */
export function classify(
  result: ExchangeResult,
  { body, problem }: UnusableBody,
  { nowMs, credentials = {}, classifyFailure }: ClassifyOptions,
): OwnerTokenError {
  const { status, error: cause } = result;
  const oauthError = oauthErrorOf(body);
  const retryAfterMs = retryAfterMsOf(result, nowMs);
  const failure: EndpointFailure = { kind: kindOf(result, problem), status, oauthError, retryAfterMs, body };
  const shown = { ...failure, oauthError: shownCode(oauthError, credentials) };
  const facts = { status, oauthError: shown.oauthError, retryAfterMs, failedAtMs: nowMs, cause };
  const [code, described] = describeFailure(SERVICE, shown, problem ?? refusedByParser(cause));
  const isRefusal = code === 'owner_refused' || code === 'client_refused';
  const message = isRefusal ? described + whiteSpaceIn(credentials) : described;
  try {
    const given = classifyFailure?.(failure);
    if (given !== undefined) {
      const blamed = given === 'owner' && code === 'client_refused' ? 'owner_refused' : codeInScope(code, given);
      return new OwnerTokenError(blamed, message, { ...facts, failureScope: given });
    }
  } catch (thrown) {
    const wrong = 'classifyFailure threw, or returned something other than a failure scope';
    return new OwnerTokenError('source_failed', wrong, { ...facts, cause: thrown });
  }
  return new OwnerTokenError(code, message, facts);
}

/**
 * What Node's HTTP parser says about a response that it refuses: a fixed text, which quotes nothing. The one in the `fetch` of
 * Node 20 and 22 is more lenient about a folded header, or one with a blank before its colon.
 */
function refusedByParser(error: unknown): string | undefined {
  const [code, reason] = [property(error, 'code'), property(error, 'reason')];
  if (typeof code !== 'string' || !code.startsWith('HPE_') || typeof reason !== 'string') return undefined;
  const isHeader = code === 'HPE_INVALID_HEADER_TOKEN';
  const instead = isHeader ? '; with the option fetch, the fetch of Node 20 or 22 may read this header' : '';
  return `Node's HTTP parser refuses it (${reason})${instead}`;
}

/**
 * Names the credentials with leading or trailing white space, such as the line break of `echo secret | base64`, since nothing
 * else shows it. No value is quoted.
 */
function whiteSpaceIn(credentials: Readonly<Record<string, string>>): string {
  const names = Object.keys(credentials).filter((name) => AROUND.test(credentials[name] as string));
  return names.length === 0 ? '' : `; leading or trailing white space in ${names.join(' and ')}`;
}

/** Invisible characters included, such as a zero-width space. */
const AROUND = /^[\s\p{C}]|[\s\p{C}]$/u;

/** A non-2xx status decides, even if its body was interrupted. */
function kindOf({ status, error }: ExchangeResult, problem: string | undefined): EndpointFailure['kind'] {
  if (status !== undefined && !isSuccess(status)) return 'status';
  return problem === undefined ? (kindOfError(error) ?? 'network') : 'body';
}

/** The `error` of an OAuth error response. */
export function oauthErrorOf(body: unknown): string | undefined {
  const error = property(body, 'error');
  return looksLikeOauthError(error) ? error : undefined;
}
