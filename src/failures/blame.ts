/**
 * Whose fault is a failure? Each event changes the state in place, and returns what to do. Nothing here reads a clock, draws
 * a random number or does I/O.
 *
 * Every failure is attributed to its owner until there is evidence against the service. When three owners in a row fail for
 * the first time with no success in between, the registry refreshes the tokens of the owners that succeeded most
 * recently, two at most: the canaries. If a canary gets a token, the service works, and the failures were the owners' own.
 * If the canaries fail too, the circuit opens: the client's if the responses point to the client, otherwise the endpoint's.
 *
 * | phase | a request may start | ends with |
 * |---|---|---|
 * | closed | yes | three suspects: checking; a failure whose source gave it a wider scope: open |
 * | checking | no | a success: closed; both canaries failed: open |
 * | open | one trial after each pause: a canary, or a caller's request | a success, or a response that concerns only its owner: closed |
 *
 * Before the first success there are no canaries. Ten suspects then open the circuit, and callers' requests are the trials.
 * After that, trials alternate between canaries and callers; if no caller waits, a canary is sent.
 */

import { OwnerTokenError, type WiderScope } from '../errors/owner-token-error.ts';
import { type Blame, type Checking, type Circuit, type Closed, closed, type Open } from './blame-state.ts';
import { circuitPause } from './pauses.ts';

/** A request of an owner. Numbers count requests in the order in which they were sent. */
interface Sent<O> {
  readonly owner: O;
  readonly number: number;
  /** A canary, or the caller's request that an open circuit let through. */
  readonly isTrial: boolean;
}

export type BlameEvent<O> =
  | ({ readonly kind: 'succeeded' } & Sent<O>)
  | ({
      readonly kind: 'failed';
      readonly error: OwnerTokenError;
      /** How many times in a row its owner's requests had failed before this one. */
      readonly ownerFailures: number;
      /** From 0 up to 1, for the length of a pause. */
      readonly jitter: number;
    } & Sent<O>)
  /** A trial takes far longer than usual. It has an outcome at its deadline at the latest. */
  | { readonly kind: 'slow'; readonly deadlineMs: number }
  /** A trial ended without evidence: it was dropped, or another replica obtained the token. */
  | { readonly kind: 'trialDropped'; readonly jitter: number }
  | { readonly kind: 'trialSent'; readonly owner: O }
  /** No canary could be sent. */
  | { readonly kind: 'noCanaryFree'; readonly jitter: number }
  /** The pause of the circuit is over. */
  | { readonly kind: 'due'; readonly isAwaited: boolean }
  | { readonly kind: 'resumed' }
  | { readonly kind: 'forgotten'; readonly owner: O };

const SUSPECTS_TO_CHECK = 3;
const SUSPECTS_BEFORE_ANY_SUCCESS = 10;
const CANARIES_TO_ASK = 2;
/** More than a check needs, because some may be busy, forgotten or evicted. */
const CANARIES_KEPT = 16;
/**
 * No check begins for this long after the service has shown that it works. During a partial outage a check would delay calls
 * that it serves.
 */
const TRUST_MS = 5_000;

/** Like each function below, it returns whether to send a canary that is not in `asked`. */
export function reduceBlame<O>(blame: Blame<O>, event: BlameEvent<O>, nowMs: number): boolean {
  switch (event.kind) {
    case 'succeeded':
      return succeeded(blame, event, nowMs);
    case 'failed':
      return event.isTrial ? trialFailed(blame, event, nowMs) : requestFailed(blame, event, nowMs);
    case 'slow':
      return trialSlow(blame, event);
    case 'trialDropped':
      return trialDropped(blame, event.jitter, nowMs);
    case 'trialSent':
      return trialSent(blame, event.owner);
    case 'noCanaryFree':
      return noCanaryFree(blame, event.jitter, nowMs);
    case 'due':
      return due(blame, event.isAwaited);
    case 'resumed':
      return close(blame);
    case 'forgotten':
      return forget(blame, event.owner);
  }
}

function succeeded<O>(blame: Blame<O>, { owner, number }: Sent<O>, nowMs: number): boolean {
  const { canaries, state } = blame;
  if (state.phase === 'closed') state.suspects.length = 0;
  else trust(blame, nowMs);
  const at = canaries.indexOf(owner);
  if (at >= 0) canaries.splice(at, 1);
  else if (canaries.length === CANARIES_KEPT) canaries.pop();
  canaries.unshift(owner);
  blame.newestSuccess = Math.max(blame.newestSuccess, number);
  return false;
}

type Failed<O> = Extract<BlameEvent<O>, { kind: 'failed' }>;

function requestFailed<O>(blame: Blame<O>, event: Failed<O>, nowMs: number): boolean {
  const { error, owner, ownerFailures, number, jitter } = event;
  const { state } = blame;
  const { scope, isGiven } = OwnerTokenError.escalationOf(error);
  if (scope === 'owner' || state.phase === 'open') return false;
  if (isGiven) return open(blame, error, jitter, nowMs);
  if (ownerFailures > 0 || number <= blame.newestSuccess) return false;
  if (state.phase === 'checking') {
    state.failure = error;
    return false;
  }
  if (!suspect(blame, state, owner, nowMs)) return false;
  return blame.canaries.length > 0 ? beginCheck(blame, error) : open(blame, error, jitter, nowMs);
}

/** Counts an owner as a suspect. Returns whether there are enough for a check, and the service is not trusted at the moment. */
function suspect<O>({ canaries, trustedUntilMs }: Blame<O>, { suspects }: Closed<O>, owner: O, nowMs: number): boolean {
  const isNew = !suspects.includes(owner);
  const enough = canaries.length > 0 ? SUSPECTS_TO_CHECK : SUSPECTS_BEFORE_ANY_SUCCESS;
  // The last suspect is not recorded, so that the first one after the time of trust begins a check.
  if (suspects.length + Number(isNew) >= enough) return nowMs >= trustedUntilMs;
  if (isNew) suspects.push(owner);
  return false;
}

/** Begins a check by canaries. */
function beginCheck<O>(blame: Blame<O>, failure: OwnerTokenError): boolean {
  blame.state = { phase: 'checking', asked: [], outstanding: 0, failedCanaries: 0, failure };
  return true;
}

function trialSent<O>({ state }: Blame<O>, owner: O): boolean {
  if (state.phase === 'closed') return false;
  state.asked.push(owner);
  state.outstanding++;
  return false;
}

/** @param isAwaited whether a request waits that can be the trial. */
function due<O>(blame: Blame<O>, isAwaited: boolean): boolean {
  const { state } = blame;
  if (state.phase !== 'open') return false;
  state.isDue = true;
  return blame.canaries.length > 0 && (!isAwaited || isCanaryNext(blame, state));
}

function trialFailed<O>(blame: Blame<O>, { error, jitter }: Failed<O>, nowMs: number): boolean {
  const { state } = blame;
  if (state.phase === 'closed') return false;
  const { scope, isGiven } = OwnerTokenError.escalationOf(error);
  if (scope === 'owner') return trust(blame, nowMs);
  state.outstanding = Math.max(0, state.outstanding - 1);
  if (state.phase === 'open' || isGiven) return open(blame, error, jitter, nowMs);
  state.failedCanaries++;
  state.failure = error;
  return nextCanary(blame, state, jitter, nowMs);
}

/** A hanging canary does not delay the next one. While a trial hangs, calls are refused until its deadline. */
function trialSlow<O>({ state }: Blame<O>, { deadlineMs }: { readonly deadlineMs: number }): boolean {
  if (state.phase === 'checking') return mayAskMore(state);
  if (state.phase === 'open') state.circuit = { ...state.circuit, retryAtMonotonicMs: deadlineMs };
  return false;
}

/** A trial ended without evidence. */
function trialDropped<O>(blame: Blame<O>, jitter: number, nowMs: number): boolean {
  const { state } = blame;
  if (state.phase === 'closed') return false;
  state.outstanding = Math.max(0, state.outstanding - 1);
  if (state.phase === 'checking') return nextCanary(blame, state, jitter, nowMs);
  return state.outstanding === 0 && isCanaryNext(blame, state);
}

/** Trials alternate between canaries and callers, because all canaries may be on one failing shard. */
const isCanaryNext = <O>({ canaries }: Blame<O>, { circuit }: Open<O>) =>
  canaries.length > 0 && circuit.count % 2 === 1;

const mayAskMore = <O>({ failedCanaries, outstanding }: Checking<O>) => failedCanaries + outstanding < CANARIES_TO_ASK;

/** A canary has ended without a success: sends the next one, waits for the other one, or opens the circuit. */
function nextCanary<O>(blame: Blame<O>, state: Checking<O>, jitter: number, nowMs: number): boolean {
  return mayAskMore(state) || noCanaryFree(blame, jitter, nowMs);
}

/**
 * No canary is free. A check opens the circuit once none is outstanding. In an open circuit each canary may be sent again; if
 * none can, a caller's request is the next trial.
 */
function noCanaryFree<O>(blame: Blame<O>, jitter: number, nowMs: number): boolean {
  const { state } = blame;
  if (state.phase === 'open' && state.asked.length > 0) {
    state.asked = [];
    return true;
  }
  if (state.phase !== 'checking' || state.outstanding > 0) return false;
  return open(blame, state.failure, jitter, nowMs);
}

function forget<O>({ state, canaries }: Blame<O>, owner: O): boolean {
  for (const owners of [canaries, state.phase === 'closed' ? state.suspects : state.asked]) {
    const at = owners.indexOf(owner);
    if (at >= 0) owners.splice(at, 1);
  }
  return false;
}

/** Opens the circuit. The pause grows with the trials in a row that fail in the same scope. */
function open<O>(blame: Blame<O>, error: OwnerTokenError, jitter: number, nowMs: number): boolean {
  const { state, canaries, ranges } = blame;
  const before = state.phase === 'open' ? state : undefined;
  const scope: WiderScope = OwnerTokenError.escalationOf(error).scope === 'client' ? 'client' : 'endpoint';
  const count = before?.circuit.scope === scope ? before.circuit.count + 1 : 1;
  const pause = circuitPause(scope, error, count, canaries.length > 0, ranges, nowMs, jitter);
  const circuit: Circuit = { scope, sinceMs: before?.circuit.sinceMs ?? nowMs, ...pause };
  blame.state = { phase: 'open', circuit, isDue: false, asked: before?.asked ?? [], outstanding: 0 };
  return false;
}

/** The service works: no check begins for a while. */
function trust<O>(blame: Blame<O>, nowMs: number): boolean {
  blame.trustedUntilMs = nowMs + TRUST_MS;
  return close(blame);
}

function close<O>(blame: Blame<O>): boolean {
  blame.state = closed();
  return false;
}
