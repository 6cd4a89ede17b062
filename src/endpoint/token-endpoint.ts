/**
 * The token endpoint: one access key in, one POST, one issued token or one error out. It does not cache, queue or back
 * off. It resends a request in one case only: a reused connection turned out to be closed before any of the response arrived,
 * or the response refuses the connection (408, 421).
 */

import type http from 'node:http';
import type { Socket } from 'node:net';
import { Cancellation, Deadline } from '../cancellation.ts';
import { type Clock, systemClock } from '../clock.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { dateMsOf } from '../http-failure.ts';
import { type IssuedToken, readIssued, type TokenRequest, type TokenSource } from '../token-source.ts';
import { parseTokenResponse } from '../token-type.ts';
import { classify, type UnusableBody } from './classify-failure.ts';
import { postByFetch } from './fetch-exchange.ts';
import {
  type ExchangeResult,
  idleSockets,
  keepAliveAgent,
  postOverHttp,
  ResultBatch,
  type Target,
  targetBelow,
} from './http-exchange.ts';
import { type CheckedEndpointOptions, checkEndpointOptions, type TokenEndpointOptions } from './options.ts';
import {
  type CheckedRequest,
  checkedRequest,
  DEFAULT_PATH,
  type TokenRequestCredentials,
  UnusableRequest,
} from './token-request.ts';

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
  readonly #options: CheckedEndpointOptions;
  /** Where the last request went, kept because parsing a URL is slow. */
  #target: Target;
  readonly #batch = new ResultBatch();
  /** The `Date` of the last response, and its time: all responses of one second have the same. */
  #date: string | undefined;
  #dateMs: number | undefined;
  /** Undefined if the user's agent or `fetch` manages the connections. */
  readonly #ownAgent: http.Agent | undefined;
  readonly #clock: Clock;

  /** @throws {OwnerTokenError} `invalid_options`, listing every problem; `insecure_url` if that is the only one. */
  constructor(options: TokenEndpointOptions) {
    this.#options = checkEndpointOptions(options);
    const { baseUrl, agent, fetch, clock, timeoutMs } = this.#options;
    warnIfUnchecked(baseUrl);
    this.origin = baseUrl.origin;
    this.timeoutMs = timeoutMs;
    this.#target = targetBelow(baseUrl, DEFAULT_PATH);
    this.#ownAgent = agent || fetch ? undefined : keepAliveAgent(baseUrl);
    this.#clock = clock;
  }

  /**
   * Requests a new token for the owner of this access key.
   *
   * @param context `signal` ends the request at once, with `closed`. With `freshConnection`, the request goes over a new
   * connection, and if that brings a token, the older idle ones are closed.
   * @throws An `OwnerTokenError` whose `failureScope` says what the failure stops.
   */
  async requestToken(
    accessKey: string,
    context: Partial<Pick<TokenRequest, 'signal' | 'freshConnection'>> = {},
  ): Promise<IssuedToken> {
    if (typeof accessKey !== 'string' || accessKey === '') {
      throw new OwnerTokenError('invalid_access_key', 'the access key is not a non-empty string');
    }
    const { clientId, clientSecret: given, classifyFailure } = this.#options;
    const deadline = new Deadline(this.#clock, this.timeoutMs, Cancellation.of(context));
    try {
      const clientSecret = typeof given === 'string' ? given : await this.#readSecret(given, deadline);
      const request = this.#build({ clientId, clientSecret, accessKey });
      const requestedAtMs = this.#clock.now();
      const older = context.freshConnection && this.#ownAgent ? idleSockets(this.#ownAgent) : undefined;
      let result = await this.#post(request, deadline, context.freshConnection);
      if (Object.hasOwn(result, 'stale') && result.stale) {
        // The other idle connections are probably closed too.
        if (result.error) await this.close();
        result = await this.#post(request, deadline, true);
      }
      if (result.error && result.error instanceof OwnerTokenError) throw result.error;
      const read = this.#read(result, requestedAtMs);
      if (read.issued) {
        if (older) this.#closeIdle(older);
        return read.issued;
      }
      const credentials = { clientId, clientSecret, 'the access key': accessKey };
      throw classify(result, read, { nowMs: this.#clock.now(), credentials, classifyFailure });
    } finally {
      deadline.cancel();
    }
  }

  /**
   * A digest of token URL, client id, current secret and the shape of the request, which is what `tokenRequest` returns for
   * placeholder values: equal for two endpoints that call the same service in the same way as the same client. It reveals
   * only whether the secret changed. Still, derive shared names from it with a keyed hash.
   */
  async identity(): Promise<string> {
    const { baseUrl, clientId, clientSecret: given } = this.#options;
    const secret = typeof given === 'string' ? given : await this.#readSecretInTime(given);
    // Built anew each time, because a shape may read settings that change: replicas that differ must not share.
    const { path, headers, body } = this.#build(PLACEHOLDERS);
    const parts = [targetBelow(baseUrl, path).url.href, clientId, secret, JSON.stringify(headers), body];
    const hash = process.getBuiltinModule('node:crypto').createHash('sha256');
    // The length prefixes make the concatenation unambiguous.
    for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
    return hash.digest('base64url');
  }

  /** Closes the idle connections of its own agent. The endpoint can still be used afterwards. */
  async close(): Promise<void> {
    if (this.#ownAgent) this.#closeIdle(idleSockets(this.#ownAgent));
  }

  /** Closes these connections if they are still idle. */
  #closeIdle(sockets: readonly Socket[]): void {
    const idle = idleSockets(this.#ownAgent as http.Agent);
    for (const socket of idle.filter((each) => sockets.includes(each))) socket.destroy();
  }

  async #readSecretInTime(given: () => string | Promise<string>): Promise<string> {
    const deadline = new Deadline(this.#clock, this.timeoutMs, undefined);
    try {
      return await this.#readSecret(given, deadline);
    } finally {
      deadline.cancel();
    }
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
    const facts = { failedAtMs: this.#clock.now(), cause };
    throw new OwnerTokenError('source_failed', `clientSecret() ${problem}`, facts);
  }

  #build(credentials: TokenRequestCredentials): CheckedRequest {
    try {
      return checkedRequest(this.#options.tokenRequest(credentials));
    } catch (cause) {
      if (cause instanceof OwnerTokenError) throw cause;
      const isUnusable = cause instanceof UnusableRequest;
      const problem = isUnusable ? `returned a request that cannot be sent: ${cause.message}` : 'threw';
      throw new OwnerTokenError('source_failed', `tokenRequest ${problem}`, { failedAtMs: this.#clock.now(), cause });
    }
  }

  #post({ path, headers, body }: CheckedRequest, deadline: Deadline, isFresh?: boolean): Promise<ExchangeResult> {
    const { baseUrl, maxResponseBytes, fetch, agent = this.#ownAgent } = this.#options;
    if (path !== this.#target.path) this.#target = targetBelow(baseUrl, path);
    const exchange = { target: this.#target, headers, body, maxResponseBytes, isFresh, deadline };
    if (!fetch) return postOverHttp(exchange, agent as http.Agent, this.#batch);
    const posted = postByFetch(exchange, fetch);
    // A clock of the user's own may be a test's, which would run ahead of the batches.
    if (this.#clock !== systemClock) return posted;
    return new Promise((resolve, reject) => {
      posted.then((result) => this.#batch.add(resolve, result), reject);
    });
  }

  #timeOf(date: string | undefined): number | undefined {
    if (date !== this.#date) {
      this.#date = date;
      this.#dateMs = dateMsOf(date);
    }
    return this.#dateMs;
  }

  /** The token in a complete 2xx response, or why there is none. A complete response counts even past the deadline. */
  #read({ status = 0, body, date }: ExchangeResult, requestedAtMs: number): Read {
    if (!body) return { issued: undefined };
    const { parseResponse } = this.#options;
    const { isJson, content } = readJson(body);
    if (status < 200 || status > 299) return { issued: undefined, body: content };
    if (!isJson) return { issued: undefined, body: content, problem: 'it is not JSON' };
    try {
      const parsed = readIssued((parseResponse ?? parseTokenResponse)(content));
      if (parsed.token === undefined) return { issued: undefined, body: content, problem: parsed.problem };
      const isObject = typeof content === 'object' && content !== null && !Array.isArray(content);
      const response = isObject ? (content as IssuedToken['response']) : undefined;
      return { issued: { ...parsed, requestedAtMs, serviceTimeMs: this.#timeOf(date), response } };
    } catch (cause) {
      if (!parseResponse) return { issued: undefined, body: content, problem: (cause as TypeError).message };
      if (cause instanceof OwnerTokenError) throw cause;
      throw new OwnerTokenError('source_failed', 'parseResponse threw', { failedAtMs: this.#clock.now(), cause });
    }
  }
}

/** The values for which `identity()` builds the request. */
const PLACEHOLDERS: TokenRequestCredentials = Object.freeze({
  clientId: 'a client id',
  clientSecret: 'a client secret',
  accessKey: 'an access key',
});

/** What a response contains: a usable token, or anything else. */
interface Read extends UnusableBody {
  /** Always an own property, because `Object.prototype` may be polluted. */
  readonly issued: IssuedToken | undefined;
}

/**
 * Parses a body as JSON, or else decodes it as text. Never stricter than `response.json()`: a byte order mark is skipped, and
 * invalid UTF-8 is replaced, since it may be in a field that nobody needs. Reads UTF-16 too.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc8259#section-8.1 RFC 8259 §8.1}
 */
function readJson(body: Buffer): { isJson: boolean; content: unknown } {
  // JSON begins with an ASCII character: a zero byte next to it shows UTF-16.
  const isUtf16 = body[0] === 0xff || body[0] === 0xfe || body[0] === 0 || body[1] === 0;
  const isBigEndian = body[0] === 0xfe || body[0] === 0;
  const text = isUtf16 ? new TextDecoder(isBigEndian ? 'utf-16be' : 'utf-16le').decode(body) : body.toString();
  const content = text.replace(/^\ufeff/, '');
  try {
    return { isJson: true, content: JSON.parse(content) };
  } catch {
    return { isJson: false, content };
  }
}

/** Node's own warning does not say what is at stake here. */
function warnIfUnchecked({ protocol }: URL): void {
  if (protocol !== 'https:' || process.env.NODE_TLS_REJECT_UNAUTHORIZED !== '0') return;
  const risk = 'any server on the network path can steal the client secret';
  const instead = 'To trust a certificate authority, use NODE_EXTRA_CA_CERTS';
  process.emitWarning(`TokenEndpoint: with NODE_TLS_REJECT_UNAUTHORIZED=0, ${risk}. ${instead}`);
}
