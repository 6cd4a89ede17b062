/** What the parts of the world and of the oracle share: the world as they see it, a caller's call, and a request. */

import type { AccessToken } from '../../src/index.ts';
import type { ManualClock } from '../helpers/manual-clock.ts';
import type { Random } from '../helpers/random.ts';
import type { Emissions } from './emissions.ts';
import type { Oracle } from './oracle.ts';
import type { ServiceModel } from './service.ts';

/** The part of the world that an oracle uses. */
export interface WorldView {
  readonly step: number;
  readonly clock: ManualClock;
  /** How much longer than usual a caller may wait in all, because the process stood still. */
  readonly excusedMs: number;
  readonly emissions: Emissions;
  /** Ends the world: an invariant is broken. */
  broken(what: string): void;
  /** Records an event for a replay. */
  trace(line: string): void;
  /** A caller received this token and may use it. */
  delivered(oracle: Oracle, owner: number, token: AccessToken): void;
}

/** What the parts of a world share. */
export interface WorldParts extends WorldView {
  readonly random: Random;
  readonly keys: readonly string[];
  readonly services: readonly ServiceModel[];
  /** Tokens that callers have and may use again, the newest first. */
  readonly inUse: { readonly oracle: Oracle; readonly owner: number; readonly token: AccessToken }[];
  /** Calls that must settle before the world is quiet. */
  readonly mustSettle: Call[];
  /** Whether nothing was left to run before this step. */
  readonly isQuiet: boolean;
}

/** The registry's options, as far as invariants depend on them. */
export interface WatchedOptions {
  readonly concurrency: number;
  readonly requestsPerSecond: number | undefined;
  readonly maxOwners: number;
  readonly maxQueued: number;
  readonly maxQueueMs: number;
  readonly timeoutMs: number;
  readonly longestPauseMs: number;
  /** The cap of an owner's pause, and of the time for which a rejected token is kept. */
  readonly ownerCapMs: number;
}

/** One call of `getToken`. */
export interface Call {
  readonly owner: number;
  readonly generation: number;
  readonly sinceMs: number;
  /** How much the world had excused by then. */
  readonly excusedMs: number;
  /** How long its owner had had a request in flight before. */
  readonly busyMs: number;
  /** When the registry's token for the owner ends, rejected or not, on the timeline: until then no failure is allowed. */
  readonly livesUntilMs: number;
  /** The token that `peek` returned at the time of the call: the only one that it may get. */
  readonly held: string | undefined;
  readonly controller: AbortController | undefined;
  readonly step: number;
  /** Aborted while nothing else was happening: it must reject with the signal's reason. */
  aborted: boolean;
  over: boolean;
  token: AccessToken | undefined;
}

/** What the oracle knows about a request when it is sent. */
export interface Mark {
  readonly owner: number;
  readonly sentMs: number;
  readonly sentTimelineMs: number;
  /** It may be a canary or another trial of the circuit. */
  readonly mayBeTrial: boolean;
}
