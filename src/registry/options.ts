/** The registry's options and their defaults, and the check of all of them at once. */

import {
  type CallRules,
  checkOwnerFetchOptions,
  mergeCallRules,
  OWNER_FETCH_OPTIONS,
  type OwnerFetchOptions,
  rulesOfSource,
} from '../calling/owner-fetch.ts';
import { type Clock, Time } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import type { ExpiryPolicy } from '../expiry/lifetime.ts';
import { expiresIn, firstKnown, jwtExp } from '../expiry/policies.ts';
import type { PauseRange, PauseRanges } from '../failures/pauses.ts';
import { isLogger, isName, type Level, LOGGER_EXPECTED, type Logger, NAME_EXPECTED } from '../logger.ts';
import { aClock, aFunction, hasMethods, integer, OptionCheck, type OptionRule } from '../option-check.ts';
import { property } from '../own-property.ts';
import type { TokenSource } from '../token.ts';
import { Fingerprints } from './fingerprints.ts';

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
  /** Where tokens come from: usually a `TokenEndpoint`; a shared source in a fleet. Closed with the registry. */
  source: TokenSource;
  /** How long a token lives. Default: `firstKnown(expiresIn(), jwtExp())`, and 300 s if neither knows. */
  expiry?: ExpiryPolicy | undefined;
  /**
   * The most owners to cache, 1 to 10,000,000; beyond it the least recently used are evicted. The constructor allocates an
   * index for all of them. A second index is allocated when the first owner without a token is stored. `forgetAll()` drops
   * both, and each is allocated again when next needed. With millions, each allocation blocks the process noticeably.
   * Default: 10,000.
   */
  maxOwners?: number | undefined;
  /**
   * The most token requests in flight at once over all owners, 1 to 10,000. A request that takes far longer than usual frees
   * its permit for another, so that up to twice as many are in flight while some hang. Default: 100.
   */
  concurrency?: number | undefined;
  /**
   * A known quota of the service: token requests sent per second, evenly spaced; over 0, up to 1,000,000. It applies to
   * this registry; for the quota of a fleet, set that of `SharedTokens`. Default: none; a rate is learned from 429
   * responses.
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
  /** Names the registry in logs, channel messages and metrics. Default: `default`. */
  name?: string | undefined;
  /**
   * A logger with `debug`, `info`, `warn` and optionally `error`, such as pino, bunyan, winston or `console`; or a
   * level for a pino logger to standard output. Default: silent. Events: see `docs/observability.md`.
   */
  logger?: Logger | Level | undefined;
  /** A name for logs, errors and reports instead of the fingerprint. Must not reveal the access key. */
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
   * Defaults: owner 1 s to 5 min; client 1 s to 30 s; endpoint 0.5 s to 30 s. With an owner's `capMs` of 86,400,000, an
   * owner that is refused for good soon costs one request a day.
   */
  pauses?: Partial<PauseRanges> | undefined;
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
  /** Host of the token endpoint. */
  readonly host: string | undefined;
  readonly logger: Logger | Level | undefined;
  readonly fingerprints: Fingerprints;
  readonly calls: CallRules;
  readonly time: Time;
  readonly pauses: PauseRanges;
}

/** Options with options of their own, checked after the others. */
const NESTED: OptionRule = { passes: () => true, expected: 'an object' };

const PAUSES: PauseRanges = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 500, capMs: 30_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MAX_PER_SECOND = 1_000_000;

/** Every option, what it may be, and its default. */
export const REGISTRY_OPTIONS: Readonly<Record<keyof OwnerTokenRegistryOptions, OptionRule>> = {
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
  name: { passes: isName, expected: NAME_EXPECTED, fallback: 'default' },
  logger: { passes: isLogger, expected: LOGGER_EXPECTED },
  ownerLabel: aFunction,
  fingerprintKey: {
    passes: (value) => value instanceof Uint8Array && value.length >= 16,
    expected: 'a Uint8Array of at least 16 bytes',
  },
  calls: NESTED,
  clock: aClock,
  random: aFunction,
  pauses: NESTED,
};

/** The options with a default in the table. */
type Defaults = Required<
  Pick<
    RegistrySettings,
    'maxOwners' | 'concurrency' | 'maxQueued' | 'maxQueueMs' | 'requestTimeoutMs' | 'refreshWindow' | 'name'
  >
>;

/**
 * Checks all options and fills in what is absent.
 *
 * @throws OwnerTokenError `invalid_options`, listing every problem by path.
 */
export function registrySettings(given: OwnerTokenRegistryOptions): RegistrySettings {
  const known = Object.keys(REGISTRY_OPTIONS);
  const check = new OptionCheck<OwnerTokenRegistryOptions>('OwnerTokenRegistry', given, known);
  check.table(REGISTRY_OPTIONS);
  const calls = check.nested<OwnerFetchOptions>('calls', OWNER_FETCH_OPTIONS);
  if (calls) checkOwnerFetchOptions(calls);
  checkPauses(check);
  const options = check.done() as OwnerTokenRegistryOptions & Defaults;
  const { source, pauses, requestTimeoutMs } = options;
  const origin = property(source, 'origin');
  return {
    source,
    host: typeof origin === 'string' && URL.canParse(origin) ? new URL(origin).host : undefined,
    maxOwners: options.maxOwners,
    concurrency: options.concurrency,
    requestsPerSecond: options.requestsPerSecond,
    maxQueued: options.maxQueued,
    maxQueueMs: options.maxQueueMs,
    requestTimeoutMs,
    longestRequestMs: isMs(source.timeoutMs, requestTimeoutMs) ? source.timeoutMs : requestTimeoutMs,
    name: options.name,
    refreshWindow: options.refreshWindow,
    expiry: options.expiry ?? firstKnown(expiresIn(), jwtExp()),
    random: options.random ? safeRandom(options.random) : Math.random,
    pauses: {
      owner: pauses?.owner ?? PAUSES.owner,
      client: pauses?.client ?? PAUSES.client,
      endpoint: pauses?.endpoint ?? PAUSES.endpoint,
    },
    calls: mergeCallRules(options.calls, rulesOfSource(origin)),
    fingerprints: new Fingerprints(options.fingerprintKey, options.ownerLabel),
    time: new Time(options.clock),
    logger: options.logger,
  };
}

function checkPauses(check: OptionCheck<OwnerTokenRegistryOptions>): void {
  const pauses = check.nested<Partial<PauseRanges>>('pauses', ['owner', 'client', 'endpoint']);
  for (const scope of ['owner', 'client', 'endpoint'] as const) {
    const range = pauses?.nested<PauseRange>(scope, ['baseMs', 'capMs']);
    range?.required('baseMs', (value) => isMs(value, HOUR_MS), `whole milliseconds from 1 to ${HOUR_MS}`);
    range?.required('capMs', (value) => isMs(value, DAY_MS), `whole milliseconds from 1 to ${DAY_MS}`);
    const { baseMs, capMs } = range?.values ?? {};
    if (isMs(baseMs, HOUR_MS) && isMs(capMs, DAY_MS) && capMs < baseMs) range?.problem('capMs', 'at least baseMs');
  }
}

const isMs = (value: unknown, max: number): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max;

function isWindow(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2) return false;
  const [from, to] = value as unknown[];
  return typeof from === 'number' && typeof to === 'number' && from > 0 && from <= to && to <= 1;
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

const DEFAULT_CLOSE_TIMEOUT_MS = 5_000;

/** How long `close` waits. */
export function closeTimeoutMs(options: { timeoutMs?: number | undefined }): number {
  const check = new OptionCheck<{ timeoutMs?: number | undefined }>('close', options, ['timeoutMs']);
  check.integer('timeoutMs', 0, 3_600_000);
  return check.done().timeoutMs ?? DEFAULT_CLOSE_TIMEOUT_MS;
}

/** `getToken(accessKey, signal)` is easily written in JavaScript, and would ignore the signal. */
export function signalInPlaceOfOptions(): OwnerTokenError {
  const expected = 'getToken: invalid options: expected an object with `signal`, as in getToken(accessKey, { signal })';
  return new OwnerTokenError('invalid_options', expected);
}

/** Rejects a `signal` that is not an AbortSignal before any request starts. */
export function checkSignal(signal: unknown): void {
  if (signal === undefined || signal === null || hasMethods(signal, 'addEventListener', 'removeEventListener')) return;
  throw new OwnerTokenError('invalid_options', 'getToken: invalid options:\n  - signal: expected an AbortSignal');
}
