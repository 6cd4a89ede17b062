/** The registry's options and their defaults, and the check of all of them at once. */

import {
  type CallRules,
  mergeCallRules,
  OWNER_FETCH_OPTIONS,
  type OwnerFetchOptions,
  rulesOfSource,
} from '../calling/owner-fetch.ts';
import { type Clock, Time } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { type ExpiryPolicy, MAX_LIFETIME_MS } from '../expiry/lifetime.ts';
import { expiresIn, firstKnown, jwtExp } from '../expiry/policies.ts';
import type { PauseRange, PauseRanges } from '../failures/pauses.ts';
import {
  aClock,
  aFunction,
  checkOptions,
  hasMethods,
  integer,
  invalidOptions,
  type NestedRule,
  type OptionRules,
} from '../option-check.ts';
import { property } from '../own-property.ts';
import { parseUrl } from '../parse-url.ts';
import { aLogger, aName, type Level, type Logger } from '../reporting/logger.ts';
import type { SourceNews, TokenSource } from '../token-source.ts';
import { Fingerprints } from './owners/fingerprints.ts';

/**
 * Options of an {@link OwnerTokenRegistry}.
 *
 * @example
 * ```ts
 * const options: OwnerTokenRegistryOptions = {
 *   source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
 *   name: 'crm',
 *   maxOwners: 50_000,
 *   logger: 'warn',
 * };
 * ```
 */
export interface OwnerTokenRegistryOptions {
  /**
   * Where tokens come from: usually a `TokenEndpoint`; a shared source in a fleet. The registry's `close()` closes it.
   */
  source: TokenSource;
  /** How long a token lives. Default: `firstKnown(expiresIn(), jwtExp())`, and 300 s if neither knows. */
  expiry?: ExpiryPolicy | undefined;
  /**
   * The most owners with a token to cache, 1 to 10,000,000, and as many without one; beyond it the least recently used are evicted.
   * The constructor allocates an index for all owners with a token. `forgetAll()` drops it, and the next token allocates it again.
   * With millions, each allocation blocks the process noticeably. Default: 10,000.
   */
  maxOwners?: number | undefined;
  /**
   * The most token requests in flight at once over all owners, 1 to 10,000. A request that takes far longer than usual, or
   * waits for another replica, gives its place to another: up to twice as many are then in flight. Default: 100.
   */
  concurrency?: number | undefined;
  /**
   * A known quota of the service: token requests sent per second, evenly spaced; over 0, up to 1,000,000. The trials of an
   * open circuit do not wait for it. It applies to this registry; for the quota of a fleet, set that of `SharedTokens`.
   * Default: none; a rate limit is learned from 429s and 503s.
   */
  requestsPerSecond?: number | undefined;
  /** The most queued requests, 1 to 10,000,000; beyond it `getToken` rejects with `queue_full`. Default: 10,000. */
  maxQueued?: number | undefined;
  /**
   * Milliseconds that a call is queued at most, retries included, 1 to 3,600,000; then `queue_timeout`. Use a
   * `signal` to wait less. Default: 30,000.
   */
  maxQueueMs?: number | undefined;
  /**
   * Milliseconds a source may take for one request, 1 to 3,600,000; then the request fails with `endpoint_unavailable`,
   * and its signal is aborted. Applies to every source; raise it for a slow one. Default: 30,000.
   */
  requestTimeoutMs?: number | undefined;
  /**
   * Shares of a token's lifetime, over 0 and up to 1. Its refresh point is drawn between them, once per token.
   * Default: `[0.6, 0.8]`.
   */
  refreshWindow?: [number, number] | undefined;
  /**
   * Fields of the token response that each token carries as `token.response`, such as `['instance_url']`: up to 16 different names,
   * or paths such as `data.account_id`, of strings, numbers and booleans. Values of another type, and strings of more than 2,048
   * bytes in UTF-8, are left out. Never logged or printed. Default: `[]`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1: additional parameters of a response}
   */
  responseFields?: string[] | undefined;
  /** Names the registry in logs, channel messages and metrics. Default: `default`. */
  name?: string | undefined;
  /**
   * A logger with `debug`, `info`, `warn` and optionally `error`, such as pino, bunyan, winston or `console`; or a
   * level for a pino logger to standard output. Default: silent. Events: see `docs/observability.md`.
   */
  logger?: Logger | Level | undefined;
  /**
   * A name for logs, errors and reports instead of the fingerprint. Must not reveal the access key: a label that contains it is
   * ignored, with a warning.
   */
  ownerLabel?: ((accessKey: string) => string) | undefined;
  /** Key of the fingerprints, 16 bytes or more. Replicas with the same key log the same names. Default: random. */
  fingerprintKey?: Uint8Array | undefined;
  /** Defaults for `ownerFetch`. */
  calls?: OwnerFetchOptions | undefined;
  /** The clocks. Default: the system's. */
  clock?: Clock | undefined;
  /** Returns numbers from 0 up to 1; all jitter is drawn from it. Default: `Math.random`. */
  random?: (() => number) | undefined;
  /**
   * How long requests pause after a failure: doubling from `baseMs` (1 to 3,600,000) up to `capMs` (up to 86,400,000).
   * Default: owner 1 s to 5 min; client 0.5 s to 30 s; endpoint 0.5 s to 30 s. With an owner's `capMs` of 86,400,000, an
   * owner that is refused for good soon costs one request a day.
   */
  pauses?: { readonly [Scope in keyof PauseRanges]?: Partial<PauseRange> | undefined } | undefined;
}

type Filled<T> = { readonly [K in keyof T]-?: NonNullable<T[K]> };

/** The checked options with all defaults, and the objects that are derived from them. */
export interface RegistrySettings
  extends Filled<
    Omit<
      OwnerTokenRegistryOptions,
      'requestsPerSecond' | 'logger' | 'ownerLabel' | 'fingerprintKey' | 'calls' | 'clock' | 'pauses'
    >
  > {
  readonly requestsPerSecond: number | undefined;
  /** The longest that a request can take: `requestTimeoutMs`, or less if the source says so. */
  readonly longestRequestMs: number;
  /** Address and port of the token endpoint, for logs. */
  readonly server: { readonly address?: string; readonly port?: number | undefined };
  readonly logger: Logger | Level | undefined;
  readonly sourceDefaults: NonNullable<SourceNews['defaults']>;
  readonly fingerprints: Fingerprints;
  readonly calls: CallRules;
  readonly time: Time;
  readonly pauses: PauseRanges;
}

const HOUR_MS = 3_600_000;

const pauseRule = (baseMs: number, capMs: number): NestedRule => ({
  options: { baseMs: integer(1, HOUR_MS, baseMs), capMs: integer(1, 24 * HOUR_MS, capMs) },
});

const MAX_PER_SECOND = 1_000_000;

/** Every option, what it may be, and its default. */
export const REGISTRY_OPTIONS: OptionRules<OwnerTokenRegistryOptions> = {
  source: {
    passes: (value) => hasMethods(value, 'requestToken'),
    expected: 'a TokenSource, such as a TokenEndpoint',
    isRequired: true,
  },
  expiry: {
    passes: (value) => hasMethods(value, 'lifetimeMs'),
    expected: 'an ExpiryPolicy, such as fixedLifetime(60_000)',
  },
  maxOwners: integer(1, 10_000_000, 10_000),
  concurrency: integer(1, 10_000, 100),
  requestsPerSecond: {
    passes: (value) => typeof value === 'number' && value > 0 && value <= MAX_PER_SECOND,
    expected: `a number over 0, up to ${MAX_PER_SECOND}`,
  },
  maxQueued: integer(1, 10_000_000, 10_000),
  maxQueueMs: integer(1, HOUR_MS, 30_000),
  requestTimeoutMs: integer(1, HOUR_MS, 30_000),
  refreshWindow: {
    passes: isWindow,
    expected: 'two shares of the lifetime [from, to] with 0 < from <= to <= 1',
    fallback: [0.6, 0.8],
  },
  responseFields: { passes: areFields, expected: 'a list of up to 16 different names', fallback: [] },
  name: { ...aName, fallback: 'default' },
  logger: aLogger,
  ownerLabel: aFunction,
  fingerprintKey: {
    passes: (value) => value instanceof Uint8Array && value.length >= 16,
    expected: 'a Uint8Array of at least 16 bytes',
  },
  calls: { options: OWNER_FETCH_OPTIONS },
  clock: aClock,
  random: aFunction,
  pauses: {
    options: {
      owner: pauseRule(1_000, 300_000),
      client: pauseRule(500, 30_000),
      endpoint: pauseRule(500, 30_000),
    },
  },
};

/** Options that {@link registrySettings} replaces with derived values. */
type Replaced = 'expiry' | 'random' | 'calls';

/**
 * Checks all options and fills in the defaults.
 *
 * @throws OwnerTokenError `invalid_options`, listing every problem by path.
 */
export function registrySettings(given: OwnerTokenRegistryOptions): RegistrySettings {
  const options = checkOptions('OwnerTokenRegistry', given, REGISTRY_OPTIONS, ({ pauses }, problems) => {
    if (problems.length > 0) return;
    for (const [scope, { baseMs, capMs }] of Object.entries(pauses as PauseRanges)) {
      if (capMs < baseMs) problems.push(`pauses.${scope}.capMs: expected at least baseMs, which is ${baseMs}`);
    }
  }) as OwnerTokenRegistryOptions & Omit<RegistrySettings, Replaced> & { calls: OwnerFetchOptions };
  const { source, requestTimeoutMs } = options;
  const { timeoutMs = requestTimeoutMs } = source;
  const origin = property(source, 'origin');
  const random = options.random ? safeRandom(options.random) : Math.random;
  const { name, logger, clock } = options;
  return {
    ...options,
    server: serverOf(origin),
    // Named, because an absent one would be read from a polluted `Object.prototype`.
    requestsPerSecond: options.requestsPerSecond,
    logger,
    longestRequestMs: integer(1, requestTimeoutMs).passes(timeoutMs) ? timeoutMs : requestTimeoutMs,
    expiry: options.expiry ?? firstKnown(expiresIn(), jwtExp()),
    random,
    sourceDefaults: { name, logger, clock, random },
    calls: mergeCallRules(options.calls, rulesOfSource(origin)),
    fingerprints: new Fingerprints(options.fingerprintKey, options.ownerLabel),
    time: new Time(clock),
  };
}

/** Address and port of an origin; an IPv6 address without its brackets. */
function serverOf(origin: unknown): RegistrySettings['server'] {
  const url = parseUrl(origin);
  if (!url) return {};
  const { hostname, port } = url;
  return { address: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? undefined : Number(port) };
}

function isWindow(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2) return false;
  const [from, to] = value as unknown[];
  return typeof from === 'number' && typeof to === 'number' && from > 0 && from <= to && to <= 1;
}

function areFields(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > 16 || new Set(value).size < value.length) return false;
  return value.every((name) => typeof name === 'string' && name !== '');
}

/** Returns 0.5 if `random` throws or returns anything but a number from 0 up to 1: jitter must not fail a request. */
function safeRandom(random: () => number): () => number {
  return () => {
    try {
      const drawn = random();
      return drawn >= 0 && drawn < 1 ? drawn : 0.5;
    } catch {
      return 0.5;
    }
  };
}

const CLOSE_OPTIONS = { timeoutMs: integer(0, HOUR_MS, 5_000) };

/** How long `close` waits. */
export function closeTimeoutMs(options: { timeoutMs?: number | undefined }): number {
  return checkOptions('close', options, CLOSE_OPTIONS).timeoutMs as number;
}

const TOKEN_OPTIONS = {
  minValidityMs: {
    passes: (value: unknown) => typeof value === 'number' && value >= 0 && value <= MAX_LIFETIME_MS,
    expected: `a number from 0 to ${MAX_LIFETIME_MS}`,
  },
};

/** The checked `minValidityMs` of `getToken`. */
export function minValidityMsOf(minValidityMs: unknown): number {
  return checkOptions('getToken', { minValidityMs }, TOKEN_OPTIONS).minValidityMs as number;
}

/** For a `signal` that is not an `AbortSignal`, and for `getToken(accessKey, signal)`, which would ignore the signal. */
export function invalidSignal(): OwnerTokenError {
  return invalidOptions('getToken', ['signal: expected an AbortSignal, as in getToken(accessKey, { signal })']);
}

/** Rejects a `signal` that is not an AbortSignal before any request starts. */
export function checkSignal(signal: object): void {
  if (!hasMethods(signal, 'addEventListener', 'removeEventListener')) throw invalidSignal();
}
