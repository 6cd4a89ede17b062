/**
 * Obtains tokens for many owners before they are needed. Pulls keys one by one and tries at most `concurrency` at a time.
 * Unlike other calls it waits: while a circuit is open, the queue is full or the service is overloaded, it tries again,
 * until a minute has passed without a success. Without waiting, an outage would count all other owners as failed within a
 * millisecond. An owner that the service refuses counts as failed at once, one with any other failure after three tries.
 */

import { setMaxListeners } from 'node:events';
import { nextTurn, type Time } from '../clock.ts';
import type { Diagnostics } from '../diagnostics.ts';
import { isOwnerTokenError } from '../errors.ts';
import { OptionCheck } from '../option-check.ts';

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
  readonly tokens: { getToken(accessKey: string, options: { signal: AbortSignal }): Promise<unknown> };
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

/** How often a key is tried when its failures may be its owner's own. */
const MAX_OWN_TRIES = 3;

/** The shortest wait, because it is unknown when a trial request ends. */
const MIN_WAIT_MS = 100;

/** Keys tried in one turn of the event loop. Bounded, because owners with a cached token never yield to it. */
const KEYS_PER_TURN = 32;

/** Obtains a token for each key, and reports. */
export async function warmUp(
  parts: WarmUpParts,
  accessKeys: Iterable<string> | AsyncIterable<string>,
  given: WarmUpOptions = {},
): Promise<WarmUpReport> {
  const options = checkArguments(accessKeys, given);
  const ending = new AbortController();
  const signals = [parts.closing, ending.signal];
  const signal = AbortSignal.any(options.signal ? [options.signal, ...signals] : signals);
  signal.throwIfAborted();
  setMaxListeners(0, signal); // One for each key that waits for a pause to end.
  const stop = (reason: unknown) => ending.abort(reason);
  const run = new Run(parts, signal, stop, totalOf(accessKeys), options.onProgress ?? undefined);
  try {
    // An iterable that is slow to yield its next key does not delay the end; it is closed as soon as it yields.
    await new Promise<void>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      run.tryAll(accessKeys).then(resolve, stop);
    });
  } finally {
    stop(undefined); // Removes all remaining listeners.
  }
  return run.report;
}

/** A running warm-up. Everything that ends it early calls `stop`, which also detaches all waiting calls. */
class Run {
  /** Replaced, never mutated, because `onProgress` may have kept it. */
  report: WarmUpReport;
  readonly #parts: WarmUpParts;
  readonly #signal: AbortSignal;
  readonly #stop: (reason: unknown) => void;
  readonly #onProgress: ((done: WarmUpReport) => void) | undefined;
  #lastSuccessMs: number;
  #obtained = 0;

  constructor(
    parts: WarmUpParts,
    signal: AbortSignal,
    stop: (reason: unknown) => void,
    total: number | undefined,
    onProgress: ((done: WarmUpReport) => void) | undefined,
  ) {
    this.#parts = parts;
    this.#signal = signal;
    this.#stop = stop;
    this.#onProgress = onProgress;
    this.#lastSuccessMs = parts.time.now().monotonicMs;
    this.report = { total, ready: 0, failedCount: 0, failed: [] };
  }

  /** Pulls keys and tries them. Leaving the loop early closes the iterable. */
  async tryAll(accessKeys: Iterable<string> | AsyncIterable<string>): Promise<void> {
    // Loaded when first needed, because few processes warm up.
    const { default: pLimit } = await import('p-limit');
    const limit = pLimit(this.#parts.concurrency);
    const trying = new Set<Promise<void>>();
    let pulled = 0;
    for await (const accessKey of accessKeys) {
      this.#signal.throwIfAborted();
      const position = ++pulled;
      const tried: Promise<void> = limit(() => this.#try(accessKey, position))
        .catch(this.#stop)
        .finally(() => trying.delete(tried));
      trying.add(tried);
      if (pulled % KEYS_PER_TURN === 0) await nextTurn();
      // A no-op takes the next free slot, so a key is pulled only when one is free.
      await limit(() => {});
    }
    this.report = { ...this.report, total: pulled };
    await Promise.all(trying);
  }

  async #try(accessKey: string, position: number): Promise<void> {
    const error = await this.#obtain(accessKey);
    const { failedCount, failed } = this.report;
    if (error === undefined) {
      const { maxOwners, diagnostics } = this.#parts;
      if (++this.#obtained > maxOwners) diagnostics.emit('warmup.exceeded', () => ({ maxOwners }));
      this.report = { ...this.report, ready: Math.min(this.#obtained, maxOwners) };
    } else {
      const known = isOwnerTokenError(error) ? error : undefined;
      const named = { owner: known?.owner ?? `key ${position}`, code: known?.code ?? 'source_failed' };
      const next = failed.length < MAX_NAMED_FAILURES ? [...failed, named] : failed;
      this.report = { ...this.report, failedCount: failedCount + 1, failed: next };
    }
    this.#onProgress?.(this.report);
  }

  /** Tries one key until it has a token, or fails in a way that is not waited for. Returns that failure. */
  async #obtain(accessKey: string): Promise<unknown> {
    const { tokens, time } = this.#parts;
    for (let tries = 1; ; tries++) {
      try {
        await tokens.getToken(accessKey, { signal: this.#signal });
        this.#lastSuccessMs = time.now().monotonicMs;
        return undefined;
      } catch (error) {
        this.#signal.throwIfAborted();
        const now = time.now();
        const waitMs = waitAfter(error, tries, now.wallMs);
        const waitedMs = now.monotonicMs - this.#lastSuccessMs;
        if (waitMs === undefined || waitedMs + waitMs > MAX_PATIENCE_MS) return error ?? new Error();
        await pause(time, waitMs, this.#signal);
      }
    }
  }
}

/** How long to wait after a failure before the next try; undefined if it counts at once. */
function waitAfter(error: unknown, tries: number, nowMs: number): number | undefined {
  if (!isOwnerTokenError(error)) return undefined;
  const { failureScope, code, retryable } = error;
  const isEverybodys = failureScope === 'client' || failureScope === 'endpoint';
  const isTooMuch = code === 'queue_full' || code === 'queue_timeout' || code === 'rate_limited';
  const mayPass = (retryable || code === 'client_refused') && code !== 'token_rejected' && tries < MAX_OWN_TRIES;
  if (!isEverybodys && !isTooMuch && !mayPass) return undefined;
  return Math.max(MIN_WAIT_MS, (error.retryAtMs ?? nowMs) - nowMs);
}

function pause(time: Time, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = time.startTimer(() => {
      signal.removeEventListener('abort', aborted);
      resolve();
    }, ms);
    signal.addEventListener('abort', aborted, { once: true });
  });
}

/** The number of keys, if it is known without pulling them. */
function totalOf(keys: Iterable<string> | AsyncIterable<string>): number | undefined {
  if (Array.isArray(keys)) return keys.length;
  return keys instanceof Set ? keys.size : undefined;
}

function checkArguments(keys: unknown, options: WarmUpOptions): WarmUpOptions {
  const check = new OptionCheck<WarmUpOptions>('warmUp', options, ['signal', 'onProgress']);
  check.when('signal', (value) => value === null || value instanceof AbortSignal, 'an AbortSignal');
  check.functions('onProgress');
  const iterable =
    typeof keys === 'object' && keys !== null && (Symbol.iterator in keys || Symbol.asyncIterator in keys);
  // A string is iterable too, but each of its characters would be tried as a key.
  if (!iterable) check.problem('accessKeys', 'an iterable of access keys');
  return check.done();
}
