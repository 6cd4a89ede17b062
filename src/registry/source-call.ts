/** One call of the source on an owner's behalf: what it is told, and what of its answer can be used. */

import type { Instant } from '../clock.ts';
import type { Diagnostics, RequestMessage } from '../diagnostics.ts';
import type { FailureScope, OwnerTokenError } from '../errors.ts';
import type { TokenRequest } from '../token.ts';
import type { Flight } from './flight.ts';
import { type DatedToken, dateIssued, lifetimeOf } from './held-token.ts';
import type { RegistrySettings } from './options.ts';

/** A request makes one attempt, and a second one if the first brought a token on the owner's denylist. */
export interface Attempt {
  /** When the source was called, or got its permit back. */
  sent: Instant;
  readonly message: RequestMessage;
}

/** For a source that shares with other processes. */
export interface SharingSeam {
  scopeOf(error: OwnerTokenError): FailureScope;
  /** Waits for another permit. */
  takePermit(): Promise<void>;
}

/** Calls the source. @throws whatever the source throws, and `invalid_response` if it returns no usable token. */
export async function callSource(
  { source, expiry, time }: RegistrySettings,
  diagnostics: Diagnostics,
  flight: Flight,
  attempt: Attempt,
  signal: AbortSignal,
  seam: SharingSeam,
): Promise<DatedToken> {
  const { accessKey, slot } = flight;
  const { message } = attempt;
  const take = async () => {
    await seam.takePermit();
    attempt.sent = time.now();
  };
  const request: TokenRequest = {
    signal,
    reason: message.reason,
    ...(slot.held && { held: slot.held.token }),
    ...(slot.lastRejected && { rejected: slot.lastRejected }),
    lifetimeMs: (issued) => lifetimeOf(expiry, dateIssued(issued, attempt.sent, time.now())).lifetimeMs,
    scopeOf: (error) => seam.scopeOf(error),
    permit: { release: () => flight.releasePermit(), take },
  };
  // In an async function, so that a source that throws synchronously fails like one that rejects.
  const issued = await diagnostics.requestSent(message, async () => source.requestToken(accessKey, request));
  return dateIssued(issued, attempt.sent, time.now());
}
