/**
 * Whose fault is a failure? A pure reducer: state and event in, next state and what to do out.
 *
 * Every failure is its owner's until the service itself proves otherwise. When three owners in a row have failed for the
 * first time (or hang) with no success in between, the registry asks for owners that succeeded most recently, two at most:
 * the canaries. One that gets a token proves that the service works, so the failures were their owners' own. If they fail
 * too, the circuit opens: the client's if that is what the answers say, or else the endpoint's.
 *
 * | phase | a request may start | ends with |
 * |---|---|---|
 * | closed | yes | three suspects: checking; a failure that its source put at a wider scope: open |
 * | checking | only if nothing worse than a hang led here | a success: closed; both canaries failed: open |
 * | open | one trial after each pause: a canary, or else a caller's request | a success, or an answer that concerns only its owner: closed |
 *
 * Before anyone has succeeded there are no canaries. Then ten suspects open the circuit, and callers are the trials: the
 * next one after each pause, and one of two refused calls, later one of twenty.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { circuitPause, type Pause, type PauseRanges } from './pauses.ts';

/** The open circuit: no request starts before its pause ends. */
export interface Circuit extends Pause {
  readonly scope: WiderScope;
}

/** @typeParam O identifies an owner. */
export interface Blame<O> {
  readonly phase: 'closed' | 'checking' | 'open';
  /** Set in the open phase. */
  readonly circuit: Circuit | undefined;
  /** The pause of the open circuit is over. */
  readonly isDue: boolean;
  /** Owners that failed for the first time, or hang, with no success in between. */
  readonly suspects: readonly O[];
  /** Owners that succeeded most recently, newest first. */
  readonly canaries: readonly O[];
  /** Canaries asked in this check, or as trials: each is asked once before any is asked again. */
  readonly asked: readonly O[];
  /** Canaries and trials without an outcome, and canaries that failed in this check. */
  readonly outstanding: number;
  readonly failedCanaries: number;
  /** The last failure that led to this check; undefined while nothing but hangs did. */
  readonly failure: OwnerTokenError | undefined;
  /** The number of the most recently sent request that has succeeded. */
  readonly newestSuccess: number;
  /** A canary has just succeeded: until this time no further one is asked. */
  readonly trustedUntilMs: number;
  /** Counts how often the circuit, or a check, has closed: a trial of an earlier round says nothing of this one. */
  readonly round: number;
  /** Calls refused since the last one that was tried, and how many were tried, before anyone has succeeded. */
  readonly refused: number;
  readonly tried: number;
}

/** A request of an owner. Numbers count requests in the order in which they were sent. */
interface Sent<O> {
  readonly owner: O;
  readonly number: number;
  /** A canary, or a caller's request that was let through an open circuit. */
  readonly isTrial: boolean;
}

export type BlameEvent<O> =
  | ({ readonly kind: 'succeeded' } & Sent<O>)
  | ({
      readonly kind: 'failed';
      readonly error: OwnerTokenError;
      /** Whether the owner had no failure before. */
      readonly isFirst: boolean;
      /** From 0 up to 1, for the length of a pause. */
      readonly jitter: number;
    } & Sent<O>)
  /** Far slower than usual, without an outcome until its deadline at the latest. */
  | ({ readonly kind: 'slow'; readonly deadlineMs: number } & Sent<O>)
  /** The outcome of a trial says nothing: it was dropped, or another replica obtained the token. */
  | { readonly kind: 'void'; readonly jitter: number }
  /** A trial was sent; without an owner: no canary was free. */
  | { readonly kind: 'asked'; readonly owner: O | undefined; readonly jitter: number }
  /** The pause of the circuit is over. */
  | { readonly kind: 'due' }
  /** The circuit refuses a call. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'resumed' }
  | { readonly kind: 'forgotten'; readonly owner: O };

export interface BlameStep<O> {
  readonly blame: Blame<O>;
  /** Send a canary that is not in `asked`, and report it as `asked`. */
  readonly askCanary?: boolean;
  /** Let the refused call through. */
  readonly letThrough?: boolean;
}

const SUSPECTS_TO_CHECK = 3;
const SUSPECTS_BEFORE_ANY_SUCCESS = 10;
const CANARIES_TO_ASK = 2;
/** More than are asked, because some may be busy, forgotten or evicted. */
const CANARIES_KEPT = 16;
const TRUST_MS = 1_000;
/** A call waits for a pause that ends within this time, and is refused because of a longer one. */
const PATIENCE_MS = 1_000;
/** Before anyone has succeeded, one of two refused calls is tried at first, and one more call is refused after every five tries. */
const TRY_ONE_OF = { first: 2, last: 20, triesPerStep: 5 } as const;

export function initialBlame<O>(): Blame<O> {
  return {
    ...{ phase: 'closed', circuit: undefined, isDue: false, suspects: [], canaries: [] },
    ...{ asked: [], outstanding: 0, failedCanaries: 0 },
    ...{
      failure: undefined,
      newestSuccess: 0,
      trustedUntilMs: Number.NEGATIVE_INFINITY,
      refused: 0,
      tried: 0,
      round: 0,
    },
  };
}

/** Whether a queued request may start; `trial`: as the trial of the open circuit. */
export function mayStart<O>({ phase, isDue, failure, outstanding }: Blame<O>): boolean | 'trial' {
  if (phase === 'closed') return true;
  if (phase === 'checking') return failure === undefined;
  return isDue && outstanding === 0 ? 'trial' : false;
}

/** When the pause of the open circuit ends and a trial is due; undefined if one is due or in flight already. */
export function trialDueAtMs<O>({ circuit, isDue, outstanding }: Blame<O>): number | undefined {
  return isDue || outstanding > 0 ? undefined : circuit?.retryAtMonotonicMs;
}

/** The circuit, if it refuses calls now; undefined if they may wait for it. */
export function refusingCircuit<O>({ circuit }: Blame<O>, nowMs: number): Circuit | undefined {
  return circuit && circuit.retryAtMonotonicMs - nowMs > PATIENCE_MS ? circuit : undefined;
}

export function reduceBlame<O>(
  blame: Blame<O>,
  event: BlameEvent<O>,
  ranges: PauseRanges,
  nowMs: number,
): BlameStep<O> {
  switch (event.kind) {
    case 'succeeded':
      return { blame: afterSuccess(blame, event, nowMs) };
    case 'failed':
      return event.isTrial ? trialFailed(blame, event, ranges, nowMs) : failed(blame, event, ranges, nowMs);
    case 'slow':
      return event.isTrial ? trialSlow(blame, event) : suspect(blame, event, undefined, nowMs);
    case 'void':
      return goOn({ ...blame, outstanding: Math.max(0, blame.outstanding - 1) }, event.jitter, ranges, nowMs);
    case 'asked': {
      if (event.owner === undefined) return noneFree(blame, event.jitter, ranges, nowMs);
      return { blame: { ...blame, asked: [...blame.asked, event.owner], outstanding: blame.outstanding + 1 } };
    }
    case 'due':
      return { blame: { ...blame, isDue: true }, askCanary: isCanarysTurn(blame) };
    case 'refused':
      return refused(blame);
    case 'resumed':
      return { blame: { ...closed(blame), suspects: [] } };
    case 'forgotten':
      return { blame: without(blame, event.owner) };
  }
}

function afterSuccess<O>(blame: Blame<O>, { owner, number }: Sent<O>, nowMs: number): Blame<O> {
  const others = blame.canaries.filter((each) => each !== owner).slice(0, CANARIES_KEPT - 1);
  return {
    ...(blame.phase === 'closed' ? blame : { ...closed(blame), trustedUntilMs: nowMs + TRUST_MS }),
    suspects: [],
    canaries: [owner, ...others],
    newestSuccess: Math.max(blame.newestSuccess, number),
  };
}

type Failed<O> = Extract<BlameEvent<O>, { kind: 'failed' }>;

function failed<O>(blame: Blame<O>, event: Failed<O>, ranges: PauseRanges, nowMs: number): BlameStep<O> {
  const { error, isFirst, jitter } = event;
  const { scope, isGiven } = OwnerTokenError.evidenceOf(error);
  if (scope === 'owner' || blame.phase === 'open') return { blame };
  if (isGiven) return { blame: opened(blame, error, jitter, ranges, nowMs) };
  if (!isFirst || event.number <= blame.newestSuccess) return { blame };
  if (blame.phase === 'checking') return { blame: { ...blame, failure: error } };
  const step = suspect(blame, event, error, nowMs);
  const isCheckedInVain = step.blame.phase === 'checking' && blame.canaries.length === 0;
  return isCheckedInVain ? { blame: opened(blame, error, jitter, ranges, nowMs) } : step;
}

/** Counts an owner as a suspect. Enough of them begin a check. */
function suspect<O>(
  blame: Blame<O>,
  { owner, number }: Sent<O>,
  failure: OwnerTokenError | undefined,
  nowMs: number,
): BlameStep<O> {
  const { phase, canaries, newestSuccess, trustedUntilMs } = blame;
  const hasCanaries = canaries.length > 0;
  if (phase !== 'closed' || number <= newestSuccess || (!failure && !hasCanaries)) return { blame };
  const suspects = blame.suspects.includes(owner) ? blame.suspects : [...blame.suspects, owner];
  const enough = hasCanaries ? SUSPECTS_TO_CHECK : SUSPECTS_BEFORE_ANY_SUCCESS;
  if (suspects.length < enough) return { blame: { ...blame, suspects } };
  // Enough already, and kept short for as long as the service is trusted.
  if (nowMs < trustedUntilMs) return { blame };
  return { blame: { ...blame, phase: 'checking', asked: [], failedCanaries: 0, failure }, askCanary: hasCanaries };
}

function trialFailed<O>(blame: Blame<O>, event: Failed<O>, ranges: PauseRanges, nowMs: number): BlameStep<O> {
  const { phase } = blame;
  const { error, jitter } = event;
  if (phase === 'closed') return { blame };
  const { scope, isGiven } = OwnerTokenError.evidenceOf(error);
  if (scope === 'owner') return { blame: { ...closed(blame), suspects: [], trustedUntilMs: nowMs + TRUST_MS } };
  const outstanding = Math.max(0, blame.outstanding - 1);
  const next = { ...blame, outstanding, failure: error, failedCanaries: blame.failedCanaries + 1 };
  if (phase === 'checking' && !isGiven) return goOn(next, jitter, ranges, nowMs);
  return { blame: opened(next, error, jitter, ranges, nowMs) };
}

/** A hanging canary does not delay the next one. A hanging trial refuses calls until its deadline. */
function trialSlow<O>(blame: Blame<O>, { deadlineMs }: { readonly deadlineMs: number }): BlameStep<O> {
  const { phase, circuit } = blame;
  if (phase === 'checking') return { blame, askCanary: mayAskMore(blame) };
  if (phase === 'closed' || !circuit) return { blame };
  return { blame: { ...blame, circuit: { ...circuit, retryAtMonotonicMs: deadlineMs } } };
}

/** Canaries and callers are the trials in turn, because the latest to succeed may all be on one shard that fails. */
const isCanarysTurn = <O>({ canaries, circuit }: Blame<O>) => canaries.length > 0 && (circuit?.count ?? 1) % 2 === 1;

const mayAskMore = <O>({ failedCanaries, outstanding }: Blame<O>) => failedCanaries + outstanding < CANARIES_TO_ASK;

/** A canary or trial has ended without a success: asks the next one, waits for the other one, or opens the circuit. */
function goOn<O>(blame: Blame<O>, jitter: number, ranges: PauseRanges, nowMs: number): BlameStep<O> {
  const { phase, outstanding } = blame;
  if (phase === 'closed') return { blame };
  if (phase === 'open') return { blame, askCanary: outstanding === 0 && isCanarysTurn(blame) };
  if (mayAskMore(blame)) return { blame, askCanary: true };
  return outstanding > 0 ? { blame } : noneFree(blame, jitter, ranges, nowMs);
}

/** No further canary can be asked: the failures decide. Without any, the service is trusted. */
function noneFree<O>(blame: Blame<O>, jitter: number, ranges: PauseRanges, nowMs: number): BlameStep<O> {
  const { phase, outstanding, failure } = blame;
  if (phase === 'open') return { blame: { ...blame, asked: [] } };
  if (phase === 'closed' || outstanding > 0) return { blame };
  if (failure) return { blame: opened(blame, failure, jitter, ranges, nowMs) };
  return { blame: { ...closed(blame), suspects: [], trustedUntilMs: nowMs + TRUST_MS } };
}

function refused<O>(blame: Blame<O>): BlameStep<O> {
  const { canaries, tried } = blame;
  if (canaries.length > 0) return { blame };
  const refusals = blame.refused + 1;
  const letThrough = refusals >= Math.min(TRY_ONE_OF.last, TRY_ONE_OF.first + tried / TRY_ONE_OF.triesPerStep);
  return { blame: { ...blame, refused: letThrough ? 0 : refusals, tried: letThrough ? tried + 1 : tried }, letThrough };
}

function without<O>(blame: Blame<O>, owner: O): Blame<O> {
  const isOther = (each: O) => each !== owner;
  const { suspects, canaries, asked } = blame;
  if (!suspects.includes(owner) && !canaries.includes(owner) && !asked.includes(owner)) return blame;
  return {
    ...blame,
    suspects: suspects.filter(isOther),
    canaries: canaries.filter(isOther),
    asked: asked.filter(isOther),
  };
}

/** Opens the circuit, for longer each time in a row that its trial fails in the same scope. */
function opened<O>(
  blame: Blame<O>,
  error: OwnerTokenError,
  jitter: number,
  ranges: PauseRanges,
  nowMs: number,
): Blame<O> {
  const evidence = OwnerTokenError.evidenceOf(error).scope;
  const scope: WiderScope = evidence === 'client' ? 'client' : 'endpoint';
  const count = blame.circuit?.scope === scope ? blame.circuit.count + 1 : 1;
  const circuit = { scope, ...circuitPause(scope, error, count, ranges, nowMs, jitter) };
  const asked = blame.phase === 'open' ? blame.asked : [];
  return { ...blame, phase: 'open', circuit, isDue: false, suspects: [], asked };
}

function closed<O>(blame: Blame<O>): Blame<O> {
  const checked = { asked: [], outstanding: 0, failedCanaries: 0, failure: undefined };
  return { ...blame, phase: 'closed', circuit: undefined, isDue: false, round: blame.round + 1, ...checked };
}
