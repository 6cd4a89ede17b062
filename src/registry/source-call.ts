/** The calls of the source for one request: their arguments, their time limit, and how their outcome is interpreted. */

import type { Cancellation } from '../cancellation.ts';
import type { Instant } from '../clock.ts';
import type { Diagnostics, ReportedRequest } from '../diagnostics.ts';
import { type FailureScope, OwnerTokenError } from '../errors.ts';
import type { Permit } from '../failures/circuit-breaker.ts';
import { failureOf } from '../failures/refusals.ts';
import type { IssuedToken, RequestReason, TokenRequest } from '../token.ts';
import type { Flight } from './flight.ts';
import { dateIssued, heldTokenFrom, lifetimeOf } from './held-token.ts';
import type { RegistrySettings } from './options.ts';
import { type HeldToken, hasDeniedTokens, isDenied } from './slot.ts';

/** One call of the source. A request makes a second one if the first returned a token on the owner's denylist. */
export interface Attempt {
  /** When the source was called, or last got a permit back. */
  sent: Instant;
  readonly message: ReportedRequest;
  /** What was decided on the failure of the call, if it is known: after how long the request is sent again, if it is. */
  retry?: { readonly of: unknown; readonly afterMs: number | undefined };
}

/** A request that was sent. */
export interface SentFlight {
  readonly flight: Flight;
  readonly permit: Permit;
  readonly abort: Cancellation;
  attempt: Attempt;
}

/** What a call of the source needs from the registry; implemented by `Flights`. */
export interface FlightHost {
  newAttempt(flight: Flight, reason: RequestReason): Attempt;
  scopeOf(sent: SentFlight, error: OwnerTokenError): FailureScope | undefined;
  /** Waits for another permit. */
  takePermit(flight: Flight): Promise<void>;
  releasePermit(flight: Flight): void;
  /** Stores the token and settles the request. */
  succeeded(sent: SentFlight, held: HeldToken, now: Instant): void;
  /** Settles the request, or has it sent again. */
  failed(sent: SentFlight, thrown: unknown): void;
}

/**
 * Obtains a token that is not on the owner's denylist, in up to two calls of the source, and has it stored. Nothing is
 * awaited between the check and that: a rejection in between would be lost.
 *
 * Never rejects. The request fails with what {@link callSource} throws; with `invalid_response` if the source returns no
 * usable token; with `token_rejected` if both tokens are on the denylist.
 */
export async function obtain(
  settings: RegistrySettings,
  diagnostics: Diagnostics,
  host: FlightHost,
  sent: SentFlight,
): Promise<void> {
  const { flight, abort } = sent;
  const { slot } = flight;
  const { time, expiry, fingerprints } = settings;
  let deniedBefore: OwnerTokenError | undefined;
  try {
    for (;;) {
      const { returned } = await callSource(settings, diagnostics, host, sent);
      flight.cancelTimer?.();
      const now = time.now();
      const issued = dateIssued(returned, sent.attempt.sent, now);
      const fingerprint = hasDeniedTokens(slot) ? fingerprints.ofToken(issued.token) : undefined;
      const wasDenied = fingerprint !== undefined && isDenied(slot, fingerprint);
      if (!wasDenied) {
        const life = lifetimeOf(expiry, issued);
        if (life.problem) diagnostics.lifetimeUnknown(slot, life.problem, life.lifetimeMs);
        const held = heldTokenFrom(settings, issued, life, slot, now, fingerprint ?? fingerprints);
        return host.succeeded(sent, held, now);
      }
      if (deniedBefore) throw deniedBefore;
      const message = 'the service re-issued a token that was reported as rejected';
      deniedBefore = new OwnerTokenError('token_rejected', message, { owner: slot.owner, failedAtMs: now.wallMs });
      diagnostics.requestFailed(sent.attempt.message, deniedBefore);
      abort.throwIfAborted();
      await host.takePermit(flight);
      sent.attempt = host.newAttempt(flight, 'rejected');
    }
  } catch (thrown) {
    flight.cancelTimer?.();
    host.failed(sent, thrown);
  }
}

/**
 * Calls the source, for at most `requestTimeoutMs`.
 *
 * @throws whatever the source throws; `endpoint_unavailable` if it does not settle in time, which aborts the request.
 */
function callSource(
  { source, expiry, time, requestTimeoutMs }: RegistrySettings,
  diagnostics: Diagnostics,
  host: FlightHost,
  sent: SentFlight,
): Promise<{ readonly returned: IssuedToken }> {
  const { flight, abort, attempt } = sent;
  const { accessKey, slot } = flight;
  const { message } = attempt;
  // A source may go on after its call has ended, while the request is sent again.
  const isCurrent = () => sent.attempt === attempt && flight.state.phase === 'sent' && flight.state.abort === abort;
  const take = async () => {
    abort.throwIfAborted();
    if (!isCurrent()) return;
    await host.takePermit(flight);
    attempt.sent = time.now();
  };
  const release = () => {
    if (isCurrent()) host.releasePermit(flight);
  };
  const request: TokenRequest = abort.addTo({
    reason: message.reason,
    lifetimeMs: (issued: IssuedToken) => lifetimeOf(expiry, dateIssued(issued, attempt.sent, time.now())).lifetimeMs,
    scopeOf: (error: OwnerTokenError) => host.scopeOf(sent, error),
    timeoutMs: requestTimeoutMs,
    permit: { release, take },
    // Last, because V8 keeps what follows a spread outside the object.
    ...(slot.held && { held: slot.held }),
    ...(slot.trouble?.lastRejected && { rejected: slot.trouble.lastRejected }),
  });
  // A source that throws synchronously fails like one that rejects.
  const call = () => {
    try {
      return Promise.resolve(source.requestToken(accessKey, request));
    } catch (error) {
      return Promise.reject(error);
    }
  };
  return new Promise((resolve, reject) => {
    // Before the call, in which the registry may be closed.
    flight.cancelTimer = time.startTimer(() => {
      const problem = `the token source did not settle within ${requestTimeoutMs} ms (requestTimeoutMs)`;
      reject(new OwnerTokenError('endpoint_unavailable', problem));
      abort.abort(new DOMException(problem, 'TimeoutError'));
    }, requestTimeoutMs);
    // Boxed, because a promise that is resolved with an object reads its `then`, which may be an accessor that changes.
    diagnostics.requestSent(message, call).then((returned) => resolve({ returned }), reject);
  });
}

/** Whether the registry ended a request: it closed, or refused the request while its source waited for a permit. */
function wasEnded({ reason }: Cancellation): boolean {
  return reason instanceof OwnerTokenError;
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
 * client still counts; only a `source_failed` of the owner is taken for the source's reaction to the abort.
 */
export function wasAborted(abort: Cancellation, { code, failureScope }: OwnerTokenError): boolean {
  return abort.aborted && (wasEnded(abort) || (code === 'source_failed' && failureScope === 'owner'));
}

/** The error of calls to a closed registry. */
export function closedError(owner: string | undefined, now: Instant): OwnerTokenError {
  return new OwnerTokenError('closed', 'the registry is closed', { owner, failedAtMs: now.wallMs });
}
