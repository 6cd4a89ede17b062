/**
 * What the registry knows about the service, and how each event changes it. `reduce` changes the state in place, because a
 * copy for each event costs too much, and returns what to do; the scheduler does it. Nothing here reads a clock, draws a
 * random number or does I/O.
 *
 * - **Blame** (`blame.ts`): whether a failure pauses its owner, or opens the circuit of the client or the endpoint.
 * - **Limiter** (`limiter.ts`): how many requests run at once, and how many are sent a second. A request that takes far longer
 *   than usual gives its place to another one; before any latency is known, only while a circuit is open.
 * - **Retries**: a request is retried once, after a first failure that may be transient. Each retry costs ten issued tokens.
 */

import { type FailureScope, OwnerTokenError } from '../errors/owner-token-error.ts';
import { type Blame, type BlameEvent, initialBlame, reduceBlame } from './blame.ts';
import {
  initialLimiter,
  LATENCIES_AVERAGED,
  type Limiter,
  limiterFailed,
  limiterIssued,
  limiterSent,
} from './limiter.ts';
import { type OwnerPause, ownerPause, type PauseRanges, TRANSIENT_BASE_MS } from './pauses.ts';
import { initialSlowService, noteLatency, type SlowService } from './slow-service.ts';

/** @typeParam O identifies an owner. */
export interface Health<O> {
  readonly blame: Blame<O>;
  readonly limiter: Limiter;
  /** A moving average of the latency of tokens whose request kept its place; undefined before the first. */
  promptMs: number | undefined;
  /** Whether tokens take much longer than they usually do. */
  readonly slow: SlowService;
  /** The retry budget, in issued tokens. */
  savedTokens: number;
}

/** A request that got an answer. */
interface Answered {
  readonly tookMs: number;
  /** How many requests ran, this one included, but no slow ones. */
  readonly running: number;
}

/** A failed request. */
export type FailedEvent<O> = Extract<BlameEvent<O>, { readonly kind: 'failed' }> &
  Answered & {
    /** Whether it was one already. */
    readonly isRetry: boolean;
    /** Whether its token is wanted, and no cached one will do. */
    readonly isNeeded: boolean;
    /** How much longer the owner has a usable token. */
    readonly leftMs: number;
    /** The number of the first of its owner's failed requests in a row. */
    readonly firstNumber: number;
  };

export type HealthEvent<O> =
  | { readonly kind: 'sent' }
  | (Extract<BlameEvent<O>, { readonly kind: 'succeeded' }> &
      Answered & {
        /** Whether it took so long that it gave its place to another one. */
        readonly isSlow: boolean;
        /** When the owner's request before this one got a 503, if it did. */
        readonly unavailableMs: number | undefined;
      })
  | FailedEvent<O>
  | Exclude<BlameEvent<O>, { readonly kind: 'succeeded' | 'failed' }>;

/** What to do after an event. */
export interface Step {
  /** Send a canary that is not in `asked`, and report it as `trialSent`, or else `noCanaryFree`. */
  readonly askCanary: boolean;
}

/** What to do after a failure. */
export type FailureStep = Step & (Retry | Attribution);

/** Its owner does not pause, and its callers keep waiting. */
interface Retry {
  readonly retryDelayMs: number;
}

/** What the failure was attributed to, and the pause of its owner. */
export interface Attribution {
  readonly retryDelayMs: undefined;
  readonly scope: FailureScope;
  readonly ownerPause: OwnerPause | undefined;
}

/** Shared, because there are many events. */
const NOTHING: Step = Object.freeze({ askCanary: false });
const ASK_CANARY: Step = Object.freeze({ askCanary: true });

/** A request that fails later than this is not retried; one that still runs after it may count as slow. */
const SLOW_MS = 1_000;
const SLOW_LATENCIES = 4;
const TOKENS_PER_RETRY = 10;
const MOST_SAVED_TOKENS = 100;

export function initialHealth<O>(ranges: PauseRanges, concurrency: number, quotaPerSecond?: number): Health<O> {
  return {
    blame: initialBlame(ranges),
    limiter: initialLimiter(concurrency, quotaPerSecond),
    promptMs: undefined,
    slow: initialSlowService(),
    savedTokens: 0,
  };
}

/** How long a request may take before it gives its place to another one. Before any latency is known, only a circuit limits it. */
export function slowAfterMs({ blame, promptMs }: Health<unknown>): number {
  if (promptMs === undefined) return blame.doubt?.circuit ? SLOW_MS : Number.POSITIVE_INFINITY;
  return Math.max(SLOW_MS, SLOW_LATENCIES * promptMs);
}

export function reduce<O>(health: Health<O>, event: FailedEvent<O>, nowMs: number): FailureStep;
export function reduce<O>(health: Health<O>, event: HealthEvent<O>, nowMs: number): Step;
export function reduce<O>(health: Health<O>, event: HealthEvent<O>, nowMs: number): Step {
  const { blame, limiter } = health;
  switch (event.kind) {
    case 'sent':
      limiterSent(limiter, nowMs);
      return NOTHING;
    case 'failed':
      return reduceFailure(health, event, nowMs);
    case 'succeeded':
      noteSuccess(health, event, nowMs);
      break;
    default: // Concerns the blame alone.
  }
  return reduceBlame(blame, event, nowMs) ? ASK_CANARY : NOTHING;
}

function noteSuccess<O>(health: Health<O>, event: Extract<HealthEvent<O>, { kind: 'succeeded' }>, nowMs: number): void {
  const { tookMs, isSlow } = event;
  limiterIssued(health.limiter, event, event.unavailableMs, nowMs);
  noteLatency(health.slow, tookMs, nowMs);
  const { promptMs = tookMs } = health;
  if (!isSlow) health.promptMs = promptMs + (tookMs - promptMs) / LATENCIES_AVERAGED;
  health.savedTokens = Math.min(MOST_SAVED_TOKENS, health.savedTokens + 1);
}

function reduceFailure<O>(health: Health<O>, event: FailedEvent<O>, nowMs: number): FailureStep {
  const { blame } = health;
  const askCanary = reduceBlame(blame, event, nowMs);
  limiterFailed(health.limiter, event, busyStatus(event), nowMs);
  const retryDelayMs = event.isTrial ? undefined : retryDelayOf(health, event);
  if (retryDelayMs !== undefined) {
    health.savedTokens -= TOKENS_PER_RETRY;
    return { askCanary, retryDelayMs };
  }
  const scope = attributedScope(blame, event);
  return { askCanary, retryDelayMs, scope, ownerPause: pauseOf(blame, event, scope, nowMs) };
}

/** An owner that has failed this often in a row may have a dead key, so that a 429 is its own. */
const OWN_AFTER = 2;

/** The status of a response that may mean overload. */
function busyStatus({ error, ownerFailures }: FailedEvent<unknown>): 429 | 503 | undefined {
  const { status, code } = error;
  if (ownerFailures >= OWN_AFTER) return undefined;
  if (code === 'rate_limited') return 429;
  return status === 503 ? 503 : undefined;
}

/** After how many milliseconds a failed request is retried; undefined if it is not. */
function retryDelayOf<O>({ savedTokens }: Health<O>, event: FailedEvent<O>): number | undefined {
  const { error, ownerFailures, isRetry, isNeeded, tookMs, jitter } = event;
  const isFirst = ownerFailures === 0 && !isRetry;
  const isTransient = error.retryable && error.retryAfterMs === undefined && tookMs <= SLOW_MS;
  const mayRetry = isNeeded && isFirst && isTransient;
  return mayRetry && savedTokens >= TOKENS_PER_RETRY ? TRANSIENT_BASE_MS * (0.5 + jitter) : undefined;
}

/** A failure that may have the same cause as an open circuit gets the circuit's scope. */
function attributedScope<O>({ doubt }: Blame<O>, { error }: FailedEvent<O>): FailureScope {
  const { scope, isGiven } = OwnerTokenError.escalationOf(error);
  return isGiven || scope === 'owner' ? scope : (doubt?.circuit?.scope ?? 'owner');
}

/**
 * A failure with the circuit's scope does not pause its owner, except that of a caller's trial, so that the next trial is another
 * owner's.
 */
function pauseOf<O>(
  { ranges, newestSuccess, readmittedAtMs }: Blame<O>,
  { error, ownerFailures, isTrial, isNeeded, leftMs, firstNumber, jitter }: FailedEvent<O>,
  scope: FailureScope,
  nowMs: number,
): OwnerPause | undefined {
  const concernsOwner = OwnerTokenError.escalationOf(error).scope === 'owner';
  const isShared = scope !== 'owner' || (isTrial && !concernsOwner);
  if (isShared && !(isTrial && isNeeded)) return undefined;
  // Where only some nodes refuse the client, an owner that they have refused gets a token every now and then.
  const isAlone = newestSuccess > firstNumber && nowMs - readmittedAtMs > ranges.owner.capMs;
  return { ...ownerPause({ error, count: ownerFailures + 1, leftMs, isAlone }, ranges, nowMs, jitter), firstNumber };
}
