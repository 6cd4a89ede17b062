/**
 * The one error class, and how it keeps silent. An error travels: into logs, reports, a browser's console. So it holds
 * facts of fixed shape only (codes, numbers, fingerprints) and never a body, a header or what another error said:
 * messages of foreign errors quote what they choke on. Of a cause we keep its name, code and stack frames.
 */

/** What a failure stops: one owner, the client (our credentials), or the whole token endpoint. */
export type FailureScope = 'owner' | 'client' | 'endpoint';

/** The two scopes that concern all owners. */
export type WiderScope = Exclude<FailureScope, 'owner'>;

/** Every `code` that an {@link OwnerTokenError} can have. */
export const ERROR_CODES = [
  'owner_refused',
  'client_refused',
  'rate_limited',
  'endpoint_unavailable',
  'invalid_response',
  'redirect_refused',
  'token_rejected',
  'origin_refused',
  'insecure_url',
  'invalid_options',
  'invalid_access_key',
  'queue_full',
  'queue_timeout',
  'source_failed',
  'closed',
] as const;

/** See `docs/errors.md` for what each means and what to do. */
export type OwnerTokenErrorCode = (typeof ERROR_CODES)[number];

export interface OwnerTokenErrorOptions {
  /**
   * What the failure stops. Given, it is taken at its word. Left out, it is read from the code, and for a code that
   * may be the doing of the endpoint or the client it begins with the owner and escalates when other owners fail too.
   */
  failureScope?: FailureScope;
  /** How long the service asked to be left alone, in milliseconds (`Retry-After`). */
  retryAfterMs?: number | undefined;
  /** The HTTP status of the answer. */
  status?: number | undefined;
  /** The `error` of an RFC 6749 §5.2 error response. Dropped unless it looks like one. */
  oauthError?: string | undefined;
  /** Anything thrown; only its name, code and stack frames are kept. */
  cause?: unknown;
  /** Epoch ms; the registry sets it by its own clock. Default: now. */
  failedAtMs?: number;
  /** Epoch ms; the registry sets it while a pause is in force. */
  retryAtMs?: number | undefined;
  /** Fingerprint or label of the owner; set by the registry. Never an access key. */
  owner?: string | undefined;
}

interface CodeMeaning {
  scope?: FailureScope;
  /** The scope it escalates to when three owners in a row fail so. */
  escalatesTo?: WiderScope;
  retryable: boolean;
}

const MEANINGS: Record<OwnerTokenErrorCode, CodeMeaning> = {
  owner_refused: { scope: 'owner', escalatesTo: 'client', retryable: false },
  client_refused: { scope: 'client', retryable: false },
  rate_limited: { scope: 'endpoint', retryable: true },
  endpoint_unavailable: { scope: 'owner', escalatesTo: 'endpoint', retryable: true },
  invalid_response: { scope: 'owner', escalatesTo: 'endpoint', retryable: true },
  redirect_refused: { scope: 'endpoint', retryable: false },
  token_rejected: { scope: 'owner', retryable: true },
  source_failed: { scope: 'owner', retryable: true },
  queue_full: { retryable: true },
  queue_timeout: { retryable: true },
  origin_refused: { retryable: false },
  insecure_url: { retryable: false },
  invalid_options: { retryable: false },
  invalid_access_key: { retryable: false },
  closed: { retryable: false },
};

/**
 * The error of this library. Tell cases apart by `code`, decide by `failureScope`, `retryable` and `retryAtMs`. Throw
 * one from a source of your own to say what its failure stops.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export class OwnerTokenError extends Error {
  override readonly name = 'OwnerTokenError';
  readonly code: OwnerTokenErrorCode;
  /** Undefined where nothing was asked of the service (`queue_full`, `invalid_options`, …). */
  readonly failureScope: FailureScope | undefined;
  /** Whether the same call may succeed later with nothing changed on our side. */
  readonly retryable: boolean;
  /** Epoch ms: when the failure happened, which may be long before a call that is refused because of it. */
  readonly failedAtMs: number;
  /** Epoch ms: the next attempt is made no earlier. Undefined: nothing holds the next call back. */
  readonly retryAtMs: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly status: number | undefined;
  readonly oauthError: string | undefined;
  /** The owner's fingerprint or label, once the registry has seen the error. */
  readonly owner: string | undefined;
  override readonly cause?: ScrubbedCause;
  readonly #escalatesTo: WiderScope | undefined;

  constructor(code: OwnerTokenErrorCode, message: string, options: OwnerTokenErrorOptions = {}) {
    super(message);
    const meaning = MEANINGS[code] as CodeMeaning | undefined;
    if (!meaning) throw new TypeError(`unknown OwnerTokenError code; expected one of ${ERROR_CODES.join(', ')}`);
    this.code = code;
    this.failureScope = options.failureScope ?? meaning.scope;
    this.retryable = meaning.retryable;
    this.failedAtMs = options.failedAtMs ?? Date.now();
    this.retryAtMs = options.retryAtMs;
    this.retryAfterMs = options.retryAfterMs;
    this.status = options.status;
    this.oauthError = looksLikeOauthError(options.oauthError) ? options.oauthError : undefined;
    this.owner = options.owner;
    if (options.cause !== undefined) this.cause = ScrubbedCause.of(options.cause);
    // A refusal with an OAuth code says whose it is. An outage with one (`server_error`) is an outage all the same.
    const isNamed = code === 'owner_refused' && this.oauthError !== undefined;
    this.#escalatesTo = options.failureScope || isNamed ? undefined : meaning.escalatesTo;
  }

  /** The scope this failure escalates to when other owners fail in the same way; undefined for most. */
  static escalationOf(error: OwnerTokenError): WiderScope | undefined {
    return error.#escalatesTo;
  }

  /**
   * A copy of the same failure with other facts of place and time: each call refused because of it gets its own.
   * Unless its scope is stated anew, it may escalate as before.
   */
  static restated(error: OwnerTokenError, changes: Restatement): OwnerTokenError {
    const { message = error.message, ...facts } = changes;
    const { failedAtMs, retryAtMs, retryAfterMs, status, oauthError, owner, cause } = error;
    const stated = OwnerTokenError.escalationOf(error) ? undefined : error.failureScope;
    return new OwnerTokenError(error.code, message, {
      ...{ failedAtMs, retryAtMs, retryAfterMs, status, oauthError, owner, cause },
      ...(stated && { failureScope: stated }),
      ...facts,
    });
  }

  toJSON(): object {
    return { ...this, message: this.message };
  }
}

/** What may be said anew of a failure that is already known. */
export type Restatement = { readonly message?: string } & Pick<
  OwnerTokenErrorOptions,
  'failureScope' | 'failedAtMs' | 'retryAtMs' | 'owner'
>;

/**
 * Whether a string has the shape of an OAuth error code: a few lower-case words. Services echo what they were sent in
 * odd places, and keys and tokens do not look like this.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function looksLikeOauthError(value: unknown): value is string {
  return typeof value === 'string' && /^[a-z]{2,20}(_[a-z]{2,20}){0,4}$/.test(value);
}

const MAX_CAUSE_DEPTH = 4;
const MAX_FRAMES = 8;

/** What is left of an error that caused ours: enough to find the place, nothing it said. */
export class ScrubbedCause {
  readonly name: string;
  /** A system or library code such as `ECONNRESET`. */
  readonly code?: string;
  /** Where it was thrown: stack frames without the message. */
  readonly frames?: readonly string[];
  readonly cause?: ScrubbedCause;

  private constructor(thrown: unknown, depth: number) {
    const from = typeof thrown === 'object' && thrown !== null ? thrown : {};
    // Names, codes and frames are kept only in their usual shapes: anything else in their place could be a secret.
    const name = read(from, 'name');
    const code = read(from, 'code');
    const inner = read(from, 'cause');
    const frames = framesOf(from);
    this.name = typeof name === 'string' && /^([A-Z][A-Za-z]{0,40})?(Error|Exception)$/.test(name) ? name : 'Error';
    if (typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,40}$/.test(code)) this.code = code;
    if (frames.length > 0) this.frames = frames;
    if (typeof inner === 'object' && inner !== null && depth < MAX_CAUSE_DEPTH) {
      this.cause = ScrubbedCause.of(inner, depth + 1);
    }
  }

  /** Scrubs anything thrown, and its causes. What is scrubbed already stays as it is. */
  static of(thrown: unknown, depth = 1): ScrubbedCause {
    return thrown instanceof ScrubbedCause ? thrown : new ScrubbedCause(thrown, depth);
  }
}

/** A property, where reading it does not throw. */
function read(from: object, property: string): unknown {
  try {
    return (from as Record<string, unknown>)[property];
  } catch {
    return undefined;
  }
}

/** The frames of a stack: only what follows the message, which may have many lines and look like frames itself. */
function framesOf(from: object): readonly string[] {
  const stack = read(from, 'stack');
  const message = read(from, 'message');
  if (typeof stack !== 'string' || typeof message !== 'string') return [];
  const messageAt = stack.lastIndexOf(message);
  if (messageAt < 0) return [];
  return stack
    .slice(messageAt + message.length)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => /^at .{1,300}:\d+:\d+\)?$/.test(line))
    .slice(0, MAX_FRAMES);
}
