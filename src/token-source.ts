/**
 * The interface of token sources: what they are given, what they return and which news they pass on. `snake_case` names are
 * the service's, `camelCase` names ours; `parseTokenResponse` converts between them.
 */

import type { Clock } from './clock.ts';
import { properties } from './own-property.ts';
import type { Level, Logger } from './reporting/logger.ts';
import type { AccessToken } from './token.ts';

/**
 * Where tokens come from: the token endpoint, or a decorator around one.
 *
 * A source throws an `OwnerTokenError` to say what its failure stops. The errors of HTTP and OAuth clients are recognized;
 * anything else that it throws is `source_failed` of that owner.
 *
 * @example
 * ```ts
 * const vault: TokenSource = {
 *   async requestToken(accessKey) {
 *     if (accessKey === 'revoked') throw new OwnerTokenError('owner_refused', 'the access key was revoked');
 *     return { token: `token-of-${accessKey}`, response: { expires_in: 3600 } };
 *   },
 * };
 * await using tokens = new OwnerTokenRegistry({ source: vault });
 * console.log((await tokens.getToken('a')).value); // → token-of-a
 * ```
 */
export interface TokenSource extends NewsSource {
  /** Requests a new token for the owner of this access key. Must settle soon after `request.signal` aborts. */
  requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken>;
  /** A digest of token URL, client id and current secret; replicas derive the names of their shared records from it. */
  identity?(): string | Promise<string>;
  /** The default of `allowedOrigins`, where tokens may be sent: an origin such as `https://api.example.com`. */
  readonly origin?: string | undefined;
  /**
   * Milliseconds that a request takes at most, if that is less than the registry's `requestTimeoutMs`. Callers that are
   * refused while a trial request is in flight are told to retry by then. The source itself enforces it.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Called by the registry's `forget`, for each owner, known or not: a source that stores tokens, or shares them, drops the
   * owner's. Not called for what it reported itself as {@link SourceNews.forgotten}.
   */
  forget?(accessKey: string): void;
  /** Called by the registry's `close()`. */
  close?(): Promise<void>;
}

/**
 * Why a token is requested: none is cached (`absent`), the cached one expired, is refreshed ahead of its expiry, or was
 * rejected. Also `rejected` if the last answer brought another owner's token.
 *
 * @example
 * ```ts
 * const urgent: RequestReason[] = ['absent', 'expired', 'rejected'];
 * ```
 */
export type RequestReason = 'absent' | 'expired' | 'refresh' | 'rejected';

/**
 * The context of a token request, for sources that share or store tokens.
 *
 * @example
 * ```ts
 * const logged: TokenSource = {
 *   requestToken(owner, request: TokenRequest) {
 *     console.log(request.reason); // → absent
 *     return new TokenEndpoint({ baseUrl, clientId, clientSecret }).requestToken(owner, request);
 *   },
 * };
 * await new OwnerTokenRegistry({ source: logged }).getToken(accessKey);
 * ```
 */
export interface TokenRequest {
  /** Aborted when the registry closes or gives the request up, after `requestTimeoutMs`. */
  readonly signal: AbortSignal;
  /** Why the token is requested. */
  readonly reason: RequestReason;
  /** The owner's current token. */
  readonly held?: AccessToken;
  /** The cached token, if it was rejected, or another owner's that the last answer brought: a newer one is wanted. */
  readonly rejected?: AccessToken;
  /**
   * The lifetime in milliseconds that the registry's expiry policy gives this token, for sources that store. Throws for a token
   * that was issued to another owner a moment ago, unless it is the answer to a second request: do not store it.
   */
  lifetimeMs(issued: IssuedToken): number;
  /**
   * Milliseconds from the registry's call of the source until the registry ends this request (`requestTimeoutMs`), for a
   * source that waits for other processes. A decorator that ends it earlier, or spends part of it, passes on less.
   */
  readonly timeoutMs?: number;
  /**
   * Asks for a new connection, because requests over the present ones failed: it reaches the host to which the name now
   * resolves.
   */
  readonly freshConnection?: boolean;
  /**
   * Lets another owner's request start while this one waits: for another process, for a quota, or until the API accepts the token.
   * Such requests count as slow: up to `concurrency` of them do not count against the limit. This cannot be undone.
   */
  yieldPlace?(): void;
}

/**
 * A token that a source obtained.
 *
 * @example
 * ```ts
 * const issued: IssuedToken = { token: 'opaque', tokenType: 'Bearer', response: { expires_in: 3600 } };
 * console.log(expiresIn().lifetimeMs(issued)); // → 3600000
 * ```
 */
export interface IssuedToken {
  /** The access token itself: a secret of 1 to 65,536 visible ASCII characters. White space around it is removed. */
  readonly token: string;
  /**
   * The authentication scheme. `Bearer` when absent, and for anything but a registered scheme; `present` of `ownerFetch` sends
   * another one.
   */
  readonly tokenType?: string | undefined;
  /** Epoch ms just before the request was sent, by the source's clock. Default: by the registry's. */
  readonly requestedAtMs?: number | undefined;
  /**
   * Epoch ms by the service's own clock as it answered, such as its `Date` header. Dates that the service states, such as a JWT's
   * `exp`, count from it. `NaN`, which `Date.parse` returns for a missing header, counts as unknown.
   */
  readonly serviceTimeMs?: number | undefined;
  /** The parsed JSON body of the response. */
  readonly response?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * A successful token response as RFC 6749 defines it. An assumption, because the service does not document its own.
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1}
 */
export interface TokenResponse {
  access_token: string;
  token_type?: string;
  /** Seconds. */
  expires_in?: number;
}

/**
 * The callbacks by which a source passes news from other replicas to its registry.
 *
 * @example
 * ```ts
 * const listening: TokenSource = {
 *   requestToken: async () => ({ token: 'opaque' }),
 *   listen: (news: SourceNews) => void setTimeout(() => news.recovered(accessKey), 10),
 * };
 * await using tokens = new OwnerTokenRegistry({ source: listening });
 * ```
 */
export interface SourceNews {
  /** A token of this owner was rejected elsewhere: requests a newer one, once, if `isToken` recognizes the cached one. */
  rejected(accessKey: string, isToken: (token: string) => boolean): void;
  /** The service has issued a token of this owner elsewhere after a failure: lifts its pause and those of all owners. */
  recovered(accessKey: string): void;
  /** The owner was forgotten elsewhere: does what the registry's `forget` does, but does not call the source's. */
  forgotten?(accessKey: string): void;
  /** Whether the registry keeps anything for this owner. News of another one would change nothing. */
  isKept(accessKey: string): boolean;
  /** The registry's own, for a source that was not given any. */
  readonly defaults?: {
    /** The option `name`. */
    readonly name: string;
    /** The option `logger`. */
    readonly logger?: Logger | Level | undefined;
    /** The option `clock`. */
    readonly clock?: Clock | undefined;
    /** The option `random`. */
    readonly random?: () => number;
  };
}

/**
 * A source that may receive news from other replicas.
 *
 * @example
 * ```ts
 * const silent: NewsSource = { listen: () => {} };
 * ```
 */
export interface NewsSource {
  /** Called once by the registry. */
  listen?(news: SourceNews): void;
}

const ISSUED_NAMES = [
  'token',
  'tokenType',
  'requestedAtMs',
  'serviceTimeMs',
  'response',
] as const satisfies (keyof IssuedToken)[];

/** Few servers accept more in all headers of a request. */
const MAX_TOKEN_LENGTH = 65_536;

/**
 * What `Headers` removes from a value. The assertion keeps the search linear.
 *
 * @see {@link https://fetch.spec.whatwg.org/#concept-header-value-normalize Fetch, normalize}
 */
const SURROUNDING_SPACE = /^[\t\n\r ]+|(?<![\t\n\r ])[\t\n\r ]+$/g;

/** @see {@link https://www.rfc-editor.org/rfc/rfc6749#appendix-A.12 RFC 6749 A.12, access_token = 1*VSCHAR} */
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/**
 * A checked copy of what a source returned, or why it cannot be used, without quoting it: both have an own `token`. Reads
 * each property once: it may be an accessor. A token with a line break, for example, would split the header that carries it.
 */
export function readIssued(returned: unknown): IssuedToken | ReturnType<typeof unusable> {
  if (typeof returned !== 'object' || returned === null) return unusable('it is not an object');
  const given = properties(returned, ISSUED_NAMES);
  const { token: untrimmed, tokenType, requestedAtMs, serviceTimeMs: serviceTime, response } = given;
  if (typeof untrimmed !== 'string') return unusable('the token is not a string');
  const token = untrimmed.replace(SURROUNDING_SPACE, '');
  if (token === '') return unusable('the token is empty');
  if (token.length > MAX_TOKEN_LENGTH) return unusable(`the token is longer than ${MAX_TOKEN_LENGTH} characters`);
  if (!VISIBLE_ASCII.test(token)) return unusable('the token has characters that are not allowed in a header');
  if (tokenType !== undefined && typeof tokenType !== 'string') return unusable('the token type is not a string');
  const isDated = requestedAtMs === undefined || Number.isFinite(requestedAtMs);
  if (!isDated) return unusable('requestedAtMs is not a finite number');
  const serviceTimeMs = Number.isNaN(serviceTime) ? undefined : serviceTime;
  const hasServiceTime = serviceTimeMs === undefined || Number.isFinite(serviceTimeMs);
  if (!hasServiceTime) return unusable('serviceTimeMs is not a finite number');
  return { token, tokenType, requestedAtMs, serviceTimeMs, response } as IssuedToken;
}

const unusable = (problem: string) => ({ token: undefined, problem });
