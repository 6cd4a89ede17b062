/** One call of the source for an owner: its arguments, its time limit, and how its outcome is interpreted. */

import type { RequestMessage } from '../channel-messages.ts';
import type { Instant, Time } from '../clock.ts';
import type { Diagnostics } from '../diagnostics.ts';
import { type FailureScope, OwnerTokenError } from '../errors.ts';
import { failureOf } from '../failures/refusals.ts';
import type { TokenRequest } from '../token.ts';
import type { Flight } from './flight.ts';
import { type DatedToken, dateIssued, lifetimeOf } from './held-token.ts';
import type { RegistrySettings } from './options.ts';

/** A request makes one attempt, and a second one if the first returned a token on the owner's denylist. */
export interface Attempt {
  /** When the source was called, or got its permit back. */
  sent: Instant;
  readonly message: RequestMessage;
}

/** For a source that shares tokens with other processes. */
export interface SharingHooks {
  scopeOf(error: OwnerTokenError): FailureScope;
  /** Waits for another permit. */
  takePermit(): Promise<void>;
}

/**
 * Calls the source, for at most `requestTimeoutMs`.
 *
 * @throws whatever the source throws; `invalid_response` if it returns no usable token; `endpoint_unavailable` if it
 * does not settle in time, which aborts the signal too.
 */
export async function callSource(
  { source, expiry, time, requestTimeoutMs }: RegistrySettings,
  diagnostics: Diagnostics,
  flight: Flight,
  attempt: Attempt,
  abort: AbortController,
  hooks: SharingHooks,
): Promise<DatedToken> {
  const { accessKey, slot } = flight;
  const { message } = attempt;
  const take = async () => {
    abort.signal.throwIfAborted();
    await hooks.takePermit();
    attempt.sent = time.now();
  };
  const request: TokenRequest = {
    signal: abort.signal,
    reason: message.reason,
    ...(slot.held && { held: slot.held }),
    ...(slot.trouble?.lastRejected && { rejected: slot.trouble.lastRejected }),
    lifetimeMs: (issued) => lifetimeOf(expiry, dateIssued(issued, attempt.sent, time.now())).lifetimeMs,
    scopeOf: (error) => hooks.scopeOf(error),
    permit: { release: () => flight.releasePermit?.(), take },
  };
  // In an async function, so that a source that throws synchronously fails like one that rejects.
  const call = async () => source.requestToken(accessKey, request);
  const issued = await diagnostics.requestSent(message, () => settledInTime(time, requestTimeoutMs, abort, call()));
  return dateIssued(issued, attempt.sent, time.now());
}

function settledInTime<T>(time: Time, timeoutMs: number, abort: AbortController, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = time.startTimer(() => {
      const message = `the token source did not settle within ${timeoutMs} ms (requestTimeoutMs)`;
      reject(new OwnerTokenError('endpoint_unavailable', message));
      abort.abort(new DOMException(message, 'TimeoutError'));
    }, timeoutMs);
    // Once the registry has ended the request, a source that never settles must not keep the process alive.
    abort.signal.addEventListener('abort', () => wasEnded(abort.signal) && cancel(), { once: true });
    call.finally(cancel).then(resolve, reject);
  });
}

/** Whether the registry ended a request itself: it closed, or refused the request while its source waited for a permit. */
function wasEnded({ reason }: AbortSignal): boolean {
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
 * Whether a request failed because it was aborted. Unless the registry ended it, an error still counts if it says something
 * about the service or the client: anything but a value that the source threw on being aborted.
 */
export function wasAborted(signal: AbortSignal, { code, failureScope }: OwnerTokenError): boolean {
  return signal.aborted && (wasEnded(signal) || (code === 'source_failed' && failureScope === 'owner'));
}

/** The error of calls to a closed registry. */
export function closedError(owner: string | undefined, now: Instant): OwnerTokenError {
  return new OwnerTokenError('closed', 'the registry is closed', { owner, failedAtMs: now.wallMs });
}
