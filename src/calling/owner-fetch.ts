/**
 * Calls to the service's resources on one owner's behalf: a `fetch` that attaches the owner's token and learns from the
 * response whether it was accepted.
 *
 * - A token is sent to allowed origins only, so redirects are followed here. From the first hop to another origin on, they
 *   are followed without it, and no longer report acceptance or rejection.
 * - A 401 rejects exactly the token that was sent, and that hop is repeated once, with the token that `getToken` then
 *   returns. Earlier hops are not repeated, because a redirected POST has already taken effect.
 * - Acceptance and rejection are reported, for expiry policies that learn.
 */

import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { aFunction, checkOptions, type OptionRules } from '../option-check.ts';
import { originOf } from '../parse-url.ts';
import type { AccessToken } from '../token.ts';
import { leavesAllowedOrigins } from './leaving.ts';
import {
  cancelBody,
  discard,
  fetchFailed,
  firstHop,
  type Hop,
  nextHop,
  retryOf,
  withCheckedUrl,
  withoutCredentials,
} from './redirect-hops.ts';

/**
 * Options of `ownerFetch`.
 *
 * @example
 * ```ts
 * const options: OwnerFetchOptions = {
 *   allowedOrigins: [baseUrl, 'https://files.example.com'],
 *   present: (token, headers) => headers.set('x-owner-token', token.value),
 * };
 * const callAs = registry.ownerFetch(accessKey, options);
 * ```
 */
export interface OwnerFetchOptions {
  /**
   * Where the token may be sent: origins such as `https://api.example.com`. Replaces the default, which is the source's
   * `origin`. A call to any other origin is `origin_refused`, and nothing is sent there. A redirect to any other origin is followed
   * as `fetch` does, without the token, `Cookie` and `Proxy-Authorization`, in this hop and all further ones of the call; never
   * from https to http.
   *
   * @see {@link https://fetch.spec.whatwg.org/#http-redirect-fetch}
   */
  allowedOrigins?: string[] | undefined;
  /** Adds the token to the request's headers. Default: `headers.set('authorization', token.authorization)`. */
  present?: ((token: AccessToken, headers: Headers) => void) | undefined;
  /** Makes the calls. Default: the global `fetch` at the time of the call. */
  fetch?: typeof fetch | undefined;
}

/** What each option may be. */
export const OWNER_FETCH_OPTIONS: OptionRules<OwnerFetchOptions> = {
  allowedOrigins: {
    passes: (value) => Array.isArray(value) && value.every((entry) => originOf(entry) !== undefined),
    expected: 'a list of origins, each like https://api.example.com, without wildcards',
  },
  present: aFunction,
  fetch: aFunction,
};

/** The registry methods that calls use. */
export interface OwnerTokens {
  getToken(accessKey: string, options?: { signal?: AbortSignal | undefined }): Promise<AccessToken>;
  reject(accessKey: string, token: AccessToken): boolean;
  accept(accessKey: string, token: AccessToken): void;
}

/**
 * A `fetch` for one owner. HTTP clients that accept a `fetch` need nothing else; the adapters for other clients use the
 * methods.
 *
 * @example
 * ```ts
 * const callAs: OwnerFetch = registry.ownerFetch(accessKey);
 * console.log((await callAs(`${baseUrl}/echo`)).status); // → 200
 * ```
 */
export interface OwnerFetch {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** @throws {OwnerTokenError} `origin_refused` if the token may not be sent to this URL. */
  check(url: string | URL): void;
  /** Checks the URL, gets a token and adds it to these headers. */
  authorize(
    url: string | URL,
    headers: Headers,
    options?: { signal?: AbortSignal | null | undefined },
  ): Promise<AccessToken>;
  /**
   * Reports the status of a call with this token: 401 rejects it, success accepts it.
   *
   * @returns whether it was rejected, so that the call may be repeated once, with what `authorize` then adds.
   */
  answered(token: AccessToken, status: number): boolean;
}

/** Checked options, merged with their defaults. */
export interface CallRules {
  readonly origins: readonly string[];
  readonly present: ((token: AccessToken, headers: Headers) => void) | undefined;
  readonly fetch: typeof fetch | undefined;
}

/** The default rules: tokens may be sent to the source's origin, if it is known. */
export function rulesOfSource(origin: unknown): CallRules {
  const known = originOf(origin);
  return { origins: known === undefined ? [] : [known], present: undefined, fetch: undefined };
}

/** Checks options and merges them with the defaults. */
export function callRules(options: OwnerFetchOptions | undefined, defaults: CallRules): CallRules {
  if (options === undefined) return defaults;
  return mergeCallRules(checkOptions('ownerFetch', options, OWNER_FETCH_OPTIONS), defaults);
}

/** Merges checked options with the defaults. */
export function mergeCallRules(options: OwnerFetchOptions, defaults: CallRules): CallRules {
  return {
    origins: options.allowedOrigins?.map((entry) => originOf(entry) as string) ?? defaults.origins,
    present: options.present ?? defaults.present,
    fetch: options.fetch ?? defaults.fetch,
  };
}

/** Creates the `fetch` of one owner. */
export function ownerFetchFor(tokens: OwnerTokens, accessKey: string, rules: CallRules): OwnerFetch {
  const check: OwnerFetch['check'] = (url) => {
    checked(url, rules);
  };

  const obtain = (signal: AbortSignal | null | undefined): Promise<AccessToken> =>
    tokens.getToken(accessKey, signal ? { signal } : undefined);

  const authorize: OwnerFetch['authorize'] = async (url, headers, options) => {
    check(url);
    const token = await obtain(options?.signal);
    present(rules, token, headers);
    return token;
  };

  const answered: OwnerFetch['answered'] = (token, status) => {
    if (status === 401) tokens.reject(accessKey, token);
    else if (showsAcceptance(status)) tokens.accept(accessKey, token);
    return status === 401;
  };

  const exchange = ({ target, init }: Hop, headers: Headers): Promise<Response> =>
    (rules.fetch ?? fetch)(target, { ...init, headers });

  const presenting = (hop: Hop, token: AccessToken): Headers => {
    const headers = new Headers(hop.headers);
    present(rules, token, headers);
    return headers;
  };

  // A single async function, because each nested one costs about a microsecond even when the token is cached.
  const call = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    let hop = firstHop(input, init);
    let repeated = false;
    for (let redirects = 0; ; redirects++) {
      let token: AccessToken | undefined;
      try {
        if (!hop.isAway) {
          hop = withCheckedUrl(hop, checked(hop.url, rules));
          token = await obtain(hop.signal);
        }
      } catch (error) {
        cancelBody(hop, error);
        throw error;
      }
      const headers = token ? presenting(hop, token) : new Headers(hop.headers);
      let response = await exchange(hop, headers);
      const again = token && answered(token, response.status) && !repeated ? retryOf(hop) : undefined;
      const renewed = again && (await obtain(hop.signal).catch(() => hop.signal?.throwIfAborted()));
      if (again && renewed) {
        repeated = true;
        discard(response);
        response = await exchange(again, presenting(again, renewed));
        answered(renewed, response.status);
      }
      const next = nextHop(hop, response);
      if (!next) return redirects === 0 ? response : Object.defineProperty(response, 'redirected', { value: true });
      if (redirects === MAX_REDIRECTS) throw fetchFailed('too many redirects', response);
      discard(response);
      const isAway = leavesAllowedOrigins({ check }, hop.url, next.url);
      hop = isAway && token ? withoutCredentials(next, hop, { headers, token: token.value }) : next;
    }
  };

  return Object.assign(call, { check, authorize, answered });
}

/** As in the fetch standard. */
const MAX_REDIRECTS = 20;

/**
 * Whether a status shows that the token was accepted: success, 304 included. Services may send a redirect, 403, 404,
 * 429 or 5xx before they check the token, so a lifetime learned from these would be too long.
 */
function showsAcceptance(status: number): boolean {
  return (status >= 200 && status <= 299) || status === 304;
}

function present(rules: CallRules, token: AccessToken, headers: Headers): void {
  try {
    if (rules.present) rules.present(token, headers);
    else headers.set('authorization', token.authorization);
  } catch (cause) {
    throw new OwnerTokenError('source_failed', 'present() threw', { cause });
  }
}

/**
 * Checks that the token may be sent to this URL, and returns it: a string that obviously has an allowed origin as it is, any
 * other parsed.
 */
function checked(url: string | URL, rules: CallRules): string | URL {
  if (typeof url === 'string' && beginsWithOrigin(url, rules.origins)) return url;
  const parsed = typeof url === 'string' ? new URL(url) : url;
  // Not its `origin`, which for a `blob:` URL is that of the page that created it.
  const origin = `${parsed.protocol}//${parsed.host}`;
  if (!rules.origins.includes(origin)) throw refusedOrigin(origin, rules);
  return parsed;
}

function refusedOrigin(origin: string, { origins }: CallRules): OwnerTokenError {
  const reason =
    origins.length > 0
      ? `not in allowedOrigins (${origins.join(', ')})`
      : 'the source has no origin, so set allowedOrigins';
  return new OwnerTokenError('origin_refused', `refusing to send the token to ${origin}: ${reason}`);
}

/**
 * Whether a URL obviously has one of these origins, so that it need not be parsed: it ends after scheme, host and port, or
 * has a slash there, and nothing after that changes the origin.
 */
function beginsWithOrigin(url: string, origins: readonly string[]): boolean {
  return origins.some(
    (origin) => url.startsWith(origin) && (url[origin.length] === '/' || url.length === origin.length),
  );
}
