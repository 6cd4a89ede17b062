/**
 * The library's only error class. Errors end up in logs, reports and browser consoles, so an error holds only facts of fixed shape
 * (codes, numbers, fingerprints), never a body, a header or the message of a foreign error, which may quote its input. It keeps
 * only the name, code and stack frames of a cause.
 */

import { properties } from '../own-property.ts';
import { hasInstance } from './brand.ts';
import { looksLikeOauthError, refusalCodeOf } from './oauth-error.ts';
import { ScrubbedCause } from './scrubbed-cause.ts';

/**
 * What a failure stops: one owner, the client (our credentials), or the whole token endpoint.
 *
 * @example
 * ```ts
 * const statusOf: Record<FailureScope, number> = { owner: 403, client: 500, endpoint: 503 };
 * ```
 */
export type FailureScope = 'owner' | 'client' | 'endpoint';

/** The two scopes that concern all owners. */
export type WiderScope = Exclude<FailureScope, 'owner'>;

/**
 * What failed. `docs/errors.md` says what each code means and what to do.
 *
 * @example
 * ```ts
 * const gone: OwnerTokenErrorCode[] = ['owner_refused', 'invalid_access_key'];
 * ```
 */
export type OwnerTokenErrorCode =
  | 'owner_refused'
  | 'client_refused'
  | 'rate_limited'
  | 'endpoint_unavailable'
  | 'invalid_response'
  | 'redirect_refused'
  | 'token_rejected'
  | 'source_failed'
  | 'queue_full'
  | 'queue_timeout'
  | 'origin_refused'
  | 'insecure_url'
  | 'invalid_options'
  | 'invalid_access_key'
  | 'closed';

interface CodeFacts {
  /** The widest scope that a failure with this code can get; `owner`: it never escalates. Absent if no token request failed. */
  readonly escalatesTo?: FailureScope;
  /** Whether the same call may succeed later without a change on our side. */
  readonly retryable?: true;
  /** The code follows the scope. All other codes name their own cause and never change. */
  readonly followsScope?: true;
}

/** Without the properties of a polluted `Object.prototype`. */
const facts = (given: CodeFacts = {}): CodeFacts => Object.assign(Object.create(null), given);
/** What follows from each code. `docs/errors.md` says what it means. */
export const ERRORS: Readonly<Record<OwnerTokenErrorCode, CodeFacts>> = Object.freeze({
  owner_refused: facts({ escalatesTo: 'client', followsScope: true }),
  client_refused: facts({ escalatesTo: 'client', followsScope: true }),
  rate_limited: facts({ escalatesTo: 'endpoint', retryable: true }),
  endpoint_unavailable: facts({ escalatesTo: 'endpoint', retryable: true, followsScope: true }),
  invalid_response: facts({ escalatesTo: 'endpoint', retryable: true, followsScope: true }),
  redirect_refused: facts({ escalatesTo: 'endpoint' }),
  // Reported while a rejected token is kept; no call fails with it.
  token_rejected: facts({ escalatesTo: 'owner', retryable: true }),
  source_failed: facts({ escalatesTo: 'client', retryable: true }),
  queue_full: facts({ retryable: true }),
  queue_timeout: facts({ retryable: true }),
  origin_refused: facts(),
  insecure_url: facts(),
  invalid_options: facts(),
  invalid_access_key: facts(),
  closed: facts(),
});

/**
 * Every `code` that an {@link OwnerTokenError} can have.
 *
 * @example
 * ```ts
 * const counts = new Map(ERROR_CODES.map((code) => [code, 0]));
 * ```
 */
export const ERROR_CODES = Object.freeze(Object.keys(ERRORS)) as readonly OwnerTokenErrorCode[];

const CODE_OF_SCOPE = { owner: 'owner_refused', client: 'client_refused', endpoint: 'endpoint_unavailable' } as const;

/** The code of a failure that was attributed to a wider scope. A code that names its own cause stays. */
export function codeInScope(code: OwnerTokenErrorCode, scope: FailureScope): OwnerTokenErrorCode {
  return scope !== 'owner' && ERRORS[code].followsScope ? CODE_OF_SCOPE[scope] : code;
}

/**
 * Facts about a failure, for the constructor of {@link OwnerTokenError}.
 *
 * @example
 * ```ts
 * const facts: OwnerTokenErrorOptions = { failureScope: 'endpoint', retryAfterMs: 5_000, status: 503 };
 * const error = new OwnerTokenError('endpoint_unavailable', 'the vault is sealed', facts);
 * ```
 */
export interface OwnerTokenErrorOptions {
  /**
   * What the failure stops, used as is: `client` and `endpoint` stop all requests at once, and `owner` never stops
   * another owner. Default: its owner, until other owners fail too.
   */
  failureScope?: FailureScope | undefined;
  /**
   * How long the service asked to wait, in milliseconds (`Retry-After`); clamped to 1 s … 1 h, ignored unless finite and
   * over 0.
   */
  retryAfterMs?: number | undefined;
  /** The HTTP status of the response. */
  status?: number | undefined;
  /** The `error` of an RFC 6749 §5.2 error response. Dropped unless it looks like one. */
  oauthError?: string | undefined;
  /** Anything thrown; only its name, code and stack frames are kept. */
  cause?: unknown;
  /** Epoch ms; the registry sets it by its own clock. Default: now. */
  failedAtMs?: number | undefined;
  /** Epoch ms; the registry sets it while a pause is in force. */
  retryAtMs?: number | undefined;
  /** Fingerprint or label of the owner; set by the registry. Never an access key. */
  owner?: string | undefined;
}

const FACT_NAMES = [
  'failureScope',
  'retryAfterMs',
  'status',
  'oauthError',
  'cause',
  'failedAtMs',
  'retryAtMs',
  'owner',
] as const satisfies (keyof OwnerTokenErrorOptions)[];

/**
 * Key of the properties that only the library reads. The symbol is registered, because a process may load two copies of
 * the package (ESM and CommonJS, a monorepo), and each must recognize the errors of the other.
 */
const BRAND = Symbol.for('owner-token-registry.error');

interface Branded {
  readonly isScopeGiven: boolean;
}

/** What a failure proves beyond its owner. */
export interface Escalation {
  /** The scope that it escalates to; `owner` if it can only be the owner's own. */
  readonly scope: FailureScope;
  /** Whether the source set it, so that it needs no further evidence. */
  readonly isGiven: boolean;
}

/**
 * The error of this library. Switch on `code`; decide by `failureScope`, `retryable` and `retryAtMs`. Throw one from a
 * source of your own to say what its failure stops. `instanceof` also recognizes errors of another copy of the package.
 *
 * @example
 * ```ts
 * try {
 *   await registry.getToken('a wrong key');
 * } catch (error) {
 *   if (!isOwnerTokenError(error)) throw error;
 *   console.log(error.code, error.failureScope, error.retryable); // → owner_refused owner false
 * }
 * ```
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export class OwnerTokenError extends Error {
  /** Always `OwnerTokenError`. */
  override readonly name = 'OwnerTokenError';
  /** What failed. */
  readonly code: OwnerTokenErrorCode;
  /** Undefined if no token request failed (`queue_full`, `invalid_options`, …). */
  readonly failureScope: FailureScope | undefined;
  /** Whether the same call may succeed later without a change on our side. */
  readonly retryable: boolean;
  /** Epoch ms: when the failure happened, which may be long before a call that is refused because of it. */
  readonly failedAtMs: number;
  /** Epoch ms: the next attempt is made no earlier. Undefined: the next call makes a request. */
  readonly retryAtMs: number | undefined;
  /** How long the service asked to wait: 1 s to 1 h. */
  readonly retryAfterMs: number | undefined;
  /** The HTTP status of the response. */
  readonly status: number | undefined;
  /** The `error` of an OAuth error response. */
  readonly oauthError: string | undefined;
  /** The owner's fingerprint or label, once the registry has seen the error. */
  readonly owner: string | undefined;
  /** What was thrown, without its message. */
  override readonly cause?: ScrubbedCause;

  /** @throws {TypeError} for an unknown code or failure scope. */
  constructor(code: OwnerTokenErrorCode, message: string, options: OwnerTokenErrorOptions = {}) {
    super(message);
    const given: OwnerTokenErrorOptions = properties(options, FACT_NAMES) as object;
    const { failureScope, oauthError, cause } = given;
    checkKnown('OwnerTokenError code', code, ERROR_CODES);
    if (failureScope !== undefined) checkKnown('failureScope', failureScope, Object.keys(CODE_OF_SCOPE));
    const { escalatesTo, retryable = false } = ERRORS[code];
    this.code = code;
    this.failureScope = failureScope ?? (escalatesTo && 'owner');
    this.retryable = retryable;
    this.failedAtMs = finite(given.failedAtMs) ?? Date.now();
    this.retryAtMs = finite(given.retryAtMs);
    this.retryAfterMs = retryAfterMsWithin(finite(given.retryAfterMs));
    this.status = finite(given.status);
    this.oauthError = looksLikeOauthError(oauthError) ? oauthError : undefined;
    this.owner = given.owner;
    if (cause !== undefined) this.cause = ScrubbedCause.of(cause);
    Object.defineProperty(this, BRAND, { value: { isScopeGiven: failureScope !== undefined } satisfies Branded });
  }

  /** Recognizes errors of every copy of the package. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: a subclass inherits this method.
    return hasInstance(this, OwnerTokenError, BRAND, value);
  }

  /**
   * What this failure proves beyond its owner.
   *
   * @internal
   */
  static escalationOf(error: OwnerTokenError): Escalation {
    const { isScopeGiven: isGiven } = (error as unknown as { [BRAND]: Branded })[BRAND];
    if (isGiven) return { scope: error.failureScope as FailureScope, isGiven };
    const isOwners = refusalCodeOf(error.oauthError) === 'owner_refused';
    return { scope: (!isOwners && ERRORS[error.code].escalatesTo) || 'owner', isGiven };
  }

  /**
   * A copy of the failure with these changes, because each refused call gets its own error. A given scope is final and
   * decides the code; without one, the copy can escalate like the original.
   *
   * @internal
   */
  static restated(error: OwnerTokenError, changes: Restatement): OwnerTokenError {
    const failureScope = OwnerTokenError.escalationOf(error).isGiven ? error.failureScope : undefined;
    const { message, failureScope: wanted }: Restatement = properties(changes, RESTATED_NAMES) as object;
    const code = wanted ? codeInScope(error.code, wanted) : error.code;
    return new OwnerTokenError(code, message ?? error.message, { ...error, failureScope, ...changes });
  }

  /** Its properties, for `JSON.stringify`: no secret, and no stack. */
  toJSON(): object {
    return { ...this, message: this.message };
  }
}

/** What may change when a known failure is reported again. */
export type Restatement = { readonly message?: string } & Pick<
  OwnerTokenErrorOptions,
  'failureScope' | 'failedAtMs' | 'retryAtMs' | 'owner' | 'oauthError'
>;

const RESTATED_NAMES = ['message', 'failureScope'] as const satisfies (keyof Restatement)[];

/**
 * Whether a value is an {@link OwnerTokenError}, of this copy of the package or of another. Never throws.
 *
 * @example
 * ```ts
 * const error: unknown = await registry.getToken('a wrong key').catch((thrown: unknown) => thrown);
 * console.log(isOwnerTokenError(error) && error.code); // → owner_refused
 * ```
 */
export function isOwnerTokenError(value: unknown): value is OwnerTokenError {
  return value instanceof OwnerTokenError;
}

function checkKnown(what: string, value: string, known: readonly string[]): void {
  if (!known.includes(value)) throw new TypeError(`unknown ${what}; expected one of ${known.join(', ')}`);
}

/** Bounded, because a service may ask for anything, and because a longer number may be an echo of a secret. */
function retryAfterMsWithin(ms: number | undefined): number | undefined {
  if (ms === undefined || ms <= 0) return undefined;
  return Math.min(Math.max(ms, MIN_RETRY_AFTER_MS), MAX_RETRY_AFTER_MS);
}

const MIN_RETRY_AFTER_MS = 1_000;
const MAX_RETRY_AFTER_MS = 3_600_000;

function finite(value: unknown): number | undefined {
  return Number.isFinite(value) ? (value as number) : undefined;
}
