/**
 * Obtaining tokens for many owners before they are needed. Keys are pulled one by one, only as many at a time as the
 * registry may request tokens, and each is tried once. But where the endpoint pauses, or the queue is full, the
 * warm-up waits with them, for up to a minute without a success: a pause refuses everyone at once, so without waiting
 * one 429 would count all the other owners as failed within a millisecond. What waiting does not mend, refused
 * credentials say, is counted key by key as it comes.
 */

import { setMaxListeners } from 'node:events';
import type { Time } from '../clock.ts';
import { OwnerTokenError } from '../errors.ts';
import { OptionCheck } from '../option-check.ts';

/** How owners are warmed up. */
export interface WarmUpOptions {
  /** Ends the warm-up: it rejects with `signal.reason`, and no further key is asked for. */
  signal?: AbortSignal;
  /** Called after each key with the report so far. What it throws ends the warm-up. */
  onProgress?: (done: WarmUpReport) => void;
}

/** What became of the owners. */
export interface WarmUpReport {
  /** How many keys there are: undefined until the last one was pulled, where the iterable does not say before. */
  total: number | undefined;
  /** Owners for whom a token was obtained, or held already. */
  ready: number;
  failedCount: number;
  /** The first 100 that failed. An owner goes by fingerprint or label; what is no access key, by its place: `key 17`. */
  failed: { owner: string; code: string }[];
}

/** What a warm-up needs of its registry. */
export interface WarmUpParts {
  readonly tokens: { getToken(accessKey: string, options: { signal: AbortSignal }): Promise<unknown> };
  /** How many keys are tried at once. */
  readonly concurrency: number;
  readonly time: Time;
  /** Aborted when the registry closes, with what the warm-up then rejects with. */
  readonly closing: AbortSignal;
}

/** How many failures a report names. */
const MAX_NAMED_FAILURES = 100;

/** How long a warm-up waits for an endpoint that pauses, counted from its last success. */
const MAX_PATIENCE_MS = 60_000;

/** The least wait: while the probe after a pause is under way, everyone else is refused without a time. */
const MIN_WAIT_MS = 100;

/** Obtains a token for each key, and reports. */
export async function warmUp(
  parts: WarmUpParts,
  accessKeys: Iterable<string> | AsyncIterable<string>,
  options: WarmUpOptions = {},
): Promise<WarmUpReport> {
  checkArguments(accessKeys, options);
  const ending = new AbortController();
  const signals = [parts.closing, ending.signal];
  const signal = AbortSignal.any(options.signal ? [options.signal, ...signals] : signals);
  signal.throwIfAborted();
  setMaxListeners(0, signal); // One for each key under way, and that is no leak.
  const stop = (reason: unknown) => ending.abort(reason);
  const run = new Run(parts, signal, stop, totalOf(accessKeys), options.onProgress);
  try {
    // An iterable that is slow to give its next key does not hold up the end: it is closed as soon as it has.
    await new Promise<void>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      run.over(accessKeys).then(resolve, stop);
    });
  } finally {
    stop(undefined); // Nothing is under way any more; whatever listened is let go.
  }
  return run.report;
}

/** One warm-up under way. Whatever breaks it off goes through `stop`, which also detaches every call that waits. */
class Run {
  /** Replaced, never changed: what `onProgress` was given stays as it was. */
  report: WarmUpReport;
  readonly #parts: WarmUpParts;
  readonly #signal: AbortSignal;
  readonly #stop: (reason: unknown) => void;
  readonly #onProgress: ((done: WarmUpReport) => void) | undefined;
  #lastSuccessMs: number;

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
  async over(accessKeys: Iterable<string> | AsyncIterable<string>): Promise<void> {
    const underWay = new Set<Promise<void>>();
    let pulled = 0;
    for await (const accessKey of accessKeys) {
      this.#signal.throwIfAborted();
      const tried = this.#try(accessKey, ++pulled).catch(this.#stop);
      underWay.add(tried);
      void tried.then(() => underWay.delete(tried));
      if (underWay.size >= this.#parts.concurrency) await Promise.race(underWay);
    }
    this.report = { ...this.report, total: pulled };
    await Promise.all(underWay);
  }

  async #try(accessKey: string, place: number): Promise<void> {
    const error = await this.#obtain(accessKey);
    const { ready, failedCount, failed } = this.report;
    if (error === undefined) {
      this.report = { ...this.report, ready: ready + 1 };
    } else {
      const known = error instanceof OwnerTokenError ? error : undefined;
      const named = { owner: known?.owner ?? `key ${place}`, code: known?.code ?? 'source_failed' };
      const next = failed.length < MAX_NAMED_FAILURES ? [...failed, named] : failed;
      this.report = { ...this.report, failedCount: failedCount + 1, failed: next };
    }
    this.#onProgress?.(this.report);
  }

  /** Tries one key until it has a token, or fails for a reason that waiting does not mend. Gives that failure. */
  async #obtain(accessKey: string): Promise<unknown> {
    const { tokens, time } = this.#parts;
    for (;;) {
      try {
        await tokens.getToken(accessKey, { signal: this.#signal });
        this.#lastSuccessMs = time.now().monotonicMs;
        return undefined;
      } catch (error) {
        this.#signal.throwIfAborted();
        const now = time.now();
        const waitMs = waitAfter(error, now.wallMs);
        const waitedMs = now.monotonicMs - this.#lastSuccessMs;
        if (waitMs === undefined || waitedMs + waitMs > MAX_PATIENCE_MS) return error ?? new Error();
        await pause(time, waitMs, this.#signal);
      }
    }
  }
}

/** How long to wait after a failure before trying again; undefined where that would not help. */
function waitAfter(error: unknown, nowMs: number): number | undefined {
  if (!(error instanceof OwnerTokenError) || !error.retryable) return undefined;
  if (error.failureScope !== 'endpoint' && error.code !== 'queue_full') return undefined;
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

/** How many keys there are, where that can be told without pulling them. */
function totalOf(keys: Iterable<string> | AsyncIterable<string>): number | undefined {
  if (Array.isArray(keys)) return keys.length;
  return keys instanceof Set ? keys.size : undefined;
}

function checkArguments(keys: unknown, options: WarmUpOptions): void {
  const check = new OptionCheck<WarmUpOptions>('warmUp', options, ['signal', 'onProgress']);
  check.when('signal', (value) => value instanceof AbortSignal, 'an AbortSignal');
  check.functions('onProgress');
  const iterable =
    typeof keys === 'object' && keys !== null && (Symbol.iterator in keys || Symbol.asyncIterator in keys);
  // A string is iterable too, and each of its letters would be asked for.
  if (!iterable) check.problem('accessKeys', 'an iterable of access keys');
  check.done();
}
