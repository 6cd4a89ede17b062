/** One call of the source: its arguments, its time limit, and what a failure says. `held-token.ts` reads the answer. */

import type { Cancellation } from '../../cancellation.ts';
import { elapsedMs, type Instant, stoodStill } from '../../clock.ts';
import { provesNothing, STOOD_STILL } from '../../errors/inconclusive.ts';
import { OwnerTokenError } from '../../errors/owner-token-error.ts';
import { toOwnerTokenError } from '../../failures/refusals.ts';
import type { Diagnostics, ReportedRequest } from '../../reporting/diagnostics.ts';
import type { AccessToken } from '../../token.ts';
import type { IssuedToken, TokenRequest } from '../../token-source.ts';
import type { RegistrySettings } from '../options.ts';
import { dateIssued, lifeIn } from '../owners/held-token.ts';
import type { Slot } from '../owners/slot.ts';

/** One call of the source. */
export interface SourceCall {
  readonly slot: Slot;
  readonly abort: Cancellation;
  /** Stops its time limit, once the source has settled. */
  stopLimit: (() => void) | undefined;
  readonly message: ReportedRequest;
  /** When the source was called. */
  readonly sent: Instant;
  /** Whether a new connection may help: the requests before this one failed, or it is a trial. */
  readonly freshConnection: boolean;
  /** The rejected token to replace: the cached one, or another owner's that the last answer brought. */
  readonly rejected: AccessToken | undefined;
  /** @throws OwnerTokenError if the token is another owner's; see `recent-tokens.ts`. */
  check(token: string): void;
  yieldPlace(): void;
}

/**
 * Calls the source, for at most `requestTimeoutMs`. If the source does not settle in time, the call is aborted and fails with
 * `endpoint_unavailable`.
 *
 * @returns the answer, wrapped in an object, because a thenable answer would be awaited.
 */
export function callSource(
  settings: RegistrySettings,
  diagnostics: Diagnostics,
  call: SourceCall,
): Promise<{ readonly issued: IssuedToken }> {
  const { source, time, requestTimeoutMs } = settings;
  const { slot, abort, message, sent, freshConnection, rejected, yieldPlace } = call;
  const request: TokenRequest = abort.addTo({
    reason: message.reason,
    lifetimeMs(issued: IssuedToken) {
      call.check(issued.token);
      const now = time.now();
      return lifeIn(settings, slot, dateIssued(issued, sent, now), now).lifetimeMs;
    },
    timeoutMs: requestTimeoutMs,
    yieldPlace,
    // Last, because V8 keeps what follows a spread outside the object.
    ...(slot.held && { held: slot.held }),
    ...(rejected && { rejected }),
    ...(freshConnection && { freshConnection }),
  });
  // A source that throws synchronously fails like one that rejects.
  const send = () => {
    try {
      return Promise.resolve(source.requestToken(slot.accessKey, request));
    } catch (error) {
      return Promise.reject(error);
    }
  };
  return new Promise((resolve, reject) => {
    const giveUp = (hasStoodStill: boolean) => {
      const problem = `the token source did not settle within ${requestTimeoutMs} ms (requestTimeoutMs)`;
      abort.abort(new DOMException(problem, 'TimeoutError'));
      const cause = hasStoodStill ? { code: STOOD_STILL } : undefined;
      reject(new OwnerTokenError('endpoint_unavailable', problem, { cause }));
    };
    // Before the call, in which the registry may be closed.
    call.stopLimit = time.startLimit(giveUp, requestTimeoutMs);
    diagnostics.requestSent(message, send).then((issued) => resolve({ issued }), reject);
  });
}

/** The thrown value as an error of this owner. Never throws, even if accessors of the value do. */
export function readFailure(thrown: unknown, slot: Slot, now: Instant): OwnerTokenError {
  try {
    return toOwnerTokenError(thrown, slot.owner, slot.accessKey, now);
  } catch {
    const message = 'the token source threw a value that cannot be read';
    return new OwnerTokenError('source_failed', message, { owner: slot.owner, failedAtMs: now.wallMs });
  }
}

/**
 * Whether a request failed because it was aborted. After `close`, whose reason is an `OwnerTokenError`, any failure counts as
 * that. After another abort, only `source_failed` and the `closed` of a `TokenEndpoint` do: other errors say something about
 * the service or the client.
 */
export function wasAborted({ aborted, reason }: Cancellation, { code }: OwnerTokenError): boolean {
  return aborted && (reason instanceof OwnerTokenError || code === 'source_failed' || code === 'closed');
}

/**
 * Whether a failure proves nothing about the owner or the service: this process stood still; or the answer's token is another
 * owner's, or had already expired when it arrived. Then the request is repeated once.
 */
export function isInconclusive(call: SourceCall, error: OwnerTokenError, now: Instant, limitMs: number): boolean {
  if (wasAborted(call.abort, error)) return false;
  return provesNothing(error) || stoodStill(elapsedMs(call.sent, now), limitMs);
}

/** The error of calls to a closed registry. */
export function closedError(owner: string | undefined, now: Instant): OwnerTokenError {
  return new OwnerTokenError('closed', 'the registry is closed', { owner, failedAtMs: now.wallMs });
}
