/**
 * Whose fault is a failure? A pure reducer: state and event in, next state and what to do out.
 *
 * Every failure is attributed to its owner until there is evidence against the service. When three owners in a row fail for
 * the first time (or hang) with no success in between, the registry refreshes the tokens of the owners that succeeded most
 * recently, two at most: the canaries. If a canary gets a token, the service works, and the failures were the owners' own.
 * If the canaries fail too, the circuit opens: the client's if the responses point to the client, otherwise the endpoint's.
 *
 * | phase | a request may start | ends with |
 * |---|---|---|
 * | closed | yes | three suspects: checking; a failure whose source gave it a wider scope: open |
 * | checking | only if the last suspect hangs, and no request has failed since | a success: closed; both canaries failed: open |
 * | open | one trial after each pause: a canary, or a caller's request | a success, or a response that concerns only its owner: closed |
 *
 * Before the first success there are no canaries. Ten suspects then open the circuit, and callers' requests are the trials:
 * one after each pause, and one in two of the calls that would be refused, later one in twenty.
 */

import { OwnerTokenError, type WiderScope } from '../errors.ts';
import { circuitPause, type Pause, type PauseRanges } from './pauses.ts';

/** The open circuit: no request starts before its pause ends. */
export interface Circuit extends Pause {
  readonly scope: WiderScope;
}

/** @typeParam O identifies an owner. */
export interface Blame<O> {
  readonly ranges: PauseRanges;
  readonly phase: 'closed' | 'checking' | 'open';
  /** Set in the open phase. */
  readonly circuit: Circuit | undefined;
  /** Whether the pause of the open circuit is over. */
  readonly isDue: boolean;
  /** Owners that failed for the first time, or hang, with no success in between. */
  readonly suspects: readonly O[];
  /** Owners that succeeded most recently, newest first. */
  readonly canaries: readonly O[];
  /** Canaries sent in this check, or as trials: each is sent once before any is sent again. */
  readonly asked: readonly O[];
  /** Canaries and trials without an outcome, and canaries that failed in this check. */
  readonly outstanding: number;
  readonly failedCanaries: number;
  /** The last failure in this check, or of the suspect that began it; undefined while there were only hangs. */
  readonly failure: OwnerTokenError | undefined;
  /** The number of the most recently sent request that has succeeded. */
  readonly newestSuccess: number;
  /** The service has shown that it works: until this time no check begins. */
  readonly trustedUntilMs: number;
  /** How long the service was trusted when the circuit last closed, unless 429s had opened it. */
  readonly trustMs: number;
  /** Counts how often the circuit, or a check, has closed: a trial of an earlier round says nothing of this one. */
  readonly round: number;
  /** Before the first success: calls refused since the last one that was admitted, and how many were admitted. */
  readonly refused: number;
  readonly tried: number;
}

/** A request of an owner. Numbers count requests in the order in which they were sent. */
interface Sent<O> {
  readonly owner: O;
  readonly number: number;
  /** A canary, or a caller's request that an open circuit admitted. */
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
  /** A trial ended without evidence: it was dropped, or another replica obtained the token. */
  | { readonly kind: 'inconclusive'; readonly jitter: number }
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
  /** Send a request for this call although the circuit refuses calls. */
  readonly admit?: boolean;
}

const SUSPECTS_TO_CHECK = 3;
const SUSPECTS_BEFORE_ANY_SUCCESS = 10;
const CANARIES_TO_ASK = 2;
/** More than a check needs, because some may be busy, forgotten or evicted. */
const CANARIES_KEPT = 16;
/** How long a service that has shown that it works is trusted; {@link trusted} chooses. */
const TRUST_MS = { first: 1_000, most: 60_000 } as const;
/** A call waits for a pause that ends within this time. A longer pause refuses it. */
const PATIENCE_MS = 1_000;
/** Before the first success, an open circuit admits one call in n: n is 2 at first, and grows by 1 per 5 admitted, up to 20. */
const TRY_ONE_OF = { first: 2, last: 20, triesPerStep: 5 } as const;

export function initialBlame<O>(ranges: PauseRanges): Blame<O> {
  return {
    ranges,
    phase: 'closed',
    circuit: undefined,
    isDue: false,
    suspects: [],
    canaries: [],
    asked: [],
    outstanding: 0,
    failedCanaries: 0,
    failure: undefined,
    newestSuccess: 0,
    trustedUntilMs: Number.NEGATIVE_INFINITY,
    trustMs: 0,
    round: 0,
    refused: 0,
    tried: 0,
  };
}

/** Whether a queued request may start; `trial`: as the trial of the open circuit. */
export function mayStart<O>({ phase, isDue, failure, outstanding }: Blame<O>): boolean | 'trial' {
  if (phase === 'closed') return true;
  if (phase === 'checking') return failure === undefined;
  return isDue && outstanding === 0 ? 'trial' : false;
}

/** When the pause of the open circuit ends and a trial becomes due; undefined if a trial is due or in flight already. */
export function trialDueAtMs<O>({ circuit, isDue, outstanding }: Blame<O>): number | undefined {
  return isDue || outstanding > 0 ? undefined : circuit?.retryAtMonotonicMs;
}

/** The circuit, if it refuses calls now; undefined if they may wait for it. */
export function refusingCircuit<O>({ circuit }: Blame<O>, nowMs: number): Circuit | undefined {
  return circuit && circuit.retryAtMonotonicMs - nowMs > PATIENCE_MS ? circuit : undefined;
}

export function reduceBlame<O>(blame: Blame<O>, event: BlameEvent<O>, nowMs: number): BlameStep<O> {
  switch (event.kind) {
    case 'succeeded':
      return { blame: afterSuccess(blame, event, nowMs) };
    case 'failed':
      return event.isTrial ? trialFailed(blame, event, nowMs) : failed(blame, event, nowMs);
    case 'slow':
      return event.isTrial ? trialSlow(blame, event) : suspect(blame, event, undefined, nowMs);
    case 'inconclusive':
      return proceed({ ...blame, outstanding: Math.max(0, blame.outstanding - 1) }, event.jitter, nowMs);
    case 'asked': {
      if (event.owner === undefined) return noCanaryFree(blame, event.jitter, nowMs);
      return { blame: { ...blame, asked: [...blame.asked, event.owner], outstanding: blame.outstanding + 1 } };
    }
    case 'due':
      return { blame: { ...blame, isDue: true }, askCanary: isCanaryNext(blame) };
    case 'refused':
      return refused(blame);
    case 'resumed':
      return { blame: closed(blame) };
    case 'forgotten':
      return { blame: without(blame, event.owner) };
  }
}

function afterSuccess<O>(blame: Blame<O>, { owner, number }: Sent<O>, nowMs: number): Blame<O> {
  const at = blame.canaries.indexOf(owner);
  const others = at < 0 ? blame.canaries.slice(0, CANARIES_KEPT - 1) : blame.canaries.toSpliced(at, 1);
  return {
    ...(blame.phase === 'closed' ? blame : trusted(blame, nowMs)),
    suspects: [],
    canaries: [owner, ...others],
    newestSuccess: Math.max(blame.newestSuccess, number),
  };
}

type Failed<O> = Extract<BlameEvent<O>, { kind: 'failed' }>;

function failed<O>(blame: Blame<O>, event: Failed<O>, nowMs: number): BlameStep<O> {
  const { error, isFirst, jitter } = event;
  const { scope, isGiven } = OwnerTokenError.evidenceOf(error);
  if (scope === 'owner' || blame.phase === 'open') return { blame };
  if (isGiven) return { blame: opened(blame, error, jitter, nowMs) };
  if (!isFirst || event.number <= blame.newestSuccess) return { blame };
  if (blame.phase === 'checking') return { blame: { ...blame, failure: error } };
  const step = suspect(blame, event, error, nowMs);
  const hasNoCanary = step.blame.phase === 'checking' && blame.canaries.length === 0;
  return hasNoCanary ? { blame: opened(blame, error, jitter, nowMs) } : step;
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
  // Drops this suspect, so that the first one after the time of trust begins a check.
  if (nowMs < trustedUntilMs) return { blame };
  return { blame: { ...blame, phase: 'checking', asked: [], failedCanaries: 0, failure }, askCanary: hasCanaries };
}

function trialFailed<O>(blame: Blame<O>, event: Failed<O>, nowMs: number): BlameStep<O> {
  const { phase } = blame;
  const { error, jitter } = event;
  if (phase === 'closed') return { blame };
  const { scope, isGiven } = OwnerTokenError.evidenceOf(error);
  if (scope === 'owner') return { blame: trusted(blame, nowMs) };
  const outstanding = Math.max(0, blame.outstanding - 1);
  const next = { ...blame, outstanding, failure: error, failedCanaries: blame.failedCanaries + 1 };
  if (phase === 'checking' && !isGiven) return proceed(next, jitter, nowMs);
  return { blame: opened(next, error, jitter, nowMs) };
}

/** A hanging canary does not delay the next one. While a trial hangs, calls are refused until its deadline. */
function trialSlow<O>(blame: Blame<O>, { deadlineMs }: { readonly deadlineMs: number }): BlameStep<O> {
  const { phase, circuit } = blame;
  if (phase === 'checking') return { blame, askCanary: mayAskMore(blame) };
  if (!circuit) return { blame };
  return { blame: { ...blame, circuit: { ...circuit, retryAtMonotonicMs: deadlineMs } } };
}

/** Trials alternate between canaries and callers, because all canaries may be on one failing shard. */
const isCanaryNext = <O>({ canaries, circuit }: Blame<O>) =>
  canaries.length > 0 && (circuit as Circuit).count % 2 === 1;

const mayAskMore = <O>({ failedCanaries, outstanding }: Blame<O>) => failedCanaries + outstanding < CANARIES_TO_ASK;

/** A canary or trial has ended without a success: sends the next one, waits for the other one, or opens the circuit. */
function proceed<O>(blame: Blame<O>, jitter: number, nowMs: number): BlameStep<O> {
  const { phase, outstanding } = blame;
  if (phase === 'closed') return { blame };
  if (phase === 'open') return { blame, askCanary: outstanding === 0 && isCanaryNext(blame) };
  if (mayAskMore(blame)) return { blame, askCanary: true };
  return outstanding > 0 ? { blame } : noCanaryFree(blame, jitter, nowMs);
}

/** No further canary can be sent: opens the circuit if any request failed. If requests only hang, trusts the service. */
function noCanaryFree<O>(blame: Blame<O>, jitter: number, nowMs: number): BlameStep<O> {
  const { phase, outstanding, failure } = blame;
  if (phase === 'open') return { blame: { ...blame, asked: [] } };
  if (phase === 'closed' || outstanding > 0) return { blame };
  if (failure) return { blame: opened(blame, failure, jitter, nowMs) };
  return { blame: trusted(blame, nowMs) };
}

function refused<O>(blame: Blame<O>): BlameStep<O> {
  const { canaries, tried } = blame;
  if (canaries.length > 0) return { blame };
  const refusals = blame.refused + 1;
  const admit = refusals >= Math.min(TRY_ONE_OF.last, TRY_ONE_OF.first + tried / TRY_ONE_OF.triesPerStep);
  return { blame: { ...blame, refused: admit ? 0 : refusals, tried: admit ? tried + 1 : tried }, admit };
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

/** Opens the circuit. The pause grows with the trials in a row that fail in the same scope. */
function opened<O>(blame: Blame<O>, error: OwnerTokenError, jitter: number, nowMs: number): Blame<O> {
  const evidence = OwnerTokenError.evidenceOf(error).scope;
  const scope: WiderScope = evidence === 'client' ? 'client' : 'endpoint';
  const count = blame.circuit?.scope === scope ? blame.circuit.count + 1 : 1;
  const alternates = blame.canaries.length > 0;
  const circuit = { scope, ...circuitPause(scope, error, count, alternates, blame.ranges, nowMs, jitter) };
  const asked = blame.phase === 'open' ? blame.asked : [];
  return { ...blame, phase: 'open', circuit, isDue: false, suspects: [], asked };
}

/**
 * The service works. If its circuit closes again within a minute of the end of the last trust, the service fails in part, and
 * the next check would refuse calls that it may well serve: so it is trusted for twice as long. After 429s, which slow calls
 * down anyway, it is trusted for the shortest time.
 */
function trusted<O>(blame: Blame<O>, nowMs: number): Blame<O> {
  const { circuit } = blame;
  if (!circuit || circuit.error.code === 'rate_limited')
    return { ...closed(blame), trustedUntilMs: nowMs + TRUST_MS.first };
  const lastMs = nowMs - blame.trustedUntilMs < TRUST_MS.most ? blame.trustMs : 0;
  const trustMs = Math.min(Math.max(TRUST_MS.first, 2 * lastMs), TRUST_MS.most);
  return { ...closed(blame), trustedUntilMs: nowMs + trustMs, trustMs };
}

function closed<O>(blame: Blame<O>): Blame<O> {
  const checked = { suspects: [], asked: [], outstanding: 0, failedCanaries: 0, failure: undefined };
  return { ...blame, phase: 'closed', circuit: undefined, isDue: false, round: blame.round + 1, ...checked };
}
