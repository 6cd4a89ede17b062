/**
 * What the registry knows about the service, and how each outcome changes it: a pure function from state, event and time to
 * the next state and the actions to take. The scheduler carries them out.
 *
 * - **Blame** (`blame.ts`): whether a failure pauses its owner, or opens the circuit of the client or the endpoint.
 * - **Pace** (`pace.ts`): the rate at which requests are sent.
 * - **Room**: how many requests may run at once. A slow start finds a limit of the service before exceeding it by far. A
 *   request that takes far longer than usual frees its permit for another one; before any latency is known, none does.
 * - **Retries**: a request is retried after a first failure that may be transient: once, or a few times for a 429 or 503
 *   while requests are paced. Each retry costs ten issued tokens. Nothing is retried while the circuit is open.
 */

import { type FailureScope, OwnerTokenError } from '../errors.ts';
import { type Blame, type BlameEvent, type BlameStep, initialBlame, reduceBlame } from './blame.ts';
import { initialPace, isPaced, type Pace, paceFailed, paceIssued, paceRestarted, paceSent } from './pace.ts';
import { HUNG_AFTER_MS, ownerPause, type Pause, type PauseRanges } from './pauses.ts';

/** @typeParam O identifies an owner. */
export interface Health<O> {
  readonly blame: Blame<O>;
  readonly pace: Pace;
  /** Moving average of the latency of issued tokens; undefined before the first. */
  readonly latencyMs: number | undefined;
  /** The retry budget, in issued tokens. */
  readonly savedTokens: number;
  /** When the first request was sent, and how many have succeeded. */
  readonly firstSentMs: number | undefined;
  readonly successes: number;
}

/** A failed request. */
export interface FailedEvent<O> {
  readonly kind: 'failed';
  readonly owner: O;
  readonly number: number;
  readonly isTrial: boolean;
  readonly error: OwnerTokenError;
  /** How many times in a row its owner's requests had failed before this one. */
  readonly ownerFailures: number;
  readonly tookMs: number;
  readonly resends: number;
  /** Whether a caller needs its token, because no cached one is usable. */
  readonly isNeeded: boolean;
  readonly jitter: number;
}

export type HealthEvent<O> =
  | { readonly kind: 'sent' }
  | {
      readonly kind: 'succeeded';
      readonly owner: O;
      readonly number: number;
      readonly isTrial: boolean;
      readonly tookMs: number;
    }
  | FailedEvent<O>
  | Exclude<BlameEvent<O>, { readonly kind: 'succeeded' | 'failed' }>;

export interface Step<O> extends Omit<BlameStep<O>, 'blame'> {
  readonly health: Health<O>;
  /** After how many milliseconds a failed request is retried. Then no owner pauses, and its callers keep waiting. */
  readonly resendAfterMs?: number | undefined;
  /** What a failure was attributed to, and the pause of its owner. */
  readonly scope?: FailureScope;
  readonly ownerPause?: Pause | undefined;
}

const SLOW_MS = 1_000;
const SLOW_LATENCIES = 4;
const LATENCIES_AVERAGED = 20;
const TOKENS_PER_RETRY = 10;
const MOST_SAVED_TOKENS = 100;
const MOST_PACED_RESENDS = 5;
/** Permits of a new registry, and after how many milliseconds it adds one. */
const RAMP = { permits: 16, msPerPermit: 10 } as const;
const RESEND_AFTER_MS = { least: 50, range: 100 } as const;

export function initialHealth<O>(ranges: PauseRanges, quotaPerSecond?: number): Health<O> {
  return {
    blame: initialBlame(ranges),
    pace: initialPace(quotaPerSecond),
    latencyMs: undefined,
    savedTokens: 0,
    firstSentMs: undefined,
    successes: 0,
  };
}

/** How many requests may run at once: 16 at first, one more with each success and each 10 ms, up to the limit. */
export function roomAt({ firstSentMs, successes }: Health<unknown>, concurrency: number, nowMs: number): number {
  const sinceMs = firstSentMs === undefined ? 0 : nowMs - firstSentMs;
  return Math.min(concurrency, RAMP.permits + successes + Math.floor(sinceMs / RAMP.msPerPermit));
}

/** When a queued request may start merely because time has passed; infinite if that takes an outcome. */
export function mayStartAtMs<O>(health: Health<O>, concurrency: number, nowMs: number): number {
  const { nextStartMs } = health.pace;
  if (nowMs < nextStartMs) return nextStartMs;
  return roomAt(health, concurrency, nowMs) < concurrency ? nowMs + RAMP.msPerPermit : Number.POSITIVE_INFINITY;
}

/** How long a request may take before it frees its permit for another one. */
export function slowAfterMs({ latencyMs }: Health<unknown>): number {
  return latencyMs === undefined ? Number.POSITIVE_INFINITY : Math.max(SLOW_MS, SLOW_LATENCIES * latencyMs);
}

export function reduce<O>(health: Health<O>, event: HealthEvent<O>, nowMs: number): Step<O> {
  switch (event.kind) {
    case 'sent':
      return { health: { ...health, pace: paceSent(health.pace, nowMs), firstSentMs: health.firstSentMs ?? nowMs } };
    case 'succeeded':
      return succeeded(health, event, nowMs);
    case 'failed':
      return failed(health, event, nowMs);
    default: {
      const { blame, ...todo } = reduceBlame(health.blame, event, nowMs);
      const pace = event.kind === 'resumed' ? paceRestarted(health.pace) : health.pace;
      return { health: { ...health, blame, pace }, ...todo };
    }
  }
}

function succeeded<O>(
  health: Health<O>,
  event: Extract<HealthEvent<O>, { kind: 'succeeded' }>,
  nowMs: number,
): Step<O> {
  const { latencyMs = event.tookMs, savedTokens } = health;
  const { blame } = reduceBlame(health.blame, event, nowMs);
  // A rate learned from 429s outlives the circuit; one learned from an outage does not.
  const isOutageOver = health.blame.circuit !== undefined && health.blame.circuit.error.code !== 'rate_limited';
  const learned = isOutageOver ? paceRestarted(health.pace) : health.pace;
  // A success during a check shows that the failures before it were the owners' own.
  const pace = health.blame.phase === 'checking' ? { ...learned, busyShare: 0 } : learned;
  return {
    health: {
      blame,
      pace: paceIssued(pace, nowMs),
      latencyMs: latencyMs + (event.tookMs - latencyMs) / LATENCIES_AVERAGED,
      savedTokens: Math.min(MOST_SAVED_TOKENS, savedTokens + 1),
      firstSentMs: health.firstSentMs,
      successes: health.successes + 1,
    },
  };
}

function failed<O>(health: Health<O>, event: FailedEvent<O>, nowMs: number): Step<O> {
  const isFirst = event.ownerFailures === 0;
  const { blame, ...todo } = reduceBlame(health.blame, { ...event, isFirst }, nowMs);
  const busy = isBusy(event.error) ? event.owner : undefined;
  const next = { ...health, blame, pace: paceFailed(health.pace, busy, nowMs) };
  const resend = event.isTrial ? undefined : resendOf(next, event);
  if (resend !== undefined)
    return { health: { ...next, savedTokens: next.savedTokens - TOKENS_PER_RETRY }, resendAfterMs: resend, ...todo };
  const scope = scopeOf(health.blame, blame, event);
  return { health: next, scope, ownerPause: pauseOf(blame, event, scope, nowMs), ...todo };
}

/** Whether a response may mean that the service is overloaded. A 503 with `Retry-After` says how long it is down. */
const isBusy = ({ status, code, retryAfterMs }: OwnerTokenError) =>
  code === 'rate_limited' || (status === 503 && retryAfterMs === undefined);

/** After how many milliseconds a failed request is retried; undefined if it is not. */
function resendOf<O>({ blame, pace, savedTokens }: Health<O>, event: FailedEvent<O>): number | undefined {
  const { error, ownerFailures, resends, isNeeded, tookMs, jitter } = event;
  if (!isNeeded || ownerFailures > 0 || error.retryAfterMs !== undefined || blame.phase === 'open') return undefined;
  const most = isBusy(error) && isPaced(pace) ? MOST_PACED_RESENDS : 1;
  const isTransient = error.retryable && tookMs <= HUNG_AFTER_MS;
  if (!isTransient || resends >= most || savedTokens < TOKENS_PER_RETRY) return undefined;
  return RESEND_AFTER_MS.least + RESEND_AFTER_MS.range * jitter;
}

/** A failure gets the circuit's scope if it opened the circuit, or happened meanwhile and may have the same cause. */
function scopeOf<O>(before: Blame<O>, { circuit, newestSuccess }: Blame<O>, event: FailedEvent<O>): FailureScope {
  const { scope, isGiven } = OwnerTokenError.evidenceOf(event.error);
  if (isGiven || scope === 'owner' || !circuit) return isGiven ? scope : 'owner';
  const isEvidence = event.isTrial || (event.ownerFailures === 0 && event.number > newestSuccess);
  return isEvidence || before.phase !== 'open' ? circuit.scope : 'owner';
}

/** A failure with the circuit's scope does not pause its owner, except before the first success. */
function pauseOf<O>(
  { canaries, ranges }: Blame<O>,
  { error, ownerFailures, isTrial, tookMs, jitter }: FailedEvent<O>,
  scope: FailureScope,
  nowMs: number,
): Pause | undefined {
  const concernsOwner = OwnerTokenError.evidenceOf(error).scope === 'owner';
  if (isTrial && !concernsOwner) return undefined;
  if (scope !== 'owner' && canaries.length > 0) return undefined;
  const known = scope === 'owner' ? error : OwnerTokenError.restated(error, { failureScope: scope });
  const pause = ownerPause(known, ownerFailures + 1, tookMs > HUNG_AFTER_MS, ranges, nowMs, jitter);
  if (concernsOwner || canaries.length > 0 || error.retryAfterMs !== undefined) return pause;
  const latestMs = nowMs + ranges.endpoint.capMs;
  return { ...pause, retryAtMonotonicMs: Math.min(pause.retryAtMonotonicMs, latestMs) };
}
