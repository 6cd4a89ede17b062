/**
 * What the registry knows about the service, and how each event changes it. `reduce` changes the state in place, because a
 * copy for each event costs too much, and returns what to do; the scheduler does it. Nothing here reads a clock, draws a
 * random number or does I/O.
 *
 * - **Blame** (`blame.ts`): whether a failure pauses its owner, or opens the circuit of the client or the endpoint.
 * - **Pace** (`pace.ts`): the rate at which requests are sent.
 * - **Room** (`room.ts`): how many requests may run at once. A request that takes far longer than usual gives its place to
 *   another one; before any latency is known, none does.
 * - **Retries**: a request is retried after a first failure that may be transient: once, or a few times for a 429 or 503
 *   while a learned rate limits requests. Each retry costs ten issued tokens. Nothing is retried while the circuit is open.
 */

import { type FailureScope, OwnerTokenError } from '../errors/owner-token-error.ts';
import { type BlameEvent, reduceBlame } from './blame.ts';
import { type Blame, circuitOf, initialBlame } from './blame-state.ts';
import {
  hasLearnedRate,
  initialPace,
  type Pace,
  paceFailed,
  paceForgotten,
  paceIssued,
  paceRestarted,
  paceSent,
} from './pace.ts';
import { ownerPause, type Pause, type PauseRanges, TRANSIENT_BASE_MS } from './pauses.ts';
import { type Answered, initialRoom, type Room, roomAnswered } from './room.ts';

/** @typeParam O identifies an owner. */
export interface Health<O> {
  readonly blame: Blame<O>;
  readonly pace: Pace;
  readonly room: Room;
  /** Moving average of the latency of issued tokens; undefined before the first. */
  latencyMs: number | undefined;
  /** The retry budget, in issued tokens. */
  savedTokens: number;
}

/** A failed request. */
export type FailedEvent<O> = Extract<BlameEvent<O>, { readonly kind: 'failed' }> &
  Answered & {
    readonly retries: number;
    /** Whether its token is wanted, and no cached one will do. */
    readonly isNeeded: boolean;
    /** How much longer the owner has a usable token. */
    readonly leftMs: number;
  };

export type HealthEvent<O> =
  | { readonly kind: 'sent'; readonly number: number }
  | (Extract<BlameEvent<O>, { readonly kind: 'succeeded' }> & Answered)
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
  readonly ownerPause: Pause | undefined;
}

/** Shared, because there are many events. */
const NOTHING: Step = Object.freeze({ askCanary: false });
const ASK_CANARY: Step = Object.freeze({ askCanary: true });

/** A request that fails later than this is not retried; one that still runs after it may count as slow. */
const SLOW_MS = 1_000;
const SLOW_LATENCIES = 4;
const LATENCIES_AVERAGED = 20;
const TOKENS_PER_RETRY = 10;
const MOST_SAVED_TOKENS = 100;
const MAX_PACED_RETRIES = 5;

export function initialHealth<O>(ranges: PauseRanges, concurrency: number, quotaPerSecond?: number): Health<O> {
  return {
    blame: initialBlame(ranges),
    pace: initialPace(quotaPerSecond),
    room: initialRoom(concurrency),
    latencyMs: undefined,
    savedTokens: 0,
  };
}

/** How long a request may take before it gives its place to another one. */
export function slowAfterMs({ latencyMs }: Health<unknown>): number {
  return latencyMs === undefined ? Number.POSITIVE_INFINITY : Math.max(SLOW_MS, SLOW_LATENCIES * latencyMs);
}

export function reduce<O>(health: Health<O>, event: FailedEvent<O>, nowMs: number): FailureStep;
export function reduce<O>(health: Health<O>, event: HealthEvent<O>, nowMs: number): Step;
export function reduce<O>(health: Health<O>, event: HealthEvent<O>, nowMs: number): Step {
  const { blame, pace, room } = health;
  switch (event.kind) {
    case 'sent':
      paceSent(pace, nowMs);
      // A request that is made once more keeps its number.
      room.lastSent = Math.max(room.lastSent, event.number);
      room.firstSentMs ??= nowMs;
      return NOTHING;
    case 'failed':
      return reduceFailure(health, event, nowMs);
    case 'succeeded':
      noteSuccess(health, event, nowMs);
      break;
    case 'resumed':
      paceRestarted(pace);
      break;
    case 'forgotten':
      paceForgotten(pace, event.owner);
      break;
    default: // Concerns the blame alone.
  }
  return reduceBlame(blame, event, nowMs) ? ASK_CANARY : NOTHING;
}

function noteSuccess<O>(health: Health<O>, event: Extract<HealthEvent<O>, { kind: 'succeeded' }>, nowMs: number): void {
  const { blame, pace } = health;
  // A success during a check shows that the failures before it were the owners' own.
  if (blame.state.phase === 'checking') pace.busyShare = 0;
  paceIssued(pace, event.owner, nowMs - event.tookMs, nowMs);
  const { latencyMs = event.tookMs } = health;
  health.latencyMs = latencyMs + (event.tookMs - latencyMs) / LATENCIES_AVERAGED;
  health.savedTokens = Math.min(MOST_SAVED_TOKENS, health.savedTokens + 1);
  roomAnswered(health.room, event, true, nowMs);
}

function reduceFailure<O>(health: Health<O>, event: FailedEvent<O>, nowMs: number): FailureStep {
  const { blame } = health;
  const askCanary = reduceBlame(blame, event, nowMs);
  roomAnswered(health.room, event, false, nowMs);
  paceFailed(health.pace, event.owner, busyStatus(event.error), nowMs - event.tookMs, nowMs);
  const retryDelayMs = event.isTrial ? undefined : retryDelayOf(health, event);
  if (retryDelayMs !== undefined) {
    health.savedTokens -= TOKENS_PER_RETRY;
    return { askCanary, retryDelayMs };
  }
  const scope = attributedScope(blame, event);
  return { askCanary, retryDelayMs, scope, ownerPause: pauseOf(blame, event, scope, nowMs) };
}

/** The status of a response that may mean overload. A 503 with `Retry-After` announces downtime instead. */
function busyStatus({ status, code, retryAfterMs }: OwnerTokenError): 429 | 503 | undefined {
  if (code === 'rate_limited') return 429;
  return status === 503 && retryAfterMs === undefined ? 503 : undefined;
}

/** After how many milliseconds a failed request is retried; undefined if it is not. */
function retryDelayOf<O>({ blame, pace, savedTokens }: Health<O>, event: FailedEvent<O>): number | undefined {
  const { error, ownerFailures, retries, isNeeded, tookMs, jitter } = event;
  if (!isNeeded || ownerFailures > 0 || error.retryAfterMs !== undefined || blame.state.phase === 'open')
    return undefined;
  const most = busyStatus(error) && hasLearnedRate(pace) ? MAX_PACED_RETRIES : 1;
  const isTransient = error.retryable && tookMs <= SLOW_MS;
  if (!isTransient || retries >= most || savedTokens < TOKENS_PER_RETRY) return undefined;
  return TRANSIENT_BASE_MS * (0.5 + jitter);
}

/** A failure gets the circuit's scope if it opened the circuit, or happened while it was open and may have the same cause. */
function attributedScope<O>(blame: Blame<O>, event: FailedEvent<O>): FailureScope {
  const circuit = circuitOf(blame);
  const { scope, isGiven } = OwnerTokenError.escalationOf(event.error);
  if (isGiven) return scope;
  if (scope === 'owner' || !circuit) return 'owner';
  const isEvidence = event.isTrial || (event.ownerFailures === 0 && event.number > blame.newestSuccess);
  return isEvidence ? circuit.scope : 'owner';
}

/** A failure with the circuit's scope does not pause its owner, except before the first success. */
function pauseOf<O>(
  { canaries, ranges }: Blame<O>,
  { error, ownerFailures, isTrial, leftMs, jitter }: FailedEvent<O>,
  scope: FailureScope,
  nowMs: number,
): Pause | undefined {
  const concernsOwner = OwnerTokenError.escalationOf(error).scope === 'owner';
  if (isTrial && !concernsOwner) return undefined;
  if (scope !== 'owner' && canaries.length > 0) return undefined;
  const known = scope === 'owner' ? error : OwnerTokenError.restated(error, { failureScope: scope });
  const failure = { error: known, count: ownerFailures + 1, leftMs };
  const pause = ownerPause(failure, ranges, nowMs, jitter);
  if (concernsOwner || canaries.length > 0 || error.retryAfterMs !== undefined) return pause;
  const latestMs = nowMs + ranges.endpoint.capMs;
  return { ...pause, retryAtMonotonicMs: Math.min(pause.retryAtMonotonicMs, latestMs) };
}
