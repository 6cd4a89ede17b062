/** The access token. */

import { inspect } from 'node:util';
import { hasInstance } from './errors/brand.ts';

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
  /** Identifies the token in logs and reports; or an object that computes it when it is first read. */
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
  /** Further fields of the response; see `responseFields` of the registry. Default: nothing. */
  response?: TokenFields | undefined;
}

/**
 * Fields of the token response that a token carries, by the names that `responseFields` lists.
 *
 * @example
 * ```ts
 * const fields: TokenFields = { instance_url: 'https://eu1.example.com', is_sandbox: false };
 * ```
 */
export type TokenFields = Readonly<Record<string, string | number | boolean | undefined>>;

const NO_FIELDS: TokenFields = Object.freeze(Object.create(null));

/**
 * The secret and its two accessors, separate from {@link AccessToken} because of `util.inspect`: with `showHidden` and
 * `getters` it calls the accessors of an object's prototypes, but stops at a prototype with a built-in constructor.
 */
abstract class TokenSecret {
  abstract readonly tokenType: string;
  /** The token itself, together with the fields of its response if it has any: few have, and a field costs memory in each. */
  readonly #secret: string | { readonly value: string; readonly response: TokenFields };

  constructor(value: string, response?: TokenFields) {
    this.#secret = response ? { value, response } : value;
  }

  static {
    Object.defineProperty(TokenSecret.prototype, 'constructor', { value: Object });
  }

  /** The token itself: a secret. */
  get value(): string {
    return typeof this.#secret === 'string' ? this.#secret : this.#secret.value;
  }

  /** `${tokenType} ${value}`, for an `Authorization` header: a secret. */
  get authorization(): string {
    return `${this.tokenType} ${this.value}`;
  }

  /**
   * Further fields of the response: those that the registry's `responseFields` lists. Like the secret, they are never
   * printed.
   */
  get response(): TokenFields {
    return typeof this.#secret === 'string' ? NO_FIELDS : this.#secret.response;
  }
}

const BRAND = Symbol.for('owner-token-registry.token');

/** Tokens store offsets from this time, because V8 allocates an object for each number beyond 32 bits: 24 days before or after. */
const BASE_MS = Date.now() + 24 * 86_400_000;

/**
 * One owner's access token. Safe to log, serialize and inspect: the secret is in a private field, out of reach of
 * `JSON.stringify` and `util.inspect`; only `value` and `authorization` return it. A structured clone would lack it, so
 * `structuredClone` and `postMessage` throw a `DataCloneError`: pass on `value`.
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
  static readonly #COMPUTED = Object.entries({
    ...Object.getOwnPropertyDescriptors<ThisType<AccessToken>>({
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
    // A function, which cannot be cloned, keeps `structuredClone` from returning a token without its secret. By an accessor, which
    // takes no memory in each token.
    toString: { get: () => AccessToken.prototype.toString, enumerable: true },
  });

  static {
    Object.defineProperty(AccessToken.prototype, BRAND, { value: true });
  }

  /** The registry makes tokens; construct one in tests only. */
  constructor(fields: AccessTokenFields) {
    super(fields.value, fields.response);
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

  /** All properties except the secret. */
  toJSON(): object {
    const { toString: _, ...shown } = this;
    return shown;
  }

  /** The same as `toJSON`, for `util.inspect` and `console.log`. */
  [inspect.custom](_depth: number, options: object): string {
    return `AccessToken ${inspect(this.toJSON(), options)}`;
  }
}
