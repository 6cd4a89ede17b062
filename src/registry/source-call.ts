/** One call of the source: its arguments, its time limit, and how its failure is read. */

import type { Cancellation } from '../cancellation.ts';
import type { Instant, Time } from '../clock.ts';
import type { Diagnostics, ReportedRequest } from '../diagnostics.ts';
import { OwnerTokenError } from '../errors.ts';
import { assessLifetime } from '../expiry/lifetime.ts';
import { failureOf } from '../failures/refusals.ts';
import type { IssuedToken, RequestPermit, TokenRequest } from '../token.ts';
import type { Flight } from './flight.ts';
import { dateIssued } from './held-token.ts';
import type { RegistrySettings } from './options.ts';
import type { Scheduler } from './scheduler.ts';

/** One call of the source. A request makes a second one if the first returned a token on the owner's denylist. */
export interface SourceCall {
  readonly flight: Flight;
  readonly abort: Cancellation;
  readonly message: ReportedRequest;
  /** When the source was called, or last got a permit back. */
  sent: Instant;
}

/** The permit of a request, which its source releases while it only waits for another process. */
function permitOf(
  call: SourceCall,
  scheduler: Pick<Scheduler, 'releasePermit' | 'takePermit'>,
  time: Time,
): RequestPermit {
  const { flight, abort } = call;
  // A source may keep running after its call has ended and the request is being retried.
  const isCurrent = () => flight.abort === abort && flight.phase === 'sent';
  return {
    release: () => {
      if (isCurrent()) scheduler.releasePermit(flight);
    },
    take: async () => {
      abort.throwIfAborted();
      if (!isCurrent()) return;
      await scheduler.takePermit(flight);
      call.sent = time.now();
    },
  };
}

/**
 * Calls the source, for at most `requestTimeoutMs`.
 *
 * @returns what the source returned, boxed, because a promise that is resolved with an object reads its `then`, which may
 * be an accessor that changes.
 * @throws whatever the source throws; `endpoint_unavailable` if it does not settle in time, which aborts the request.
 */
export function callSource(
  { source, expiry, time, requestTimeoutMs }: RegistrySettings,
  diagnostics: Diagnostics,
  call: SourceCall,
  scheduler: Pick<Scheduler, 'releasePermit' | 'takePermit'>,
): Promise<{ readonly returned: IssuedToken }> {
  const { flight, abort, message } = call;
  const { accessKey, slot } = flight;
  const request: TokenRequest = abort.addTo({
    reason: message.reason,
    lifetimeMs: (issued: IssuedToken) =>
      assessLifetime(expiry.lifetimeMs(dateIssued(issued, call.sent, time.now()))).lifetimeMs,
    timeoutMs: requestTimeoutMs,
    permit: permitOf(call, scheduler, time),
    // Last, because V8 keeps what follows a spread outside the object.
    ...(slot.held && { held: slot.held }),
    ...(slot.trouble?.lastRejected && { rejected: slot.trouble.lastRejected }),
  });
  // A source that throws synchronously fails like one that rejects.
  const send = () => {
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
    diagnostics.requestSent(message, send).then((returned) => resolve({ returned }), reject);
  });
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
 * client still counts; only a `source_failed` is taken as the source's reaction to the abort.
 */
export function wasAborted({ aborted, reason }: Cancellation, { code }: OwnerTokenError): boolean {
  return aborted && (reason instanceof OwnerTokenError || code === 'source_failed');
}

/** The error of calls to a closed registry. */
export function closedError(owner: string | undefined, now: Instant): OwnerTokenError {
  return new OwnerTokenError('closed', 'the registry is closed', { owner, failedAtMs: now.wallMs });
}
