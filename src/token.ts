/**
 * The token and the one seam. `snake_case` names what the service sends; `camelCase` what we use, and
 * {@link parseTokenResponse} is where one becomes the other.
 */

import { inspect } from 'node:util';
import { type FailureScope, hasInstance, type OwnerTokenError } from './errors.ts';

/**
 * What answers a token request: the token endpoint, or a decorator around one.
 *
 * A source throws an `OwnerTokenError` to say what its failure stops. Anything else that it throws counts as that
 * owner's `source_failed`.
 */
export interface TokenSource {
  /** Obtains a new token for the owner of this access key. Must settle soon after `request.signal` is aborted. */
  requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken>;
  /** Digest of token URL, client id and current secret; a fleet's names depend on it. */
  identity?(): string | Promise<string>;
  /** Where tokens may be sent unless `ownerFetch` is told otherwise: an origin such as `https://api.example.com`. */
  readonly origin?: string;
  /** Called by the registry's `close()`. */
  close?(): Promise<void>;
}

/** Why a token is asked for. */
export type RequestReason = 'absent' | 'expired' | 'refresh' | 'rejected';

/** What a source is told with each request; whole from the start, because a source that shares or stores needs it. */
export interface TokenRequest {
  /** Aborted when the registry closes. */
  readonly signal: AbortSignal;
  readonly reason: RequestReason;
  /** The token held now. */
  readonly held?: AccessToken;
  /** The token that was refused last and must not come again. */
  readonly rejected?: AccessToken;
  /** What the registry's expiry policy makes of a grant, in milliseconds, for a source that stores. */
  lifetimeMs(grant: IssuedToken): number;
  /** The scope that the registry attributes a failure of this request to, for a source that shares failures. */
  scopeOf?(error: OwnerTokenError): FailureScope;
  /** The right to make this request, which a source gives back while it only waits for another process. */
  readonly permit?: RequestPermit;
}

/** Held when `requestToken` is called. A source that never waits for others has no use for it. */
export interface RequestPermit {
  /** Lets another owner's request begin. */
  release(): void;
  /** Queues for a permit again, before the source makes a request after all. Rejects with the signal's reason. */
  take(): Promise<void>;
}

/** What a source obtained. */
export interface IssuedToken {
  readonly token: string;
  /** `Bearer` when absent. */
  readonly tokenType?: string;
  /** Epoch ms just before the request was sent, by the source's clock. When absent, the registry's. */
  readonly requestedAtMs?: number;
  /** The parsed JSON body, as it came. */
  readonly response?: Readonly<Record<string, unknown>>;
}

/**
 * The successful answer in the form of RFC 6749, which is our assumption: the service's own is not shown.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1}
 */
export interface TokenResponse {
  access_token: string;
  token_type?: string;
  /** Seconds. */
  expires_in?: number;
}

export interface AccessTokenFields {
  value: string;
  tokenType: string;
  fingerprint: string;
  issuedAtMs: number;
  refreshAtMs: number;
  expiresAtMs: number;
}

const BRAND = Symbol.for('owner-token-registry.token');

/**
 * One owner's access token. Safe to log, serialise and inspect: the secret is in a private field, out of reach of
 * `JSON.stringify`, `util.inspect` and structured clones, and only `value` and `authorization` give it.
 */
export class AccessToken {
  /** The scheme, `Bearer` as a rule. */
  readonly tokenType: string;
  /** What logs and reports call this token. */
  readonly fingerprint: string;
  /** Epoch ms: just before the request for it was sent. Its lifetime counts from here. */
  readonly issuedAtMs: number;
  /** Epoch ms: from here on a call for it starts a request for its successor. */
  readonly refreshAtMs: number;
  /** Epoch ms: from here on it is not served. `Infinity`: unknown, kept until rejected. */
  readonly expiresAtMs: number;
  readonly #value: string;

  static {
    Object.defineProperty(AccessToken.prototype, BRAND, { value: true });
  }

  constructor(fields: AccessTokenFields) {
    this.tokenType = fields.tokenType;
    this.fingerprint = fields.fingerprint;
    this.issuedAtMs = fields.issuedAtMs;
    this.refreshAtMs = fields.refreshAtMs;
    this.expiresAtMs = fields.expiresAtMs;
    this.#value = fields.value;
    Object.freeze(this);
  }

  /** Recognizes tokens of every copy of the package. */
  static [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: a subclass inherits this method.
    return hasInstance(this, AccessToken, BRAND, value);
  }

  /** The token itself: a secret. */
  get value(): string {
    return this.#value;
  }

  /** `${tokenType} ${value}`, as an `Authorization` header takes it: a secret. */
  get authorization(): string {
    return `${this.tokenType} ${this.#value}`;
  }

  toString(): string {
    return `AccessToken(${this.fingerprint})`;
  }

  toJSON(): object {
    return { ...this };
  }

  [inspect.custom](_depth: number, options: object): string {
    return `AccessToken ${inspect({ ...this }, options)}`;
  }
}

/** Over this a token would not fit into a request's headers anywhere (Node's own limit for all of them is 16 KiB). */
const MAX_TOKEN_LENGTH = 16_384;

/**
 * Reads the token out of a successful answer; throws a `TypeError` that says what is wrong, without quoting it.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1}
 */
export function parseTokenResponse(body: unknown): { token: string; tokenType?: string } {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new TypeError('the answer is not a JSON object');
  }
  const { access_token: token, token_type: tokenType } = body as Partial<Record<keyof TokenResponse, unknown>>;
  if (typeof token !== 'string') throw new TypeError('access_token is not a string');
  return { token, ...(typeof tokenType === 'string' && tokenType !== '' && { tokenType }) };
}

/**
 * What is wrong with a grant, in words that do not quote it; undefined for a good one. Every grant passes here, from
 * whatever source: a token with a line break in it would split the header that carries it.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#appendix-A.12 RFC 6749 A.12, access_token = 1*VSCHAR}
 */
export function problemOfIssued(grant: unknown): string | undefined {
  if (typeof grant !== 'object' || grant === null) return 'the source gave no grant';
  const { token, tokenType, requestedAtMs } = grant as Partial<Record<keyof IssuedToken, unknown>>;
  if (typeof token !== 'string') return 'the token is not a string';
  if (token === '') return 'the token is empty';
  if (token.length > MAX_TOKEN_LENGTH) return `the token is longer than ${MAX_TOKEN_LENGTH} characters`;
  if (!/^[\x21-\x7e]+$/.test(token)) return 'the token has characters that a header cannot carry';
  if (tokenType !== undefined && !(typeof tokenType === 'string' && /^[\w!#$%&'*+.^`|~-]{1,64}$/.test(tokenType))) {
    return 'the token type is not an authentication scheme';
  }
  if (requestedAtMs !== undefined && !Number.isFinite(requestedAtMs)) return 'requestedAtMs is not a finite number';
  return undefined;
}

/** The scheme as it is sent: `bearer`, which many services answer, is written `Bearer`, which all of them accept. */
export function schemeOf(tokenType: string | undefined): string {
  return tokenType === undefined || tokenType.toLowerCase() === 'bearer' ? 'Bearer' : tokenType;
}
