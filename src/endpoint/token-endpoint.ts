/**
 * The thin caller: one access key in, one POST out, one grant or one error back. It neither caches nor waits, and sends
 * again in one case only: an idle connection that it had kept turned out to be closed, and nothing came back over it.
 */

import { createHash } from 'node:crypto';
import type http from 'node:http';
import { type Clock, systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import {
  type IssuedToken,
  parseTokenResponse,
  problemOfIssued,
  type TokenRequest,
  type TokenSource,
} from '../token.ts';
import { classifyExchange, type ExchangeFailure, isSuccess } from './classify-failure.ts';
import { Deadline } from './deadline.ts';
import { postByFetch } from './fetch-exchange.ts';
import { dropIdleSockets, type Exchange, keepAliveAgent, postOverHttp, type Received } from './http-exchange.ts';
import { checkEndpointOptions, type TokenEndpointOptions } from './options.ts';

/**
 * Obtains access tokens from the token endpoint, by the client credentials grant with the access key of one owner.
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
  readonly #parseResponse: NonNullable<TokenEndpointOptions['parseResponse']> | undefined;
  readonly #classifyFailure: TokenEndpointOptions['classifyFailure'];
  readonly #fetch: typeof fetch | undefined;
  readonly #agent: http.Agent;
  readonly #ownsAgent: boolean;
  readonly #clock: Clock;

  /** @throws {OwnerTokenError} `invalid_options`, with every problem; `insecure_url` if that is the only one. */
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
   * Obtains a new token for the owner of this access key. An aborted `signal` ends it at once, with `closed`.
   *
   * @throws {OwnerTokenError} saying by its `failureScope` what the failure stops.
   */
  async requestToken(accessKey: string, request?: Partial<Pick<TokenRequest, 'signal'>>): Promise<IssuedToken> {
    if (typeof accessKey !== 'string' || accessKey === '') {
      throw new OwnerTokenError('invalid_access_key', 'the access key is not a non-empty string');
    }
    if (request?.signal?.aborted) throw closed();
    const deadline = new Deadline(this.#clock, this.#timeoutMs, request?.signal);
    try {
      const clientSecret = await this.#currentSecret(deadline);
      const fields = { client_id: this.#clientId, client_secret: clientSecret, appliance_owner_scope: accessKey };
      const requestedAtMs = this.#clock.now();
      const received = await this.#post({ grant_type: 'client_credentials', ...fields }, deadline);
      return this.#grantFrom(received, { requestedAtMs, sent: Object.values(fields), deadline });
    } finally {
      deadline.cancel();
    }
  }

  /**
   * A digest of token URL, client id and current secret: the same for two endpoints that ask the same service as the
   * same client. It tells nothing of the secret but whether it changed; names built from it should be keyed all the same.
   */
  async identity(): Promise<string> {
    const deadline = new Deadline(this.#clock, this.#timeoutMs, undefined);
    try {
      const parts = [this.#tokenUrl.href, this.#clientId, await this.#currentSecret(deadline)];
      const hash = createHash('sha256');
      // With its length in front, no part can pose as the end of the one before.
      for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
      return hash.digest('base64url');
    } finally {
      deadline.cancel();
    }
  }

  /** Drops the idle connections of its own agent. It can still be used afterwards. */
  async close(): Promise<void> {
    this.#dropIdleSockets();
  }

  #dropIdleSockets(): void {
    if (this.#ownsAgent) dropIdleSockets(this.#agent);
  }

  /** The secret as it is now. */
  async #currentSecret(deadline: Deadline): Promise<string> {
    const given = this.#clientSecret;
    if (typeof given === 'string') return given;
    let secret: unknown;
    let cause: unknown;
    try {
      secret = await deadline.over(given());
    } catch (thrown) {
      cause = thrown;
    }
    if (deadline.ended === 'signal') throw closed();
    if (typeof secret === 'string' && secret !== '') return secret;
    const problem = deadline.ended ? 'gave nothing within the deadline' : 'threw, or gave no non-empty string';
    const failedAtMs = this.#clock.now();
    throw new OwnerTokenError('source_failed', `clientSecret ${problem}`, {
      failureScope: 'client',
      failedAtMs,
      cause,
    });
  }

  /** Sends the request, and once more where the connection turned out to be a dead one from before. */
  async #post(fields: Record<string, string>, deadline: Deadline): Promise<Received> {
    const exchange: Exchange = {
      url: this.#tokenUrl,
      headers: HEADERS,
      body: JSON.stringify(fields),
      maxResponseBytes: this.#maxResponseBytes,
      signal: deadline.signal,
    };
    if (this.#fetch) return await postByFetch(exchange, this.#fetch);
    const received = await postOverHttp(exchange, this.#agent);
    if (!received.stale) return received;
    // Whatever closed this connection has most likely closed the other idle ones too.
    this.#dropIdleSockets();
    return await postOverHttp(exchange, this.#agent);
  }

  /** The grant in a whole and successful answer; anything else is thrown as the error it amounts to. */
  #grantFrom(received: Received, { requestedAtMs, sent, deadline }: Sent): IssuedToken {
    // An answer that came whole counts, whatever ended since.
    const endedBy = received.error === undefined ? undefined : deadline.ended;
    if (endedBy === 'signal') throw closed();
    if (received.error instanceof OwnerTokenError) throw received.error;
    const fail = (found: ExchangeFailure): OwnerTokenError => {
      const timedOut = endedBy === 'time';
      const options = { nowMs: this.#clock.now(), sent, classifyFailure: this.#classifyFailure };
      return classifyExchange({ ...received, timedOut, ...found }, options);
    };
    const body = readJson(received.body);
    if (!body?.isJson || received.status === undefined || !isSuccess(received.status)) {
      throw fail({ body: body?.content, problem: body && !body.isJson ? 'it is not JSON' : undefined });
    }
    const grant = { ...this.#parsed(body.content, fail), requestedAtMs, ...responseOf(body.content) };
    const problem = problemOfIssued(grant);
    if (problem) throw fail({ body: body.content, problem });
    return grant;
  }

  #parsed(body: unknown, fail: (found: ExchangeFailure) => OwnerTokenError): { token: string; tokenType?: string } {
    try {
      const { token, tokenType } = (this.#parseResponse ?? parseTokenResponse)(body);
      return { token, ...(tokenType !== undefined && { tokenType }) };
    } catch (cause) {
      if (cause instanceof OwnerTokenError) throw cause;
      if (!this.#parseResponse) throw fail({ body, problem: (cause as TypeError).message });
      throw new OwnerTokenError('source_failed', 'parseResponse threw', { failedAtMs: this.#clock.now(), cause });
    }
  }
}

/** What is known of a request when its answer is read. */
interface Sent {
  requestedAtMs: number;
  /** Every value that must not come out in an error. */
  sent: readonly string[];
  deadline: Deadline;
}

/** Set as a path, not resolved as a reference: of those, `//elsewhere` would name another host. */
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

function closed(): OwnerTokenError {
  return new OwnerTokenError('closed', 'the token request was given up');
}

/** A whole body as JSON, or as text. A byte order mark is no JSON (RFC 8259 §8.1), and neither are broken characters. */
function readJson(body: Uint8Array | undefined): { isJson: boolean; content: unknown } | undefined {
  if (!body) return undefined;
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
