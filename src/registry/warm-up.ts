/**
 * Obtains tokens for many owners before they are needed. Pulls keys one by one and tries at most `concurrency` at a time.
 * Unlike other calls it waits: while a circuit is open, the queue is full or the service is overloaded, it tries again,
 * until a minute has passed without a success. Without waiting, an outage would count all other owners as failed within a
 * millisecond. An owner that the service refuses counts as failed at once, one with any other failure after three tries.
 */

import pLimit from 'p-limit';
import { nextTurn, stopTimer, type Time } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { MIN_WAIT_MS } from '../failures/refusals.ts';
import { aFunction, checkOptions, type OptionRules } from '../option-check.ts';
import type { Diagnostics } from '../reporting/diagnostics.ts';

/**
 * Options of `warmUp`.
 *
 * @example
 * ```ts
 * const options: WarmUpOptions = { onProgress: ({ ready, total }) => console.log(`${ready} of ${total}`) };
 * await registry.warmUp([accessKey], options); // → 1 of 1
 * ```
 */
export interface WarmUpOptions {
  /** Ends the warm-up: it rejects with `signal.reason`, and no further key is tried. */
  signal?: AbortSignal | null | undefined;
  /** Called after each key with the report so far. An exception from it ends the warm-up. */
  onProgress?: ((done: WarmUpReport) => void) | undefined;
}

/**
 * A key that failed in a warm-up.
 *
 * @example
 * ```ts
 * const { failed } = await registry.warmUp([accessKey, 'a wrong key']);
 * console.log(failed.map(({ code }: WarmUpFailure) => code)); // → [ 'owner_refused' ]
 * ```
 */
export interface WarmUpFailure {
  /** Fingerprint or label of the owner; the position of an invalid access key. */
  owner: string;
  /** Code of the failure. */
  code: string;
}

/**
 * The outcome of a warm-up.
 *
 * @example
 * ```ts
 * const report: WarmUpReport = await registry.warmUp(sandbox.accessKeys);
 * console.log(report.ready, 'of', report.total); // → 5 of 5
 * ```
 */
export interface WarmUpReport {
  /** Number of keys; undefined until the last one was pulled if the iterable has no size. */
  total: number | undefined;
  /** Owners with a token, obtained now or cached before; at most `maxOwners`, because the registry caches no more. */
  ready: number;
  /** Keys without a token after their last attempt. */
  failedCount: number;
  /** The first 100 that failed, each by fingerprint or label; an invalid access key by its position: `key 17`. */
  failed: WarmUpFailure[];
}

/** The parts of the registry that a warm-up uses. */
export interface WarmUpParts {
  getToken(accessKey: string, signal: AbortSignal): Promise<unknown>;
  /** How many keys are tried at once. */
  readonly concurrency: number;
  readonly maxOwners: number;
  readonly time: Time;
  readonly diagnostics: Pick<Diagnostics, 'emit'>;
  /** Aborted when the registry closes; the warm-up then rejects with its reason. */
  readonly closing: AbortSignal;
}

/** How many failures a report names. */
const MAX_NAMED_FAILURES = 100;

/** How long a warm-up waits for a pause to end, counted from its last success. */
const MAX_PATIENCE_MS = 60_000;

/** How often a key is tried when its failures may concern only its owner. */
const MAX_OWN_TRIES = 3;

/** Keys tried in one turn of the event loop. Bounded, because owners with a cached token never yield to it. */
const KEYS_PER_TURN = 32;

/** Obtains a token for each key, and reports. */
export async function warmUp(
  parts: WarmUpParts,
  accessKeys: Iterable<string> | AsyncIterable<string>,
  given: WarmUpOptions = {},
): Promise<WarmUpReport> {
  const { signal: own, onProgress } = checkArguments(accessKeys, given);
  const { concurrency, maxOwners, closing, diagnostics } = parts;
  // Whatever ends the warm-up early also detaches the calls that wait.
  const ending = new AbortController();
  const signal = AbortSignal.any(own ? [own, closing, ending.signal] : [closing, ending.signal]);
  signal.throwIfAborted();
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  // Replaced, never mutated, because `onProgress` may have kept it.
  let report: WarmUpReport = { total: totalOf(accessKeys), ready: 0, failedCount: 0, failed: [] };
  let obtained = 0;
  // Functions that end the current waits, so that none outlasts the warm-up.
  const waits = new Set<() => void>();
  const obtain = obtainer(parts, signal, waits);
  const tryKey = async (accessKey: string, position: number) => {
    const error = await obtain(accessKey);
    if (error) report = withFailure(report, error, position);
    else {
      if (++obtained > maxOwners) diagnostics.emit('warmup.exceeded', () => ({ maxOwners }));
      report = { ...report, ready: Math.min(obtained, maxOwners) };
    }
    onProgress?.(report);
  };
  const tryAll = async () => {
    const limit = pLimit(concurrency);
    const trying = new Set<Promise<void>>();
    let pulled = 0;
    // Leaving the loop early closes the iterable.
    for await (const accessKey of accessKeys) {
      signal.throwIfAborted();
      const position = ++pulled;
      const tried: Promise<void> = limit(() => tryKey(accessKey, position))
        .catch((thrown) => ending.abort(thrown))
        .finally(() => trying.delete(tried));
      trying.add(tried);
      if (pulled % KEYS_PER_TURN === 0) await nextTurn();
      // A no-op waits until the limit has a free place, so the next key is pulled only when it can be tried.
      await limit(() => {});
    }
    report = { ...report, total: pulled };
    await Promise.all(trying);
  };
  try {
    // An iterable that is slow to yield its next key does not delay the end; it is closed as soon as it yields.
    await Promise.race([tryAll(), ended]);
  } finally {
    ending.abort();
    for (const end of waits) end();
  }
  return report;
}

/** Returns a function that tries one key until it has a token or has failed permanently, and returns that failure. */
function obtainer({ getToken, time }: WarmUpParts, signal: AbortSignal, waits: Set<() => void>) {
  let lastSuccessMs = time.now().monotonicMs;
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const end = () => {
        stopTimer(timer);
        waits.delete(end);
        resolve();
      };
      const timer = time.startTimer(end, ms);
      waits.add(end);
    });
  return async (accessKey: string): Promise<OwnerTokenError | undefined> => {
    for (let tries = 1; ; tries++) {
      try {
        await getToken(accessKey, signal);
        lastSuccessMs = time.now().monotonicMs;
        return undefined;
      } catch (thrown) {
        signal.throwIfAborted();
        const error = thrown as OwnerTokenError;
        const now = time.now();
        const waitMs = waitAfter(error, tries, now.wallMs);
        const waitedMs = now.monotonicMs - lastSuccessMs;
        if (waitMs === undefined || waitedMs + waitMs > MAX_PATIENCE_MS) return error;
        await wait(waitMs);
      }
    }
  };
}

function withFailure(report: WarmUpReport, error: OwnerTokenError, position: number): WarmUpReport {
  const { owner = `key ${position}`, code = 'source_failed' } = error;
  const failed = [...report.failed, { owner, code }].slice(0, MAX_NAMED_FAILURES);
  return { ...report, failedCount: report.failedCount + 1, failed };
}

/** How long to wait after a failure before the next try; undefined if it counts at once. */
function waitAfter(error: OwnerTokenError, tries: number, nowMs: number): number | undefined {
  const { failureScope, code, retryable, retryAtMs = nowMs } = error;
  const isEverybodys = failureScope === 'client' || failureScope === 'endpoint';
  const isTooMuch = code === 'queue_full' || code === 'queue_timeout' || code === 'rate_limited';
  const mayPass = (retryable || code === 'client_refused') && tries < MAX_OWN_TRIES;
  if (!isEverybodys && !isTooMuch && !mayPass) return undefined;
  return Math.max(MIN_WAIT_MS, retryAtMs - nowMs);
}

/** The number of keys, if it is known without pulling them. */
function totalOf(keys: Iterable<string> | AsyncIterable<string>): number | undefined {
  if (Array.isArray(keys)) return keys.length;
  return keys instanceof Set ? keys.size : undefined;
}

const WARM_UP_OPTIONS: OptionRules<WarmUpOptions> = {
  signal: { passes: (value) => value === null || value instanceof AbortSignal, expected: 'an AbortSignal' },
  onProgress: aFunction,
};

function checkArguments(keys: unknown, options: WarmUpOptions): WarmUpOptions {
  return checkOptions('warmUp', options, WARM_UP_OPTIONS, (_, problems) => {
    // A string is iterable too, but each of its characters would be tried as a key.
    const isIterable =
      typeof keys === 'object' && keys !== null && (Symbol.iterator in keys || Symbol.asyncIterator in keys);
    if (!isIterable) problems.push('accessKeys: expected an iterable of access keys');
  });
}
