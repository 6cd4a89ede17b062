/**
 * One token request from its creation until its callers have its outcome, and its owner's concurrent callers, who share it
 * (single-flight).
 */

import type { Instant, Timer } from '../clock.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import { PATIENCE_MS } from '../failures/blame-state.ts';
import type { AccessToken } from '../token.ts';
import { type Lane, QueueEntry } from './queue.ts';
import type { Slot } from './slot.ts';
import type { SourceCall } from './source-call.ts';

/** The lane of a request that a caller waits for. */
export function laneOf({ held, history }: Slot): Lane {
  if (history.failure) return 'failing';
  return held || history.issuedAtMs !== undefined ? 'known' : 'new';
}

/** A caller that waits for a request. */
export interface Caller {
  /** Ends this caller's wait. */
  readonly signal: AbortSignal | undefined;
  /** Whether it needs a newer token than the one that is held. */
  readonly isDemanding: boolean;
}

/** A caller with a promise of its own: it may leave before the request ends, or get another result than the others. */
export interface Waiter extends Caller {
  readonly resolve: (token: AccessToken) => void;
  readonly reject: (reason: unknown) => void;
}

/** The callers of one request. Changed by {@link Waiters} alone. */
export class Callers {
  /** What callers without a signal wait for. */
  outcome!: Promise<AccessToken>;
  resolve!: (token: AccessToken) => void;
  reject!: (error: unknown) => void;
  /** How many wait for {@link Callers.outcome}. */
  together = 0;
  /** Those with a promise of their own. Created when first needed, because most share the outcome. */
  apart: Set<Waiter> | undefined = undefined;

  constructor() {
    this.renewOutcome();
  }

  /** How many wait. */
  get count(): number {
    return (this.apart?.size ?? 0) + this.together;
  }

  /** Whether one needs a newer token than the one that is held. */
  get hasDemanding(): boolean {
    return this.apart !== undefined && [...this.apart].some(({ isDemanding }) => isDemanding);
  }

  renewOutcome(): void {
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

export class Flight extends QueueEntry {
  readonly accessKey: string;
  readonly slot: Slot;
  readonly callers = new Callers();

  /** `requests.ts`: the call of the source, once it was sent. */
  call: SourceCall | undefined = undefined;
  /** `requests.ts`: the time limit of callers that can get a rejected token instead, while it is queued. */
  patience: Timer | undefined = undefined;

  /** `scheduler.ts`: ends its wait in the queue; with an error if it is refused. */
  endWait: ((refusal?: OwnerTokenError) => void) | undefined = undefined;
  /** `scheduler.ts`: the delay of a retry, then what is left of `maxQueueMs`. */
  retryTimer: Timer | undefined = undefined;
  /** `scheduler.ts`: set for a canary or another trial: what was known of the service when it was sent. */
  trialOf: object | undefined = undefined;

  constructor(slot: Slot, lane: Lane | undefined, nowMs: number) {
    super(lane ?? laneOf(slot), nowMs);
    this.accessKey = slot.accessKey;
    this.slot = slot;
  }

  /** Whether it waits in a lane, or for its retry. */
  get isQueued(): boolean {
    return this.place === this.lane || this.place === 'retrying';
  }

  /** Whether it has left the queue for good: its callers have the outcome, or have all left. */
  get hasEnded(): boolean {
    return this.place === undefined;
  }
}

/** Whether the request has been queued for as long as a call waits that can get a rejected token instead. */
export function isLate({ isQueued, queuedAtMs }: Flight, { monotonicMs }: Instant): boolean {
  return isQueued && monotonicMs - queuedAtMs >= PATIENCE_MS;
}
