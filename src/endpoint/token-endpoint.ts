/**
 * The token endpoint: one access key in, one POST, one issued token or one error out. It does not cache, queue or back
 * off. It resends a request in one case only: a reused connection turned out to be closed before any of the response
 * arrived.
 */

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type http from 'node:http';
import { Cancellation } from '../cancellation.ts';
import { type Clock, systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import {
  type IssuedToken,
  parseTokenResponse,
  problemOfIssued,
  type TokenRequest,
  type TokenSource,
} from '../token.ts';
import { classify, isSuccess, type UnusableBody } from './classify-failure.ts';
import { Deadline } from './deadline.ts';
import { postByFetch } from './fetch-exchange.ts';
import {
  dropIdleSockets,
  type Exchange,
  type ExchangeResult,
  keepAliveAgent,
  postOverHttp,
  ResultBatch,
  requestOptions,
  type Target,
} from './http-exchange.ts';
import { checkEndpointOptions, type TokenEndpointOptions } from './options.ts';

/**
 * Requests access tokens from the token endpoint, with the client credentials grant and the access key of one owner.
 *
 * @example
 * ```ts
 * const endpoint = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * const { token, response } = await endpoint.requestToken(accessKey);
 * console.log(response?.expires_in); // → 3600
 * ```
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-4.4 RFC 6749 §4.4}
 */
export class TokenEndpoint implements TokenSource {
  /** The origin of the base URL. */
  readonly origin: string;
  /** The option of that name, with its default. */
  readonly timeoutMs: number;
  readonly #target: Target;
  readonly #clientId: string;
  readonly #clientSecret: TokenEndpointOptions['clientSecret'];
  readonly #maxResponseBytes: number;
  readonly #parseResponse: TokenEndpointOptions['parseResponse'];
  readonly #classifyFailure: TokenEndpointOptions['classifyFailure'];
  readonly #fetch: typeof fetch | undefined;
  readonly #httpOptions: http.RequestOptions;
  readonly #batch = new ResultBatch();
  /** Undefined if the user's agent or `fetch` manages the connections. */
  readonly #ownAgent: http.Agent | undefined;
  readonly #clock: Clock;

  /** @throws {OwnerTokenError} `invalid_options`, listing every problem; `insecure_url` if that is the only one. */
  constructor(options: TokenEndpointOptions) {
    const baseUrl = checkEndpointOptions(options);
    this.#target = { url: tokenUrlBelow(baseUrl), headers: HEADERS };
    this.origin = baseUrl.origin;
    warnIfUnchecked(baseUrl);
    this.#clientId = options.clientId;
    this.#clientSecret = options.clientSecret;
    this.timeoutMs = options.timeoutMs ?? 10_000;
    this.#maxResponseBytes = options.maxResponseBytes ?? 65_536;
    this.#parseResponse = options.parseResponse;
    this.#classifyFailure = options.classifyFailure;
    this.#fetch = options.fetch;
    const agent = options.agent ?? keepAliveAgent(baseUrl);
    this.#httpOptions = requestOptions(this.#target, agent);
    this.#ownAgent = options.agent ? undefined : agent;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Requests a new token for the owner of this access key.
   *
   * @param request `signal` ends the request at once, with `closed`.
   * @throws {OwnerTokenError} whose `failureScope` says what the failure stops.
   */
  async requestToken(accessKey: string, request?: Partial<Pick<TokenRequest, 'signal'>>): Promise<IssuedToken> {
    if (typeof accessKey !== 'string' || accessKey === '') {
      throw new OwnerTokenError('invalid_access_key', 'the access key is not a non-empty string');
    }
    const deadline = new Deadline(this.#clock, this.timeoutMs, request && Cancellation.of(request));
    try {
      const secret = this.#currentSecret(deadline);
      // Awaiting a string would cost a promise per request.
      const clientSecret = typeof secret === 'string' ? secret : await secret;
      const requestedAtMs = this.#clock.now();
      const body = JSON.stringify({
        grant_type: 'client_credentials',
        client_id: this.#clientId,
        client_secret: clientSecret,
        appliance_owner_scope: accessKey,
      });
      const exchange = { body, maxResponseBytes: this.#maxResponseBytes, deadline };
      let result = await this.#post(exchange);
      if (result.stale) {
        // The other idle connections are probably closed too.
        await this.close();
        result = await this.#post(exchange);
      }
      if (result.error instanceof OwnerTokenError) throw result.error;
      const read = this.#read(result, requestedAtMs);
      if ('token' in read) return read;
      const sent = [this.#clientId, clientSecret, accessKey];
      throw classify(result, read, { nowMs: this.#clock.now(), sent, classifyFailure: this.#classifyFailure });
    } finally {
      deadline.cancel();
    }
  }

  /**
   * A digest of token URL, client id and current secret: equal for two endpoints that call the same service as the same
   * client. It reveals only whether the secret changed. Still, derive shared names from it with a keyed hash.
   */
  async identity(): Promise<string> {
    const deadline = new Deadline(this.#clock, this.timeoutMs, undefined);
    try {
      const parts = [this.#target.url.href, this.#clientId, await this.#currentSecret(deadline)];
      const hash = createHash('sha256');
      // The length prefixes make the concatenation unambiguous.
      for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
      return hash.digest('base64url');
    } finally {
      deadline.cancel();
    }
  }

  /** Closes the idle connections of its own agent. The endpoint can still be used afterwards. */
  async close(): Promise<void> {
    if (this.#ownAgent) dropIdleSockets(this.#ownAgent);
  }

  #currentSecret(deadline: Deadline): string | Promise<string> {
    const given = this.#clientSecret;
    return typeof given === 'string' ? given : this.#readSecret(given, deadline);
  }

  async #readSecret(given: () => string | Promise<string>, deadline: Deadline): Promise<string> {
    let secret: unknown;
    let cause: unknown;
    let problem = 'did not return a string';
    try {
      if (!deadline.reason) secret = await deadline.race(given());
    } catch (thrown) {
      problem = 'threw';
      cause = thrown;
    }
    if (deadline.reason instanceof OwnerTokenError) throw deadline.reason;
    if (typeof secret === 'string' && secret !== '') return secret;
    if (secret === '') problem = 'returned an empty string (is its environment variable set?)';
    if (deadline.reason) problem = 'did not return within timeoutMs';
    const facts = { failureScope: 'client', failedAtMs: this.#clock.now(), cause } as const;
    throw new OwnerTokenError('source_failed', `clientSecret() ${problem}`, facts);
  }

  #post(exchange: Exchange): Promise<ExchangeResult> {
    if (this.#fetch) return postByFetch(exchange, this.#target, this.#fetch);
    return postOverHttp(exchange, this.#httpOptions, this.#batch);
  }

  /** The token in a complete 2xx response, or why there is none. A complete response counts even past the deadline. */
  #read({ status, body }: ExchangeResult, requestedAtMs: number): IssuedToken | UnusableBody {
    if (!body || status === undefined) return {};
    const { isJson, content } = readJson(body);
    if (!isSuccess(status)) return { body: content };
    if (!isJson) return { body: content, problem: 'it is not JSON' };
    const parsed = this.#parse(content, requestedAtMs);
    const problem = 'problem' in parsed ? parsed.problem : problemOfIssued(parsed);
    return problem === undefined ? (parsed as IssuedToken) : { body: content, problem };
  }

  #parse(content: unknown, requestedAtMs: number): IssuedToken | { problem: string } {
    try {
      const { token, tokenType } = (this.#parseResponse ?? parseTokenResponse)(content);
      return { token, tokenType, requestedAtMs, response: objectOf(content) };
    } catch (cause) {
      if (!this.#parseResponse) return { problem: (cause as TypeError).message };
      if (cause instanceof OwnerTokenError) throw cause;
      throw new OwnerTokenError('source_failed', 'parseResponse threw', { failedAtMs: this.#clock.now(), cause });
    }
  }
}

/** Sets the path instead of resolving a relative URL, because `//elsewhere` would name another host. */
function tokenUrlBelow(baseUrl: URL): URL {
  const url = new URL(baseUrl);
  url.pathname = `${baseUrl.pathname.replace(/\/+$/, '')}/auth/v1/token`;
  return url;
}

const HEADERS = Object.freeze({
  'Content-Type': 'application/json',
  Accept: 'application/json',
  'User-Agent': 'owner-token-registry',
});

/**
 * Parses a body as JSON, or else decodes it as text. A byte order mark or invalid UTF-8 makes it text.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc8259#section-8.1 RFC 8259 §8.1}
 */
function readJson(body: Buffer): { isJson: boolean; content: unknown } {
  const text = body.toString();
  try {
    if (isUtf8(body)) return { isJson: true, content: JSON.parse(text) };
  } catch {
    // It is text, then.
  }
  return { isJson: false, content: text };
}

function objectOf(content: unknown): Record<string, unknown> | undefined {
  const isObject = typeof content === 'object' && content !== null && !Array.isArray(content);
  return isObject ? (content as Record<string, unknown>) : undefined;
}

/** Node's own warning does not say what is at stake here. */
function warnIfUnchecked({ protocol }: URL): void {
  if (protocol !== 'https:' || process.env.NODE_TLS_REJECT_UNAUTHORIZED !== '0') return;
  const risk = 'any server on the way can take the client secret';
  const instead = 'To trust a certificate authority, use NODE_EXTRA_CA_CERTS';
  process.emitWarning(`TokenEndpoint: with NODE_TLS_REJECT_UNAUTHORIZED=0, ${risk}. ${instead}`);
}
