/** The options of a `TokenEndpoint`, and how they are checked. */

import type { Agent as HttpAgent } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import { type Clock, systemClock } from '../clock.ts';
import { type FailureScope, OwnerTokenError } from '../errors/owner-token-error.ts';
import { aBoolean, aClock, aFunction, checkOptions, hasMethods, integer, type OptionRule } from '../option-check.ts';
import { parseUrl } from '../parse-url.ts';
import type { IssuedToken } from '../token-source.ts';
import type { EndpointFailure } from './classify-failure.ts';
import { jsonRequest, type TokenRequestShape } from './token-request.ts';

/**
 * Options of a {@link TokenEndpoint}.
 *
 * @example
 * ```ts
 * const options: TokenEndpointOptions = {
 *   baseUrl: 'https://api.example.com',
 *   clientId: 'integration',
 *   clientSecret: async () => process.env.CLIENT_SECRET ?? '', // read for each request
 *   timeoutMs: 5_000,
 * };
 * ```
 */
export interface TokenEndpointOptions {
  /**
   * Base URL of the service: an `https:` URL with no credentials, query or fragment. `/auth/v1/token`, or the path of
   * `tokenRequest`, is appended to its path, with or without a trailing slash. `http:` is accepted for loopback hosts only
   * (`localhost`, `127.0.0.0/8`, `::1`), otherwise it is `insecure_url`: see `allowInsecureHttp`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-3.2 RFC 6749 §3.2}
   */
  baseUrl: string | URL;
  /** The Client Id of the integration app, sent as `client_id`. Not empty. */
  clientId: string;
  /**
   * The Client Secret of the integration app, sent as `client_secret`. Not empty. A function is called for each
   * request, within `timeoutMs`, so that the secret can rotate. If it throws, hangs or does not return a non-empty
   * string, the request fails with `source_failed` and failure scope `client`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1 RFC 6749 §2.3.1}
   */
  clientSecret: string | (() => string | Promise<string>);
  /**
   * The shape of the request: a function from client id, client secret and access key to path, headers and body. It is
   * always a POST to the origin of `baseUrl`. If it throws or returns something that cannot be sent, the request fails with
   * `source_failed`. Default: `jsonRequest()`; others are `formRequest()` and `basicAuthRequest()`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1 RFC 6749 §2.3.1}
   */
  tokenRequest?: TokenRequestShape | undefined;
  /**
   * Time limit of the whole exchange in milliseconds, from reading the secret to the last byte of the body, a second
   * attempt included. 1 to 600,000; default 10,000. Beyond it: `endpoint_unavailable`.
   */
  timeoutMs?: number | undefined;
  /** Largest decoded body in bytes, 1 to 1,048,576; default 131,072. A longer body is `invalid_response`. */
  maxResponseBytes?: number | undefined;
  /**
   * Extracts the token from the parsed JSON body of a 2xx response. Default: `access_token` and `token_type`. If it
   * throws, the request fails with `source_failed`, or with the `OwnerTokenError` that it threw; a token that cannot be
   * sent in a header is `invalid_response`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1}
   */
  parseResponse?: ((body: unknown) => Pick<IssuedToken, 'token' | 'tokenType'>) | undefined;
  /**
   * Overrides what a failure stops: returns `'owner'`, `'client'` or `'endpoint'`, or `undefined` for the default. If
   * it throws or returns anything else, the failure is a `source_failed`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
   */
  classifyFailure?: ((failure: EndpointFailure) => FailureScope | undefined) | undefined;
  /**
   * Allows `http:` to hosts other than this machine, which sends the secrets in clear text. Default: `false`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-10.9 RFC 6749 §10.9}
   */
  allowInsecureHttp?: boolean | undefined;
  /**
   * Agent for the connections, such as a proxy agent or one with client certificates. The endpoint never closes it.
   * Default: its own agent, which keeps idle connections for 30 s. Cannot be combined with `fetch`.
   */
  agent?: HttpAgent | HttpsAgent | undefined;
  /**
   * Makes the request instead of `node:http(s)`. It manages its own connections, so the endpoint never sends a request
   * twice. Called with `redirect: 'manual'`; a redirected response is refused. Need not return a standard `Response`: a
   * `status` and a body that is a stream, `text()` or `json()` will do. Cannot be combined with `agent`.
   */
  fetch?: typeof fetch | undefined;
  /**
   * Clock for `requestedAtMs`, for dates in `Retry-After` and, if it has `setTimeout`, for the deadline. With a `fetch` too, results
   * are delivered at once instead of in batches. Default: the system's.
   */
  clock?: Clock | undefined;
}

const AGENT_EXPECTED = 'an http.Agent or https.Agent that fits baseUrl';

const aText = (value: unknown): boolean => typeof value === 'string' && value !== '';

/** Every option, what it may be, and its default. */
export const ENDPOINT_OPTIONS: Readonly<Record<keyof TokenEndpointOptions, OptionRule>> = {
  baseUrl: {
    passes: (value) => parseBaseUrl(value) !== undefined,
    expected: 'a URL such as https://api.example.com, with no credentials, query or fragment',
    isRequired: true,
  },
  clientId: { passes: aText, expected: 'a non-empty string', isRequired: true },
  clientSecret: {
    passes: (value) => aText(value) || typeof value === 'function',
    expected: 'a non-empty string, or a function that returns one',
    isRequired: true,
  },
  tokenRequest: aFunction,
  timeoutMs: integer(1, 600_000, 10_000),
  maxResponseBytes: integer(1, 1_048_576, 131_072),
  parseResponse: aFunction,
  classifyFailure: aFunction,
  allowInsecureHttp: aBoolean,
  agent: { passes: isAgent, expected: AGENT_EXPECTED },
  fetch: aFunction,
  clock: aClock,
};

/** The checked options, with the base URL parsed and the defaults filled in. */
export type CheckedEndpointOptions = TokenEndpointOptions & {
  baseUrl: URL;
  timeoutMs: number;
  maxResponseBytes: number;
  tokenRequest: TokenRequestShape;
  clock: Clock;
};

/** Checks all options. */
export function checkEndpointOptions(options: TokenEndpointOptions): CheckedEndpointOptions {
  const checked = checkOptions('TokenEndpoint', options, ENDPOINT_OPTIONS, (given, problems) => {
    const { allowInsecureHttp, agent, fetch } = given;
    const url = parseBaseUrl(given.baseUrl);
    if (url && isAgent(agent) && !fits(agent, url)) problems.push(`agent: expected ${AGENT_EXPECTED}`);
    if (agent && fetch) problems.push('agent: expected no agent together with fetch, which makes its own connections');
    if (url?.protocol === 'http:' && !isLoopback(url.hostname) && allowInsecureHttp !== true) {
      const problem =
        'baseUrl: expected an https: URL, because the host is not this machine, or allowInsecureHttp: true';
      if (problems.length === 0) throw new OwnerTokenError('insecure_url', `TokenEndpoint: ${problem}`);
      problems.push(problem);
    }
  });
  checked.tokenRequest ??= jsonRequest();
  checked.clock ??= systemClock;
  return Object.assign(checked, { baseUrl: parseBaseUrl(checked.baseUrl) }) as CheckedEndpointOptions;
}

function isAgent(value: unknown): value is HttpAgent {
  return hasMethods(value, 'addRequest');
}

function parseBaseUrl(baseUrl: unknown): URL | undefined {
  const text = baseUrl instanceof URL ? baseUrl.href : baseUrl;
  const url = parseUrl(text);
  if (!url || /[?#]/.test(text as string)) return undefined;
  const isHttp = url.protocol === 'https:' || url.protocol === 'http:';
  return isHttp && url.username === '' && url.password === '' ? url : undefined;
}

/** `URL` has already normalized every notation of an IPv4 address. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Whether an agent serves the URL's protocol. Node's own agents have a fixed one; proxy agents do not. */
function fits(agent: HttpAgent, url: URL): boolean {
  const protocol: unknown = Object.getOwnPropertyDescriptor(agent, 'protocol')?.value;
  return protocol === undefined || protocol === url.protocol;
}
