/** One call of the source: its arguments, its time limit, and what its outcome becomes: a token to hold, or an error. */

import type { Cancellation } from '../cancellation.ts';
import { elapsedMs, type Instant, MAX_READING_ERROR_MS, type Time } from '../clock.ts';
import type { Diagnostics, ReportedRequest } from '../diagnostics.ts';
import { OwnerTokenError } from '../errors.ts';
import { jwtTimes } from '../expiry/jwt-times.ts';
import { assessLifetime, planLife, type StatedLifetime } from '../expiry/lifetime.ts';
import { failureOf } from '../failures/refusals.ts';
import {
  AccessToken,
  type AccessTokenFields,
  type IssuedToken,
  type RequestPermit,
  readIssued,
  type TokenRequest,
} from '../token.ts';
import { schemeOf, unregisteredType } from '../token-type.ts';
import type { Flight } from './flight.ts';
import type { RegistrySettings } from './options.ts';
import type { Scheduler } from './scheduler.ts';
import { type HeldToken, isDenied, type Slot } from './slot.ts';

type Permits = Pick<Scheduler, 'releasePermit' | 'requeue'>;

/** One call of the source. A request makes a second one if the first returned a token on the owner's denylist. */
export interface SourceCall {
  readonly flight: Flight;
  readonly abort: Cancellation;
  readonly message: ReportedRequest;
  /** When the source was called, or last got a permit back. */
  sent: Instant;
  /** Set for a second call: the first one returned a token on the denylist. */
  readonly deniedBefore: OwnerTokenError | undefined;
}

/** Receives the outcome of each call: exactly one of these methods is called, once. */
export interface OutcomeHandler {
  returned(call: SourceCall, issued: IssuedToken): void;
  failed(call: SourceCall, thrown: unknown): Promise<void>;
}

/** The permit of a request, which its source releases while it only waits for another process. */
class Permit implements RequestPermit {
  readonly #call: SourceCall;
  readonly #scheduler: Permits;
  readonly #time: Time;

  constructor(call: SourceCall, scheduler: Permits, time: Time) {
    this.#call = call;
    this.#scheduler = scheduler;
    this.#time = time;
  }

  /** A source may keep running after its call has ended and the request is being retried. */
  get #isCurrent(): boolean {
    const { flight, abort } = this.#call;
    return flight.abort === abort && flight.phase === 'sent';
  }

  release(): void {
    if (this.#isCurrent) this.#scheduler.releasePermit(this.#call.flight);
  }

  async take(): Promise<void> {
    this.#call.abort.throwIfAborted();
    if (!this.#isCurrent) return;
    await takePermit(this.#call, this.#scheduler);
    this.#call.sent = this.#time.now();
  }
}

/** Queues the request for a permit, unless it holds one. Concurrent calls share one wait. */
export async function takePermit({ flight, abort }: SourceCall, scheduler: Permits): Promise<void> {
  if (flight.place === 'released') {
    flight.permitWait = new Promise((resolve, reject) => {
      const leave = () => {
        flight.permitWait = undefined;
        reject(abort.reason);
      };
      abort.addEventListener('abort', leave);
      flight.resume = () => {
        flight.permitWait = undefined;
        abort.removeEventListener('abort', leave);
        resolve();
      };
    });
    scheduler.requeue(flight);
  }
  await flight.permitWait;
}

/**
 * Calls the source, for at most `requestTimeoutMs`. If the source does not settle in time, the call is aborted and fails with
 * `endpoint_unavailable`. Calls the handler instead of returning a promise, which allocates less.
 */
export function callSource(
  { source, expiry, time, requestTimeoutMs }: RegistrySettings,
  diagnostics: Diagnostics,
  call: SourceCall,
  scheduler: Permits,
  handler: OutcomeHandler,
): void {
  const { flight, abort, message } = call;
  const { accessKey, slot } = flight;
  const request: TokenRequest = abort.addTo({
    reason: message.reason,
    lifetimeMs: (issued: IssuedToken) =>
      assessLifetime(expiry.lifetimeMs(dateIssued(issued, call.sent, time.now()))).lifetimeMs,
    timeoutMs: requestTimeoutMs,
    permit: new Permit(call, scheduler, time),
    // Last, because V8 keeps what follows a spread outside the object.
    ...(slot.held && { held: slot.held }),
    ...(slot.history.lastRejected && { rejected: slot.history.lastRejected }),
  });
  // A source that throws synchronously fails like one that rejects.
  const send = () => {
    try {
      return Promise.resolve(source.requestToken(accessKey, request));
    } catch (error) {
      return Promise.reject(error);
    }
  };
  let isSettled = false;
  const returned = (issued: IssuedToken) => {
    if (!isSettled) handler.returned(call, issued);
    isSettled = true;
  };
  const failed = (thrown: unknown) => {
    if (!isSettled) void handler.failed(call, thrown);
    isSettled = true;
  };
  // Before the call, in which the registry may be closed.
  flight.timer = time.startTimer(() => {
    const problem = `the token source did not settle within ${requestTimeoutMs} ms (requestTimeoutMs)`;
    abort.abort(new DOMException(problem, 'TimeoutError'));
    failed(new OwnerTokenError('endpoint_unavailable', problem));
  }, requestTimeoutMs);
  diagnostics.requestSent(message, send).then(returned, failed);
}

/**
 * The token to hold; undefined if it is on the owner's denylist.
 *
 * @throws OwnerTokenError `invalid_response`
 */
export function heldFrom(
  settings: RegistrySettings,
  diagnostics: Diagnostics,
  { flight: { slot }, sent }: SourceCall,
  returned: IssuedToken,
  now: Instant,
): HeldToken | undefined {
  const { expiry, fingerprints } = settings;
  const issued = dateIssued(returned, sent, now);
  // No fingerprint is computed in vain.
  const fingerprint = slot.history.denylist.length ? fingerprints.ofToken(issued.token) : undefined;
  if (fingerprint && isDenied(slot, fingerprint)) return undefined;
  const tokenType = unregisteredType(issued, slot.accessKey);
  if (tokenType) diagnostics.emit('scheme.unknown', () => ({ owner: slot.owner, tokenType }));
  const life = assessLifetime(expiry.lifetimeMs(issued));
  const { problem: kind, lifetimeMs: assumedMs } = life;
  if (kind) diagnostics.emit('lifetime.unknown', () => ({ owner: slot.owner, kind, assumedMs }));
  return heldTokenFrom(settings, issued, life, slot, now, fingerprint ?? fingerprints);
}

/** A validated token, and the time from which its lifetime counts. */
export type DatedToken = IssuedToken & { readonly requestedAtMs: number };

type Life = Pick<AccessToken, 'refreshAtMs' | 'expiresAtMs'>;

/** A re-issued token with less than this share of its life left is not refreshed again. */
const MIN_REST_SHARE = 0.05;

/**
 * Validates and dates what a source returned. If the source gives no date, or one in the future (another clock, or one
 * that was set back since), the lifetime counts from just before the request, by the clock that gives the earlier time.
 * If the wall clock was set back during the request, the source's date is set back with it.
 *
 * @throws OwnerTokenError `invalid_response`
 */
export function dateIssued(returned: IssuedToken, sent: Instant, now: Instant): DatedToken {
  const issued = readIssued(returned);
  if ('problem' in issued) {
    throw new OwnerTokenError('invalid_response', `the token source returned no usable token: ${issued.problem}`);
  }
  const stated = issued.requestedAtMs;
  const tookMs = elapsedMs(sent, now);
  if (stated === undefined || stated > now.wallMs) return { ...issued, requestedAtMs: now.wallMs - tookMs };
  const setBackMs = tookMs - (now.wallMs - sent.wallMs);
  return { ...issued, requestedAtMs: setBackMs > MAX_READING_ERROR_MS ? stated - setBackMs : stated };
}

/**
 * Creates the token to hold.
 *
 * @param slot if it holds the same token already, the token keeps its expiry.
 * @param fingerprint of the token if it is known already, or else what computes it on first use.
 * @throws OwnerTokenError `invalid_response` if the token has already expired.
 */
export function heldTokenFrom(
  { refreshWindow, random }: Pick<RegistrySettings, 'refreshWindow' | 'random'>,
  issued: DatedToken,
  { lifetimeMs, refreshAfterMs }: StatedLifetime,
  slot: Pick<Slot, 'held' | 'aheadMs'>,
  now: Instant,
  fingerprint: AccessTokenFields['fingerprint'],
): HeldToken {
  const { requestedAtMs } = issued;
  const hasEnded = hasPassedOwnExp(issued, lifetimeMs, now);
  const planned = planLife({ requestedAtMs, lifetimeMs, refreshAfterMs, refreshWindow, random });
  const { aheadMs } = now;
  const endMs = slot.held?.value === issued.token ? slot.held.expiresAtMs + slot.aheadMs - aheadMs : Infinity;
  const life = planned.expiresAtMs <= endMs ? planned : shortened(planned, requestedAtMs, endMs);
  // Rounded down, which is safe, because a token keeps whole milliseconds in less memory.
  const refreshAtMs = Math.floor(life.refreshAtMs);
  const expiresAtMs = Math.floor(life.expiresAtMs);
  if (hasEnded || now.timelineMs - aheadMs >= expiresAtMs) {
    throw new OwnerTokenError('invalid_response', 'the token had expired on arrival: check the clocks on both sides');
  }
  const { token: value, tokenType } = issued;
  const scheme = schemeOf(tokenType);
  const issuedAtMs = Math.floor(requestedAtMs);
  const fields = { value, tokenType: scheme, fingerprint, issuedAtMs, refreshAtMs, expiresAtMs };
  return { token: new AccessToken(fields), aheadMs };
}

/** Limits a plan to the existing expiry and scales the refresh point. Plans no refresh if hardly any life is left. */
function shortened(planned: Life, requestedAtMs: number, endMs: number): Life {
  const rest = (endMs - requestedAtMs) / (planned.expiresAtMs - requestedAtMs);
  const refreshAtMs = rest < MIN_REST_SHARE ? endMs : requestedAtMs + (planned.refreshAtMs - requestedAtMs) * rest;
  return { refreshAtMs, expiresAtMs: endMs };
}

/** Whether a JWT's own `exp` has passed. Ignored for tokens kept until they are rejected. */
function hasPassedOwnExp(issued: IssuedToken, lifetimeMs: number, now: Instant): boolean {
  if (lifetimeMs === Number.POSITIVE_INFINITY) return false;
  const endMs = jwtTimes(issued.token)?.expiresAtMs;
  return endMs !== undefined && now.wallMs >= endMs;
}

/** Never throws, even if accessors of the thrown value do. */
export function readFailure(thrown: unknown, { slot, accessKey }: Flight, now: Instant): OwnerTokenError {
  try {
    return failureOf(thrown, slot.owner, accessKey, now);
  } catch {
    const message = 'the token source threw a value that cannot be read';
    return new OwnerTokenError('source_failed', message, { owner: slot.owner, failedAtMs: now.wallMs });
  }
}

/**
 * Whether a request failed because it was aborted. If the registry did not end it, an error about the service or the
 * client still counts; only a `source_failed`, or the `closed` of a `TokenEndpoint`, is the source's reaction to the abort.
 */
export function wasAborted({ aborted, reason }: Cancellation, { code }: OwnerTokenError): boolean {
  return aborted && (reason instanceof OwnerTokenError || code === 'source_failed' || code === 'closed');
}

/** The error of calls to a closed registry. */
export function closedError(owner: string | undefined, now: Instant): OwnerTokenError {
  return new OwnerTokenError('closed', 'the registry is closed', { owner, failedAtMs: now.wallMs });
}
