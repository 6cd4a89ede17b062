/**
 * What rejections by the API say about an owner's token. A 401 does not say whether the token, the route or the API itself is
 * at fault; only a newer token shows it. So a rejected token is replaced. If its replacement is rejected as well, before any
 * call with it was accepted, then another one would hardly help: the replacement is kept and served, for longer with each one
 * in a row. Nothing here does I/O, reads a clock or logs.
 *
 * | state | calls get | a rejection | an accepted call | a newer token arrives |
 * |---|---|---|---|---|
 * | (none) | the token | replacing | (none) | (none) |
 * | replacing | a newer token, or this one if none can be had | no change | kept, until now | unproven |
 * | unproven | the token | kept, or replacing if it comes late | (none) | (none) |
 * | kept | the token | no change, then replacing after its time | the streak ends | unproven |
 *
 * A newer token whose request was sent before the first rejection proves nothing: its state is (none).
 */

import type { Instant } from '../clock.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import type { AccessToken } from '../token.ts';
import { doubled, type Pause } from './pauses.ts';

/** All times are on the monotonic clock. */
export type RejectionState = Replacing | Kept | Unproven;

/** Tokens rejected in a row, each soon after it arrived. A pause between replacements, which refuses no call. */
type Streak = { readonly streak: Pause | undefined };

/** The token was rejected: calls wait for a newer one. */
interface Replacing extends Streak {
  readonly kind: 'replacing';
  readonly firstRejectedAtMs: number;
  /** How old the token was when it was rejected; undefined if an operator wants it replaced. */
  readonly ageMs: number | undefined;
}

/** The token was rejected, but is served. */
interface Kept extends Streak {
  readonly kind: 'kept';
  readonly firstRejectedAtMs: number;
  readonly untilMs: number;
}

/** The token replaced a rejected one, and no call with it has been accepted or rejected yet. */
interface Unproven extends Streak {
  readonly kind: 'unproven';
  readonly arrivedAtMs: number;
  /** What it replaced. If a call with the new token is accepted, the fault was that token's. */
  readonly replaced: RejectedToken | undefined;
}

/** A token, and its age when it was rejected. */
export interface RejectedToken {
  readonly token: AccessToken;
  readonly ageMs: number;
}

/** How long the first token in a row is kept, counted from its arrival. Twice as long for each further one. */
const FIRST_KEPT_MS = 10_000;
/** A token that is first rejected later than this has worked. Without reports of success a second has to suffice. */
const REJECTED_SOON_MS = { withAccept: FIRST_KEPT_MS, withoutAccept: 1_000 } as const;

/** What a rejection depends on, apart from the state. */
export interface Rejection {
  readonly now: Instant;
  readonly ageMs: number;
  /** Another process has rejected the token and requests a newer one, which it will share, so asking costs nothing. */
  readonly elsewhere?: boolean | undefined;
  /** Whether the callers report accepted calls. */
  readonly hasAccepts: boolean;
  /** The longest that a token is kept. */
  readonly capMs: number;
  /** Its `owner` is read only if the token is kept, because it may have to be computed. */
  readonly slot: { readonly owner: string };
}

/** The held token was rejected. Returns the given state if nothing changes. */
export function afterRejection(state: RejectionState | undefined, rejection: Rejection): RejectionState {
  const { now, ageMs, elsewhere } = rejection;
  const nowMs = now.monotonicMs;
  if (elsewhere && state && state.kind !== 'replacing') {
    return { kind: 'replacing', streak: state.streak, firstRejectedAtMs: nowMs, ageMs };
  }
  switch (state?.kind) {
    case undefined:
      return { kind: 'replacing', streak: undefined, firstRejectedAtMs: nowMs, ageMs };
    case 'replacing':
      return state;
    case 'kept':
      return nowMs < state.untilMs ? state : { ...state, kind: 'replacing', ageMs };
    case 'unproven': {
      const streak = extendedStreak(state, rejection);
      if (!streak) return { kind: 'replacing', streak: undefined, firstRejectedAtMs: nowMs, ageMs };
      return { kind: 'kept', streak, firstRejectedAtMs: nowMs, untilMs: streak.retryAtMonotonicMs };
    }
  }
}

/** The streak with one more token; undefined if the token lasted too long to belong to it. */
function extendedStreak(
  { streak, arrivedAtMs }: Unproven,
  { now, hasAccepts, capMs, slot }: Rejection,
): Pause | undefined {
  const heldForMs = now.monotonicMs - arrivedAtMs;
  const count = (streak?.count ?? 0) + 1;
  const keptForMs = doubled(count, FIRST_KEPT_MS, capMs);
  const soonMs = hasAccepts ? REJECTED_SOON_MS.withAccept : REJECTED_SOON_MS.withoutAccept;
  if (heldForMs >= Math.min(soonMs, keptForMs)) return undefined;
  const message = `the API also rejected the token that replaced a rejected one (${count} in a row); it is served until the next replacement`;
  const error = new OwnerTokenError('token_rejected', message, { owner: slot.owner, failedAtMs: now.wallMs });
  return { error, count, retryAtMonotonicMs: arrivedAtMs + keptForMs };
}

/** A call with the held token was accepted. */
export function afterAcceptance(state: RejectionState, nowMs: number): RejectionState | undefined {
  switch (state.kind) {
    case 'unproven':
      return undefined;
    case 'replacing':
      return { ...state, kind: 'kept', streak: undefined, untilMs: nowMs };
    case 'kept':
      // Not forgotten: with one route that always answers 401, each third call would request a token.
      return state.streak ? { ...state, streak: undefined } : state;
  }
}

/**
 * A token has arrived.
 *
 * @param state of the token before it.
 * @param replaced the token before it, if it has not ended.
 * @param sentAtMs when its request was sent.
 */
export function afterArrival(
  state: RejectionState,
  replaced: AccessToken | undefined,
  sentAtMs: number,
  nowMs: number,
): RejectionState | undefined {
  if (state.kind === 'unproven' || sentAtMs < state.firstRejectedAtMs) return undefined;
  // Within a streak the API is in doubt, not the token.
  const ageMs = state.kind === 'replacing' && !state.streak ? state.ageMs : undefined;
  return {
    kind: 'unproven',
    streak: state.streak,
    arrivedAtMs: nowMs,
    replaced: replaced && ageMs !== undefined ? { token: replaced, ageMs } : undefined,
  };
}

/** An operator wants the next call to request a token, whatever was rejected before. */
export function afterResume(state: RejectionState): RejectionState {
  if (state.kind === 'kept') return { ...state, kind: 'replacing', streak: undefined, ageMs: undefined };
  return state.streak ? { ...state, streak: undefined } : state;
}
