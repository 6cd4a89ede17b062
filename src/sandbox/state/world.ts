import type { Directory } from './directory.ts';
import type { Faults } from './faults.ts';
import type { Ledger } from './ledger.ts';
import type { Profile } from './profile.ts';
import type { Secrets } from './secrets.ts';
import type { IssuedToken, TokenState, Tokens } from './tokens.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** A scenario that runs. Times are epoch milliseconds of the sandbox's clock. */
export interface ScenarioRun {
  name: string;
  startedAtMs: number;
  /** When its faults end; absent: when it is stopped. */
  endsAtMs?: number;
  /** The owner it concerns, where it concerns one. */
  owner?: string;
}

/** What may have changed, for those who show it or store it. */
export type Topic = 'apps' | 'owners' | 'faults' | 'profile' | 'clock' | 'scenario' | 'all';

/** All that one sandbox is, apart from its sockets: both planes act on this, and nothing else is shared. */
export interface World {
  readonly clock: VirtualClock;
  readonly secrets: Secrets;
  readonly directory: Directory;
  readonly tokens: Tokens;
  readonly ledger: Ledger;
  readonly faults: Faults;
  profile: Profile;
  /** Token answers made so far. */
  answers: number;
  scenario: { readonly run: ScenarioRun; readonly cancel: () => void } | undefined;
  /** What {@link reset} goes back to. */
  readonly start: { readonly owners: number; readonly profile: Profile };
  /** Tells that something has changed, other than requests and tokens, which tell themselves. */
  changed(topic: Topic): void;
}

/** What a resource makes of a token now. While its owner, app or access key is disabled, it counts as revoked. */
export function tokenStateIn(world: World, token: IssuedToken | undefined): TokenState {
  const state = world.tokens.stateOf(token, world.clock.now());
  if (!token || state !== 'live') return state;
  const { ownerId, appId, enabled } = token.accessKey;
  const stands = enabled && world.directory.owners.get(ownerId)?.enabled && world.directory.apps.get(appId)?.enabled;
  return stands ? 'live' : 'revoked';
}
