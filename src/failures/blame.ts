/**
 * Whose fault is a failure? Each event changes the state in place, and returns whether to send a canary. Nothing here reads a
 * clock, draws a random number or does I/O.
 *
 * Every failure is attributed to its owner until there is evidence against the service. When three owners in a row fail for
 * the first time with no success in between, the service is in doubt: the registry refreshes the token of the owner that
 * succeeded most recently and, if that fails or hangs, of the next one: the canaries. If one gets a token, the service works,
 * and the failures were the owners' own. If both fail or hang, the circuit opens: the client's if the last response points to the
 * client, otherwise the endpoint's.
 *
 * | | a request may start | ends with |
 * |---|---|---|
 * | no doubt | yes | three suspects: the check; a failure whose source gave it a wider scope: the circuit |
 * | check | no | a success, or a canary's failure that concerns only its owner: no doubt; both canaries failed or hung: the circuit |
 * | circuit | one trial after each pause | a success, or a trial's failure that concerns only its owner: no doubt |
 *
 * A trial is a canary; while an owner that never had a token waits, every second one is a caller's request. Before the first
 * success there are no canaries, and ten suspects open the circuit.
 */

import { OwnerTokenError, type WiderScope } from '../errors/owner-token-error.ts';
import { circuitPause, type Pause, type PauseRanges } from './pauses.ts';

/** The open circuit: no request starts before its pause ends. */
export interface Circuit extends Pause {
  readonly scope: WiderScope;
  /** When it opened. */
  readonly sinceMs: number;
}

/** A trial belongs to the doubt in which it was sent: once that is over, or its pause is drawn anew, its outcome counts like any other. */
export interface Doubt<O> {
  /** Undefined during the check. */
  circuit: Circuit | undefined;
  /** Whether the pause of the circuit is over. */
  isDue: boolean;
  /** Canaries sent: each is sent once before any is sent again. */
  asked: O[];
  /** Canaries and trials without an outcome; one that hangs counts as failed. */
  outstanding: number;
  failedCanaries: number;
  /** The last failure, or that of the suspect that began the check. */
  failure: OwnerTokenError;
}

/** @typeParam O identifies an owner. */
export interface Blame<O> {
  readonly ranges: PauseRanges;
  /** Owners that failed for the first time, with no success in between. */
  suspects: O[];
  doubt: Doubt<O> | undefined;
  /** Until then a check takes more suspects, because the service has just shown that it works. */
  trustedUntilMs: number;
  /** Owners that succeeded most recently, newest first. */
  readonly canaries: O[];
  /** The number of the most recently sent request that has succeeded. */
  newestSuccess: number;
  /** When an owner got a token after its last request had failed as one of a refused client. */
  readmittedAtMs: number;
}

export type BlameEvent<O> =
  | {
      readonly kind: 'succeeded';
      readonly owner: O;
      /** Requests are numbered in the order in which they were sent. */
      readonly number: number;
      /** Whether the owner's last request failed as one of a refused client. */
      readonly wasRefused: boolean;
    }
  | {
      readonly kind: 'failed';
      readonly owner: O;
      readonly error: OwnerTokenError;
      /** A canary, or the caller's request that an open circuit let through. */
      readonly isTrial: boolean;
      /** How many times in a row its owner's requests had failed before this one. */
      readonly ownerFailures: number;
      /** From 0 up to 1, for the length of a pause. */
      readonly jitter: number;
    }
  /** A trial takes far longer than usual. */
  | { readonly kind: 'slow'; readonly jitter: number }
  /** A trial ended without evidence: it was dropped, or another replica obtained the token. */
  | { readonly kind: 'trialDropped'; readonly jitter: number }
  | { readonly kind: 'trialSent'; readonly owner: O }
  /** No canary could be sent. */
  | { readonly kind: 'noCanaryFree'; readonly jitter: number }
  /** The pause of the circuit is over. `isAwaited`: an owner that never had a token waits for it. */
  | { readonly kind: 'due'; readonly isAwaited: boolean }
  | { readonly kind: 'resumed' }
  /** Without an owner: all. */
  | { readonly kind: 'forgotten'; readonly owner: O | undefined };

const SUSPECTS_TO_CHECK = 3;
const SUSPECTS_BEFORE_ANY_SUCCESS = 10;
const CANARIES_TO_ASK = 2;
/** More than a check needs, because some may be busy, forgotten or evicted. */
const MAX_CANARIES = 16;
/** So soon after the service has worked it takes more suspects: in a partial outage a check would delay calls that it serves. */
const TRUST_MS = 5_000;
const SUSPECTS_DESPITE_TRUST = 30;

/**
 * A call waits for a pause that ends within this time. A longer pause refuses it. A call that can get a rejected token
 * instead waits as long in the queue.
 */
export const PATIENCE_MS = 1_000;

export function initialBlame<O>(ranges: PauseRanges): Blame<O> {
  return {
    ranges,
    suspects: [],
    doubt: undefined,
    trustedUntilMs: Number.NEGATIVE_INFINITY,
    canaries: [],
    newestSuccess: 0,
    readmittedAtMs: Number.NEGATIVE_INFINITY,
  };
}

/** Whether a queued request may start; `trial`: as the trial of the open circuit. */
export function mayStart<O>({ doubt }: Blame<O>): boolean | 'trial' {
  if (!doubt) return true;
  return doubt.isDue && doubt.outstanding === 0 ? 'trial' : false;
}

/** When the pause of the open circuit ends and a trial becomes due; undefined if a trial is due or in flight already. */
export function trialDueAtMs<O>({ doubt }: Blame<O>): number | undefined {
  return doubt?.isDue ? undefined : doubt?.circuit?.retryAtMonotonicMs;
}

/** Until when a request that was queued at that time waits for an open circuit. */
export const waitsUntilMs = ({ sinceMs }: Circuit, queuedAtMs: number): number =>
  Math.max(sinceMs, queuedAtMs) + PATIENCE_MS;

/** The circuit, if it refuses calls now; undefined if they may wait for it. */
export function refusingCircuit<O>({ doubt }: Blame<O>, nowMs: number): Circuit | undefined {
  const circuit = doubt?.circuit;
  return circuit && circuit.retryAtMonotonicMs - nowMs > PATIENCE_MS ? circuit : undefined;
}

/** Like each function below, it returns whether to send a canary that is not in `asked`. */
export function reduceBlame<O>(blame: Blame<O>, event: BlameEvent<O>, nowMs: number): boolean {
  const { doubt } = blame;
  if (event.kind === 'succeeded') return succeeded(blame, event, nowMs);
  if (event.kind === 'failed' && !event.isTrial) return requestFailed(blame, event, nowMs);
  if (event.kind === 'forgotten') return forget(blame, event.owner);
  if (!doubt) return false;
  switch (event.kind) {
    case 'failed':
      return trialFailed(blame, doubt, event, nowMs);
    case 'slow':
      // Counts as failed, so that it does not delay the next one. If it succeeds nevertheless, it ends the doubt.
      return trialFailed(blame, doubt, { error: doubt.failure, jitter: event.jitter }, nowMs);
    case 'trialDropped':
      doubt.outstanding = Math.max(0, doubt.outstanding - 1);
      if (!doubt.circuit) return nextCanary(blame, doubt, event.jitter, nowMs);
      return doubt.outstanding === 0 && blame.canaries.length > 0;
    case 'trialSent':
      doubt.asked.push(event.owner);
      doubt.outstanding++;
      return false;
    case 'noCanaryFree':
      return noCanaryFree(blame, doubt, event.jitter, nowMs);
    case 'due':
      doubt.isDue = true;
      return blame.canaries.length > 0 && !(event.isAwaited && isForCaller(doubt));
    case 'resumed':
      return end(blame);
  }
}

type Succeeded<O> = Extract<BlameEvent<O>, { kind: 'succeeded' }>;

function succeeded<O>(blame: Blame<O>, { owner, number, wasRefused }: Succeeded<O>, nowMs: number): boolean {
  const { canaries, doubt } = blame;
  blame.suspects = [];
  if (doubt) trust(blame, nowMs);
  const at = canaries.indexOf(owner);
  if (at >= 0) canaries.splice(at, 1);
  else if (canaries.length === MAX_CANARIES) canaries.pop();
  canaries.unshift(owner);
  blame.newestSuccess = Math.max(blame.newestSuccess, number);
  if (wasRefused) blame.readmittedAtMs = nowMs;
  return false;
}

function suspectsToCheck<O>({ canaries, trustedUntilMs }: Blame<O>, nowMs: number): number {
  if (nowMs < trustedUntilMs) return SUSPECTS_DESPITE_TRUST;
  return canaries.length > 0 ? SUSPECTS_TO_CHECK : SUSPECTS_BEFORE_ANY_SUCCESS;
}

type Failed<O> = Extract<BlameEvent<O>, { kind: 'failed' }>;

function requestFailed<O>(blame: Blame<O>, event: Failed<O>, nowMs: number): boolean {
  const { error, owner, ownerFailures, jitter } = event;
  const { doubt, suspects, canaries } = blame;
  const { scope, isGiven } = OwnerTokenError.escalationOf(error);
  if (scope === 'owner' || doubt?.circuit) return false;
  if (isGiven) return open(blame, error, jitter, nowMs);
  const isFirst = ownerFailures === 0;
  if (doubt) {
    if (isFirst) doubt.failure = error;
    return false;
  }
  const enough = suspectsToCheck(blame, nowMs);
  if (isFirst && !suspects.includes(owner)) suspects.push(owner);
  // Enough may have failed while the service was trusted: then any later failure begins the check, even one that is not its owner's first.
  if (suspects.length < enough) return false;
  if (canaries.length === 0) return open(blame, error, jitter, nowMs);
  const none = { circuit: undefined, isDue: false, asked: [], outstanding: 0, failedCanaries: 0 };
  blame.suspects = [];
  blame.doubt = { ...none, failure: error };
  return true;
}

function trialFailed<O>(
  blame: Blame<O>,
  doubt: Doubt<O>,
  { error, jitter }: Pick<Failed<O>, 'error' | 'jitter'>,
  nowMs: number,
): boolean {
  const { scope, isGiven } = OwnerTokenError.escalationOf(error);
  if (scope === 'owner') return trust(blame, nowMs);
  doubt.outstanding = Math.max(0, doubt.outstanding - 1);
  doubt.failedCanaries++;
  doubt.failure = error;
  return doubt.circuit || isGiven ? open(blame, error, jitter, nowMs) : nextCanary(blame, doubt, jitter, nowMs);
}

/** Every second trial may be a caller's, because all canaries may be on a failing shard. */
const isForCaller = <O>({ circuit }: Doubt<O>) => circuit !== undefined && circuit.count % 2 === 0;

const mayAskMore = <O>({ failedCanaries, outstanding }: Doubt<O>) => failedCanaries + outstanding < CANARIES_TO_ASK;

/** A canary of the check has ended without a success: sends the next one, waits for the other one, or opens the circuit. */
function nextCanary<O>(blame: Blame<O>, doubt: Doubt<O>, jitter: number, nowMs: number): boolean {
  return mayAskMore(doubt) || noCanaryFree(blame, doubt, jitter, nowMs);
}

/**
 * No canary is free. A check opens the circuit once none is outstanding. In an open circuit each canary may be sent again; if
 * none can, a caller's request is the next trial.
 */
function noCanaryFree<O>(blame: Blame<O>, doubt: Doubt<O>, jitter: number, nowMs: number): boolean {
  if (!doubt.circuit) return doubt.outstanding === 0 && open(blame, doubt.failure, jitter, nowMs);
  const mayAskAgain = doubt.asked.length > 0;
  doubt.asked = [];
  return mayAskAgain;
}

function forget<O>({ doubt, suspects, canaries }: Blame<O>, owner: O | undefined): boolean {
  for (const owners of [canaries, suspects, doubt?.asked ?? []]) {
    const at = owner === undefined ? 0 : owners.indexOf(owner);
    if (at >= 0) owners.splice(at, owner === undefined ? owners.length : 1);
  }
  return false;
}

/**
 * Opens the circuit. The pause grows with the trials in a row that fail in the same scope; before the first success, when a few
 * dead keys may have opened it, only up to what a call waits for.
 */
function open<O>(blame: Blame<O>, error: OwnerTokenError, jitter: number, nowMs: number): boolean {
  const { canaries, doubt, ranges } = blame;
  const before = doubt?.circuit;
  const scope: WiderScope = OwnerTokenError.escalationOf(error).scope === 'client' ? 'client' : 'endpoint';
  const count = before?.scope === scope ? before.count + 1 : 1;
  const { baseMs, capMs } = ranges[scope];
  const mostMs = canaries.length > 0 ? capMs : Math.min(capMs, Math.max(baseMs, PATIENCE_MS));
  const pause = circuitPause(scope, error, count, { baseMs, capMs: mostMs }, nowMs, jitter);
  const circuit: Circuit = { scope, sinceMs: before?.sinceMs ?? nowMs, ...pause };
  const asked = doubt?.circuit ? doubt.asked : [];
  blame.suspects = [];
  blame.doubt = { circuit, isDue: false, asked, outstanding: 0, failedCanaries: 0, failure: error };
  return false;
}

/** The service works. */
function trust<O>(blame: Blame<O>, nowMs: number): boolean {
  blame.trustedUntilMs = nowMs + TRUST_MS;
  return end(blame);
}

function end<O>(blame: Blame<O>): boolean {
  blame.doubt = undefined;
  blame.suspects = [];
  return false;
}
