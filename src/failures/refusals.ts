/** Turns what a source threw into the error that callers get, and a cached failure into the error of a refused call. */

import { type Instant, onWallClock } from '../clock.ts';
import { shownCode } from '../errors/oauth-error.ts';
import { type FailureScope, OwnerTokenError } from '../errors/owner-token-error.ts';
import { readForeignError } from './foreign-error.ts';
import type { Pause } from './pauses.ts';

/** Shorter keys are not redacted, because they occur in ordinary words. */
const MIN_REDACTED_LENGTH = 6;

/** A failure of a source as an `OwnerTokenError` of this owner, dated by the registry's clock. */
export function toOwnerTokenError(thrown: unknown, owner: string, accessKey: string, now: Instant): OwnerTokenError {
  const error = thrown instanceof OwnerTokenError ? thrown : readForeignError(thrown, now.wallMs);
  if (error) {
    const redacted = (text: string) =>
      accessKey.length < MIN_REDACTED_LENGTH ? text : text.replaceAll(accessKey, '[access key]');
    const message = redacted(error.message);
    const oauthError = shownCode(error.oauthError, { accessKey });
    const changes = { message, oauthError, owner, failedAtMs: now.wallMs, retryAtMs: undefined };
    return OwnerTokenError.restated(error, changes);
  }
  return new OwnerTokenError('source_failed', 'the token source, or a function given to it, threw', {
    cause: thrown,
    owner,
    failedAtMs: now.wallMs,
  });
}

/** The error that callers get: the failure with its scope and `retryAtMs`. */
export function withOutcome(
  error: OwnerTokenError,
  failureScope: FailureScope,
  pause: Pick<Pause, 'retryAtMonotonicMs'> | undefined,
  now: Instant,
): OwnerTokenError {
  return OwnerTokenError.restated(error, { failureScope, retryAtMs: pause && retryAtMsOf(pause, now) });
}

/** The error of a call that a pause refuses: the cached failure, its age, and when to retry. */
export function refusal(pause: Pause, owner: string, now: Instant): OwnerTokenError {
  const { error } = pause;
  const retryAtMs = retryAtMsOf(pause, now);
  const ageMs = now.wallMs - error.failedAtMs;
  const age = ageMs < 1_000 ? 'just now' : `${formatSeconds(ageMs)} ago`;
  const wait = formatSeconds(retryAtMs - now.wallMs);
  const message = `token requests are paused; next attempt in ${wait} (last failure ${age}): ${error.message}`;
  return OwnerTokenError.restated(error, { message, owner, retryAtMs });
}

/** `retryAtMs` is at least this far ahead, so that callers that wait for it never spin. */
export const MIN_WAIT_MS = 100;

function retryAtMsOf({ retryAtMonotonicMs }: Pick<Pause, 'retryAtMonotonicMs'>, now: Instant): number {
  return onWallClock(Math.max(retryAtMonotonicMs, now.monotonicMs + MIN_WAIT_MS), now);
}

const formatSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
