/** From whatever a source threw to the error that callers get, and from a remembered failure to a refusal. */

import type { Instant } from './clock.ts';
import { type FailureScope, OwnerTokenError } from './errors.ts';
import { drawPause, type Pause, type PauseRange } from './gate.ts';
import { MAX_QUICK_REJECTIONS, type Slot } from './slot.ts';

/** Below this length a key is too common a string to be looked for in a message. */
const LEAST_REDACTED_LENGTH = 6;

/** A failure of a source as an `OwnerTokenError` of this owner, dated by the registry's clock. */
export function failureOf(thrown: unknown, owner: string, accessKey: string, now: Instant): OwnerTokenError {
  if (thrown instanceof OwnerTokenError) {
    const message =
      accessKey.length < LEAST_REDACTED_LENGTH ? thrown.message : thrown.message.replaceAll(accessKey, '[access key]');
    return OwnerTokenError.restated(thrown, { message, owner, failedAtMs: now.wallMs, retryAtMs: undefined });
  }
  return new OwnerTokenError('source_failed', 'the token source, or a function given to it, threw', {
    cause: thrown,
    owner,
    failedAtMs: now.wallMs,
  });
}

/** The failure as its callers get it: with what it stops, and until when. */
export function withVerdict(
  error: OwnerTokenError,
  verdict: {
    readonly scope: FailureScope;
    readonly ownerPause: { readonly retryAtMonotonicMs: number } | undefined;
    readonly gatePause: { readonly retryAtMonotonicMs: number } | undefined;
  },
  now: Instant,
): OwnerTokenError {
  const pause = verdict.ownerPause ?? verdict.gatePause;
  return OwnerTokenError.restated(error, {
    failureScope: verdict.scope,
    retryAtMs: pause && onWallClock(pause.retryAtMonotonicMs, now),
  });
}

/** The pause of an owner whose last few tokens were all refused while they were fresh: new ones will not help. */
export function pauseOfRejections(
  slot: Slot,
  range: PauseRange,
  now: Instant,
  random: () => number,
): Pause | undefined {
  const count = slot.quickRejections - MAX_QUICK_REJECTIONS + 1;
  if (count < 1) return undefined;
  const message = `the last ${slot.quickRejections} tokens of this owner were refused while they were fresh`;
  const error = new OwnerTokenError('token_rejected', message, { owner: slot.owner, failedAtMs: now.wallMs });
  return drawPause(error, count, range, now.monotonicMs, random);
}

/** A monotonic moment to come as the wall clock will show it, unless it is set; now, if it has come. */
export function onWallClock(monotonicMs: number, now: Instant): number {
  return now.wallMs + Math.ceil(Math.max(0, monotonicMs - now.monotonicMs));
}

/** What a call gets that a pause refuses: the remembered failure, how old it is, and when to come again. */
export function refusal(
  pause: { readonly error: OwnerTokenError; readonly retryAtMonotonicMs: number },
  owner: string,
  now: Instant,
): OwnerTokenError {
  const { error } = pause;
  const waitMs = Math.max(0, pause.retryAtMonotonicMs - now.monotonicMs);
  const ageMs = Math.max(0, now.wallMs - error.failedAtMs);
  const when = waitMs > 0 ? `in ${seconds(waitMs)}` : 'once the attempt under way is answered';
  const message = `no token was requested: the next attempt may be made ${when}; ${seconds(ageMs)} ago: ${error.message}`;
  return OwnerTokenError.restated(error, { message, owner, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) });
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
