/** What is known about the service, and what follows for requests that wait. `blame.ts` says how events change it. */

import type { OwnerTokenError, WiderScope } from '../errors/owner-token-error.ts';
import type { Pause, PauseRanges } from './pauses.ts';

/** The open circuit: no request starts before its pause ends. */
export interface Circuit extends Pause {
  readonly scope: WiderScope;
  /** When it opened. */
  readonly sinceMs: number;
}

/**
 * What is known about the service. A trial belongs to the state in which it was sent: once that state has ended, its outcome
 * counts like any other.
 *
 * @typeParam O identifies an owner.
 */
export type BlameState<O> = Closed<O> | Checking<O> | Open<O>;

export interface Closed<O> {
  readonly phase: 'closed';
  /** Owners that failed for the first time, with no success in between. */
  readonly suspects: O[];
}

/** What checking and open have in common. */
interface Asking<O> {
  /** Canaries sent in this check, or as trials: each is sent once before any is sent again. */
  asked: O[];
  /** Canaries and trials without an outcome. */
  outstanding: number;
}

export interface Checking<O> extends Asking<O> {
  readonly phase: 'checking';
  failedCanaries: number;
  /** The last failure in this check, or of the suspect that began it. */
  failure: OwnerTokenError;
}

export interface Open<O> extends Asking<O> {
  readonly phase: 'open';
  circuit: Circuit;
  /** Whether its pause is over. */
  isDue: boolean;
}

export interface Blame<O> {
  readonly ranges: PauseRanges;
  state: BlameState<O>;
  /** No check begins until then, because the service has just shown that it works. */
  trustedUntilMs: number;
  /** Owners that succeeded most recently, newest first. */
  readonly canaries: O[];
  /** The number of the most recently sent request that has succeeded. */
  newestSuccess: number;
}

/**
 * A call waits for a pause that ends within this time. A longer pause refuses it. A call that can get a rejected token
 * instead waits as long in the queue.
 */
export const PATIENCE_MS = 1_000;

export function initialBlame<O>(ranges: PauseRanges): Blame<O> {
  return {
    ranges,
    state: closed(),
    trustedUntilMs: Number.NEGATIVE_INFINITY,
    canaries: [],
    newestSuccess: 0,
  };
}

export const closed = <O>(): Closed<O> => ({ phase: 'closed', suspects: [] });

/** The open circuit, whether or not its pause is over. */
export function circuitOf<O>({ state }: Blame<O>): Circuit | undefined {
  return state.phase === 'open' ? state.circuit : undefined;
}

/** Canaries that were sent already, and are not sent again yet. */
export function askedCanaries<O>({ state }: Blame<O>): readonly O[] {
  return state.phase === 'closed' ? [] : state.asked;
}

/** Whether a queued request may start; `trial`: as the trial of the open circuit. */
export function mayStart<O>({ state }: Blame<O>): boolean | 'trial' {
  if (state.phase === 'closed') return true;
  return state.phase === 'open' && state.isDue && state.outstanding === 0 ? 'trial' : false;
}

/** When the pause of the open circuit ends and a trial becomes due; undefined if a trial is due or in flight already. */
export function trialDueAtMs<O>({ state }: Blame<O>): number | undefined {
  if (state.phase !== 'open' || state.isDue || state.outstanding > 0) return undefined;
  return state.circuit.retryAtMonotonicMs;
}

/** Until when a request that was queued at that time waits for an open circuit. */
export const waitsUntilMs = ({ sinceMs }: Circuit, queuedAtMs: number): number =>
  Math.max(sinceMs, queuedAtMs) + PATIENCE_MS;

/** The circuit, if it refuses calls now; undefined if they may wait for it. */
export function refusingCircuit<O>(blame: Blame<O>, nowMs: number): Circuit | undefined {
  const circuit = circuitOf(blame);
  return circuit && circuit.retryAtMonotonicMs - nowMs > PATIENCE_MS ? circuit : undefined;
}
