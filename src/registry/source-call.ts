/** One call of the source on an owner's behalf: what it is told, and what of its answer can be used. */

import type { Instant } from '../clock.ts';
import type { Diagnostics, RequestMessage } from '../diagnostics.ts';
import type { TokenRequest } from '../token.ts';
import type { Flight } from './flight.ts';
import { type DatedToken, dateIssued, lifetimeOf } from './held-token.ts';
import type { RegistrySettings } from './options.ts';

/** A request makes one attempt, and a second one if the first brought a token on the owner's denylist. */
export interface Attempt {
  readonly sent: Instant;
  readonly message: RequestMessage;
}

/** Calls the source. @throws whatever the source throws, and `invalid_response` if it returns no usable token. */
export async function callSource(
  { source, expiry, time }: RegistrySettings,
  diagnostics: Diagnostics,
  { accessKey, slot }: Flight,
  { sent, message }: Attempt,
  signal: AbortSignal,
): Promise<DatedToken> {
  const request: TokenRequest = {
    signal,
    reason: message.reason,
    ...(slot.held && { held: slot.held.token }),
    ...(slot.lastRejected && { rejected: slot.lastRejected }),
    lifetimeMs: (issued) => lifetimeOf(expiry, dateIssued(issued, sent, time.now())).lifetimeMs,
  };
  // In an async function, so that a source that throws synchronously fails like one that rejects.
  const issued = await diagnostics.requestSent(message, async () => source.requestToken(accessKey, request));
  return dateIssued(issued, sent, time.now());
}
