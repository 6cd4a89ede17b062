/**
 * The access token, and the interface of the sources that issue it. `snake_case` names are the service's, `camelCase`
 * names ours; `parseTokenResponse` converts between them.
 */

import { inspect } from 'node:util';
import { hasInstance } from './brand.ts';
import { properties } from './own-property.ts';
import type { NewsSource } from './source-news.ts';

/**
 * Where tokens come from: the token endpoint, or a decorator around one.
 *
 * A source throws an `OwnerTokenError` to say what its failure stops. Anything else that it throws is reported as
 * `source_failed` of that owner.
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
  /** Called by the registry's `close()`. */
  close?(): Promise<void>;
}

/**
 * Why a token is requested: none is cached (`absent`), the cached one expired, is refreshed ahead of its expiry, or was
 * rejected.
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
  /** Aborted when the registry closes. */
  readonly signal: AbortSignal;
  /** Why the token is requested. */
  readonly reason: RequestReason;
  /** The owner's current token. */
  readonly held?: AccessToken;
  /** The cached token, if it was rejected: a newer one is wanted. */
  readonly rejected?: AccessToken;
  /** The lifetime in milliseconds that the registry's expiry policy gives this token, for sources that store. */
  lifetimeMs(issued: IssuedToken): number;
  /**
   * Milliseconds from the registry's call of the source until the registry ends this request (`requestTimeoutMs`), for a
   * source that waits for other processes. A decorator that ends it earlier, or spends part of it, passes on less.
   */
  readonly timeoutMs?: number;
  /**
   * Asks for a new connection, because requests over the present ones failed: it reaches the host to which the name leads by
   * now.
   */
  readonly freshConnection?: boolean;
  /**
   * Lets another owner's request start while this one waits for another process, or for a quota. Such requests count as slow: at most
   * `concurrency` of them do not occupy room. There is no way back.
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
  /** The access token itself: a secret of 1 to 16,384 visible ASCII characters. */
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
 * What the constructor of {@link AccessToken} takes, for tests that need one without a registry.
 *
 * @example
 * ```ts
 * const fields: AccessTokenFields = {
 *   value: 'secret',
 *   tokenType: 'Bearer',
 *   fingerprint: 'token_1',
 *   issuedAtMs: Date.now(),
 *   refreshAtMs: Date.now() + 1_800_000,
 *   expiresAtMs: Date.now() + 3_600_000,
 * };
 * console.log(`${new AccessToken(fields)}`); // → AccessToken(token_1)
 * ```
 */
export interface AccessTokenFields {
  /** The token itself: a secret. */
  value: string;
  /** The authentication scheme, usually `Bearer`. */
  tokenType: string;
  /** Identifies the token in logs and reports; or what computes that when it is first read. */
  fingerprint:
    | string
    | {
        /** The fingerprint of this token value. */
        ofToken(token: string): string;
      };
  /** Epoch ms: just before the token was requested. */
  issuedAtMs: number;
  /** Epoch ms: when it is due for a refresh. */
  refreshAtMs: number;
  /** Epoch ms: when it is no longer served. */
  expiresAtMs: number;
}

/**
 * The secret and its two accessors, apart from {@link AccessToken} because of `util.inspect`: with `showHidden` and
 * `getters` it calls the accessors of an object's prototypes, but stops at a prototype with a built-in constructor.
 */
abstract class TokenSecret {
  abstract readonly tokenType: string;
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  static {
    Object.defineProperty(TokenSecret.prototype, 'constructor', { value: Object });
  }

  /** The token itself: a secret. */
  get value(): string {
    return this.#value;
  }

  /** `${tokenType} ${value}`, for an `Authorization` header: a secret. */
  get authorization(): string {
    return `${this.tokenType} ${this.#value}`;
  }
}

const BRAND = Symbol.for('owner-token-registry.token');

/** Tokens store offsets from this time, because V8 allocates an object for each number beyond 32 bits: 24 days before or after. */
const BASE_MS = Date.now() + 24 * 86_400_000;

/**
 * One owner's access token. Safe to log, serialize and inspect: the secret is in a private field, out of reach of
 * `JSON.stringify`, `util.inspect` and structured clones; only `value` and `authorization` return it.
 *
 * @example
 * ```ts
 * const token = await registry.getToken(accessKey);
 * const headers = { authorization: token.authorization };
 * console.log(JSON.stringify(token).includes(token.value)); // → false
 * ```
 */
export class AccessToken extends TokenSecret {
  /** The authentication scheme, usually `Bearer`. */
  readonly tokenType: string;
  /** Identifies this token in logs and reports. Computed when first read, because a digest costs as much as many hits. */
  declare readonly fingerprint: string;
  /** Epoch ms: just before the token was requested. Its lifetime counts from here. */
  declare readonly issuedAtMs: number;
  /** Epoch ms: from here on a call starts a background refresh. */
  declare readonly refreshAtMs: number;
  /** Epoch ms: from here on the token is not served. `Infinity`: kept until rejected. */
  declare readonly expiresAtMs: number;
  #fingerprint: AccessTokenFields['fingerprint'];
  /** The times, in milliseconds from {@link BASE_MS}. */
  readonly #issuedAt: number;
  readonly #refreshAt: number;
  readonly #expiresAt: number;

  /** Own properties, so that copies and clones have them. Defined one by one: V8 is slow at `defineProperties`. */
  static readonly #COMPUTED = Object.entries(
    Object.getOwnPropertyDescriptors<ThisType<AccessToken>>({
      get issuedAtMs(): number {
        return BASE_MS + this.#issuedAt;
      },
      get fingerprint(): string {
        if (typeof this.#fingerprint !== 'string') this.#fingerprint = this.#fingerprint.ofToken(this.value);
        return this.#fingerprint;
      },
      get refreshAtMs(): number {
        return BASE_MS + this.#refreshAt;
      },
      get expiresAtMs(): number {
        return BASE_MS + this.#expiresAt;
      },
    }),
  );

  static {
    Object.defineProperty(AccessToken.prototype, BRAND, { value: true });
  }

  /** The registry makes tokens; construct one in tests only. */
  constructor(fields: AccessTokenFields) {
    super(fields.value);
    this.tokenType = fields.tokenType;
    this.#issuedAt = fields.issuedAtMs - BASE_MS;
    this.#fingerprint = fields.fingerprint;
    this.#refreshAt = fields.refreshAtMs - BASE_MS;
    this.#expiresAt = fields.expiresAtMs - BASE_MS;
    for (const [name, property] of AccessToken.#COMPUTED) Object.defineProperty(this, name, property);
    Object.freeze(this);
  }

  /** Recognizes tokens of every copy of the package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: a subclass inherits this method.
    return hasInstance(this, AccessToken, BRAND, value);
  }

  /** `AccessToken(<fingerprint>)`. */
  override toString(): string {
    return `AccessToken(${this.fingerprint})`;
  }

  /** All properties but the secret. */
  toJSON(): object {
    return { ...this };
  }

  /** As `toJSON`, for `util.inspect` and `console.log`. */
  [inspect.custom](_depth: number, options: object): string {
    return `AccessToken ${inspect({ ...this }, options)}`;
  }
}

const ISSUED_NAMES = [
  'token',
  'tokenType',
  'requestedAtMs',
  'serviceTimeMs',
  'response',
] as const satisfies (keyof IssuedToken)[];

/** Node's limit for all headers of a request is 16 KiB, so a longer token could not be sent. */
const MAX_TOKEN_LENGTH = 16_384;

/** @see {@link https://www.rfc-editor.org/rfc/rfc6749#appendix-A.12 RFC 6749 A.12, access_token = 1*VSCHAR} */
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/**
 * A checked copy of what a source returned, or why it cannot be used, without quoting it: both have a `token` of their own. Reads
 * each property once: it may be an accessor. A token with a line break, for example, would split the header that carries it.
 */
export function readIssued(returned: unknown): IssuedToken | ReturnType<typeof unusable> {
  if (typeof returned !== 'object' || returned === null) return unusable('it is not an object');
  const { token, tokenType, requestedAtMs, serviceTimeMs: serviceTime, response } = properties(returned, ISSUED_NAMES);
  if (typeof token !== 'string') return unusable('the token is not a string');
  if (token === '') return unusable('the token is empty');
  if (token.length > MAX_TOKEN_LENGTH) return unusable(`the token is longer than ${MAX_TOKEN_LENGTH} characters`);
  if (!VISIBLE_ASCII.test(token)) return unusable('the token has characters that a header cannot carry');
  if (tokenType !== undefined && typeof tokenType !== 'string') return unusable('the token type is not a string');
  const isDated = requestedAtMs === undefined || Number.isFinite(requestedAtMs);
  if (!isDated) return unusable('requestedAtMs is not a finite number');
  const serviceTimeMs = Number.isNaN(serviceTime) ? undefined : serviceTime;
  const hasServiceTime = serviceTimeMs === undefined || Number.isFinite(serviceTimeMs);
  if (!hasServiceTime) return unusable('serviceTimeMs is not a finite number');
  return { token, tokenType, requestedAtMs, serviceTimeMs, response } as IssuedToken;
}

const unusable = (problem: string) => ({ token: undefined, problem });
