/**
 * The token endpoint: one access key in, one POST, one issued token or one error out. It does not cache, queue or back
 * off. It resends a request in one case only: a reused connection turned out to be closed before any of the response
 * arrived.
 */

import { createHash } from 'node:crypto';
import type http from 'node:http';
import { type Clock, systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { type IssuedToken, parseTokenResponse, readIssued, type TokenRequest, type TokenSource } from '../token.ts';
import { classify, isSuccess, type UnusableBody } from './classify-failure.ts';
import { startDeadline, untilAborted } from './deadline.ts';
import { postByFetch } from './fetch-exchange.ts';
import { dropIdleSockets, type Exchange, type ExchangeResult, keepAliveAgent, postOverHttp } from './http-exchange.ts';
import { checkEndpointOptions, type TokenEndpointOptions } from './options.ts';

/**
 * Requests access tokens from the token endpoint, with the client credentials grant and the access key of one owner.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-4.4 RFC 6749 §4.4}
 */
export class TokenEndpoint implements TokenSource {
  /** The origin of the base URL. */
  readonly origin: string;
  readonly #tokenUrl: URL;
  readonly #clientId: string;
  readonly #clientSecret: TokenEndpointOptions['clientSecret'];
  readonly #timeoutMs: number;
  readonly #maxResponseBytes: number;
  readonly #parseResponse: TokenEndpointOptions['parseResponse'];
  readonly #classifyFailure: TokenEndpointOptions['classifyFailure'];
  readonly #fetch: typeof fetch | undefined;
  readonly #agent: http.Agent;
  readonly #ownsAgent: boolean;
  readonly #clock: Clock;

  /** @throws {OwnerTokenError} `invalid_options`, listing every problem; `insecure_url` if that is the only one. */
  constructor(options: TokenEndpointOptions) {
    const baseUrl = checkEndpointOptions(options);
    this.#tokenUrl = tokenUrlBelow(baseUrl);
    this.origin = baseUrl.origin;
    this.#clientId = options.clientId;
    this.#clientSecret = options.clientSecret;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#maxResponseBytes = options.maxResponseBytes ?? 65_536;
    this.#parseResponse = options.parseResponse;
    this.#classifyFailure = options.classifyFailure;
    this.#fetch = options.fetch;
    this.#ownsAgent = options.agent === undefined;
    this.#agent = options.agent ?? keepAliveAgent(baseUrl);
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
    const deadline = startDeadline(this.#clock, this.#timeoutMs, request?.signal);
    try {
      const clientSecret = await this.#currentSecret(deadline.signal);
      const fields = { client_id: this.#clientId, client_secret: clientSecret, appliance_owner_scope: accessKey };
      const requestedAtMs = this.#clock.now();
      const result = await this.#post({ grant_type: 'client_credentials', ...fields }, deadline.signal);
      if (result.error instanceof OwnerTokenError) throw result.error;
      const read = this.#read(result);
      if ('token' in read) return { ...read, requestedAtMs };
      const classifyFailure = this.#classifyFailure;
      throw classify(result, read, { nowMs: this.#clock.now(), sent: Object.values(fields), classifyFailure });
    } finally {
      deadline.cancel();
    }
  }

  /**
   * A digest of token URL, client id and current secret: equal for two endpoints that call the same service as the same
   * client. It reveals only whether the secret changed. Still, derive shared names from it with a keyed hash.
   */
  async identity(): Promise<string> {
    const deadline = startDeadline(this.#clock, this.#timeoutMs, undefined);
    try {
      const parts = [this.#tokenUrl.href, this.#clientId, await this.#currentSecret(deadline.signal)];
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
    if (this.#ownsAgent) dropIdleSockets(this.#agent);
  }

  async #currentSecret(signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    const given = this.#clientSecret;
    if (typeof given === 'string') return given;
    let secret: unknown;
    let cause: unknown;
    try {
      secret = await untilAborted(signal, given());
    } catch (thrown) {
      if (signal.reason instanceof OwnerTokenError) throw signal.reason;
      cause = thrown;
    }
    if (typeof secret === 'string' && secret !== '') return secret;
    const problem = signal.aborted ? 'did not return within timeoutMs' : 'threw, or did not return a non-empty string';
    const facts = { failureScope: 'client', failedAtMs: this.#clock.now(), cause } as const;
    throw new OwnerTokenError('source_failed', `clientSecret ${problem}`, facts);
  }

  async #post(fields: Record<string, string>, signal: AbortSignal): Promise<ExchangeResult> {
    const exchange: Exchange = {
      url: this.#tokenUrl,
      headers: HEADERS,
      body: JSON.stringify(fields),
      maxResponseBytes: this.#maxResponseBytes,
      signal,
    };
    if (this.#fetch) return await postByFetch(exchange, this.#fetch);
    const result = await postOverHttp(exchange, this.#agent);
    if (!result.stale) return result;
    // The other idle connections are probably closed too.
    await this.close();
    return await postOverHttp(exchange, this.#agent);
  }

  /** The token in a complete 2xx response, or why there is none. A complete response counts even past the deadline. */
  #read({ status, body: bytes }: ExchangeResult): IssuedToken | UnusableBody {
    if (!bytes || status === undefined) return {};
    const body = readJson(bytes);
    if (!isSuccess(status)) return { body: body.content };
    if (!body.isJson) return { body: body.content, problem: 'it is not JSON' };
    const parsed = this.#parse(body.content);
    const issued = 'problem' in parsed ? parsed : readIssued(parsed);
    return 'problem' in issued ? { body: body.content, ...issued } : issued;
  }

  #parse(body: unknown): IssuedToken | { problem: string } {
    try {
      const { token, tokenType } = (this.#parseResponse ?? parseTokenResponse)(body);
      return { token, ...(tokenType !== undefined && { tokenType }), ...responseOf(body) };
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
function readJson(body: Uint8Array): { isJson: boolean; content: unknown } {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return { isJson: true, content: JSON.parse(text) };
  } catch {
    return { isJson: false, content: new TextDecoder().decode(body) };
  }
}

function responseOf(content: unknown): Pick<IssuedToken, 'response'> {
  const isObject = typeof content === 'object' && content !== null && !Array.isArray(content);
  return isObject ? { response: content as Record<string, unknown> } : {};
}
