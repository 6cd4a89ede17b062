import type { RunRecord } from '../judge/run-record.ts';
import type { Verdict } from '../judge/verdict.ts';
import type { Band, History } from '../ledger/history.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Directory } from './directory.ts';
import type { Faults } from './faults.ts';
import type { Profile } from './profile.ts';
import type { Secrets } from './secrets.ts';
import type { IssuedToken, TokenState, Tokens } from './tokens.ts';
import type { VirtualClock } from './virtual-clock.ts';

/**
 * A scenario that runs. Times are epoch milliseconds of the sandbox's clock.
 *
 * @example
 * ```ts
 * const run: ScenarioRun = sandbox.runScenario('outage');
 * console.log(run.verdictAtMs - run.startedAtMs); // → 90000
 * ```
 */
export interface ScenarioRun {
  /** Name of the scenario. */
  name: string;
  /** Epoch ms of the sandbox's clock. */
  startedAtMs: number;
  /** When its fault ends, if it lasts for a time. */
  endsAtMs?: number;
  /** When it ends with a verdict. */
  verdictAtMs: number;
  /** The owner it concerns, if it concerns one. */
  owner?: string;
}

/**
 * The verdict of a scenario's last run.
 *
 * @example
 * ```ts
 * const seconds = ({ startedAtMs, endedAtMs }: ScenarioVerdict) => (endedAtMs - startedAtMs) / 1000;
 * ```
 */
export interface ScenarioVerdict extends Verdict {
  /** Epoch ms of the sandbox's clock. */
  readonly startedAtMs: number;
  /** Epoch ms of the sandbox's clock. */
  readonly endedAtMs: number;
}

export interface RunningScenario {
  readonly run: ScenarioRun;
  readonly record: RunRecord;
  readonly band: Band;
  readonly timers: (() => void)[];
  readonly verdict: Promise<ScenarioVerdict>;
  readonly resolve: (verdict: ScenarioVerdict) => void;
  /** The id of its fault rule that is in force. */
  faultId: string | undefined;
  /** Restores what the scenario changed for its time alone. */
  readonly undo: () => void;
}

/** What may have changed, for the event stream and the files with secrets. */
export type Topic = 'client' | 'owners' | 'faults' | 'profile' | 'clock' | 'scenario' | 'all';

/** The whole state of one sandbox, apart from its sockets. Both planes act on it. */
export interface World {
  readonly clock: VirtualClock;
  readonly secrets: Secrets;
  readonly directory: Directory;
  readonly tokens: Tokens;
  readonly ledger: Ledger;
  readonly faults: Faults;
  readonly history: History;
  profile: Profile;
  /** Token answers sent so far. */
  answers: number;
  scenario: RunningScenario | undefined;
  /** Grows when owners, keys or scenarios have changed. */
  ownersVersion: number;
  /** By name of the scenario. */
  readonly verdicts: Map<string, ScenarioVerdict>;
  /** What a reset restores. */
  readonly start: { readonly owners: number; readonly profile: Profile };
  /** Reports a change other than of requests and tokens, which report their own. */
  changed(topic: Topic): void;
}

/** How a resource sees a token now. While its owner, its access key or the client is disabled, it counts as revoked. */
export function tokenStateIn(world: World, token: IssuedToken | undefined): TokenState {
  const state = world.tokens.stateOf(token, world.clock.now());
  if (!token || state !== 'live') return state;
  const { owners, client } = world.directory;
  const { ownerId, enabled } = token.accessKey;
  const allowed = enabled && owners.get(ownerId)?.enabled && client.enabled;
  return allowed ? 'live' : 'revoked';
}
