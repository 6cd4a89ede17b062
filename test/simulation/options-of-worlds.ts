/** The registries of simulated worlds: random options that reach every bound now and then, and hooks that misbehave. */

import {
  type ExpiryPolicy,
  expiresIn,
  firstKnown,
  fixedLifetime,
  jwtExp,
  learnedLifetime,
  type OwnerTokenRegistryOptions,
  type TokenSource,
  untilRejected,
} from '../../src/index.ts';
import type { ManualClock } from '../helpers/manual-clock.ts';
import type { Random } from '../helpers/random.ts';
import { MARK } from './emissions.ts';
import type { WatchedOptions } from './observed.ts';
import type { Oracle } from './oracle.ts';
import type { Profile } from './service.ts';

/** What a hook does besides its work, such as calling back into the registry. */
export type Mischief = (oracle: Oracle) => void;

export interface Drawn {
  readonly watched: WatchedOptions;
  readonly options: Omit<OwnerTokenRegistryOptions, 'source' | 'clock' | 'expiry' | 'logger' | 'random'>;
  readonly hooks: 'none' | 'throwing' | 'calling-back' | 'listening';
  readonly policy: ExpiryPolicy;
}

export function drawProfile(random: Random): Profile {
  return {
    revokesPrevious: random.chance(0.3),
    validAfterMs: random.chance(0.2) ? 2_000 : 0,
    repeats: random.chance(0.2),
    datesGrants: random.chance(0.4),
    jwt: random.chance(0.2),
    clockAheadMs: random.pick([undefined, undefined, 0, -600_000, 86_400_000]),
    lifeMs: random.pick([1_000, 5_000, 60_000, 600_000, 3_600_000, 3_600_000, 40 * 86_400_000]),
    stated: random.pick(['seconds', 'seconds', 'left', 'text', 'absent', 'odd'] as const),
    timeoutMs: random.pick([1_000, 10_000, 10_000]),
    latencyMs: random.pick([2, 50, 500, 3_000]),
  };
}

export function drawOptions(random: Random, owners: number, profile: Profile): Drawn {
  const range = () => {
    const baseMs = random.pick([1, 100, 500, 1_000]);
    return { baseMs, capMs: baseMs * random.pick([1, 8, 60, 300]) };
  };
  const pauses = random.chance(0.5) ? undefined : { owner: range(), client: range(), endpoint: range() };
  const maxOwners = random.pick([1, 2, Math.ceil(owners / 2), owners, owners, 100]);
  const concurrency = random.pick([1, 2, 3, 4, 8, 16, undefined]);
  const requestsPerSecond = random.chance(0.1) ? random.pick([0.5, 2, 20, 200]) : undefined;
  const maxQueued = random.pick([1, 2, 4, 10_000, 10_000]);
  const maxQueueMs = random.pick([50, 1_000, 30_000]);
  const hooks = random.pick(['none', 'none', 'none', 'throwing', 'calling-back', 'listening'] as const);
  const label = random.pick(['none', 'none', 'plain', 'leaking', 'throwing']);
  const longestPauseMs = Math.max(300_000, ...Object.values(pauses ?? {}).map(({ capMs }) => capMs));
  return {
    watched: {
      maxOwners,
      maxQueued,
      maxQueueMs,
      timeoutMs: profile.timeoutMs,
      longestPauseMs,
      ownerCapMs: pauses?.owner.capMs ?? 300_000,
      requestsPerSecond,
      concurrency: concurrency ?? 100,
    },
    options: {
      maxOwners,
      concurrency,
      requestsPerSecond,
      maxQueued,
      maxQueueMs,
      ...(pauses && { pauses }),
      ...(random.chance(0.3) && {
        refreshWindow: random.pick<[number, number]>([
          [0.1, 1],
          [0.5, 0.5],
          [1, 1],
          [0.01, 0.02],
        ]),
      }),
      ...(label !== 'none' && { ownerLabel: labelOf(label) }),
    },
    hooks,
    policy: drawPolicy(random),
  };
}

function labelOf(kind: string): (accessKey: string) => string {
  if (kind === 'leaking') return (accessKey) => `owner of ${accessKey}`;
  if (kind === 'plain') return (accessKey) => `owner ${accessKey.slice(accessKey.lastIndexOf('-') + 1)}`;
  return (accessKey) => {
    throw new Error(accessKey);
  };
}

function drawPolicy(random: Random): ExpiryPolicy {
  switch (random.below(9)) {
    case 0:
      return fixedLifetime(random.pick([100, 1_000, 60_000, 3_600_000]));
    case 1:
      return untilRejected();
    case 2:
      return learnedLifetime();
    case 3: {
      const stated = [0, -1, Number.NaN, 1e20, undefined, 5_000, Number.POSITIVE_INFINITY, '7' as unknown as number];
      return { lifetimeMs: () => random.pick(stated) };
    }
    case 4:
      return expiresIn();
    default:
      return firstKnown(expiresIn(), jwtExp());
  }
}

/** The registry's options, with its hooks watched and, as drawn, made to misbehave. */
export function optionsFor(
  drawn: Drawn,
  parts: { source: TokenSource; clock: ManualClock; random: Random; oracle: () => Oracle; mischief: Mischief },
): OwnerTokenRegistryOptions {
  const { source, clock, random, oracle, mischief } = parts;
  const { hooks, policy } = drawn;
  const misbehave = () => {
    if (hooks === 'throwing' && random.chance(0.05)) throw new Error(`a hook broke at ${MARK}`);
    if (hooks === 'calling-back' && random.chance(0.05)) mischief(oracle());
  };
  const log = (fields: object, message: string) => {
    const { emissions } = oracle().world;
    emissions.fields('a log line', fields);
    emissions.text('a log line', message);
    misbehave();
  };
  return {
    ...drawn.options,
    source,
    clock,
    random: () => random.next(),
    ...(hooks !== 'none' && { logger: { debug: log, info: log, warn: log } }),
    expiry: {
      lifetimeMs: (issued) => {
        misbehave();
        const stated = policy.lifetimeMs(issued);
        oracle().stated(issued.token, stated);
        return stated;
      },
      accepted: (age) => {
        oracle().world.emissions.fields('evidence', age);
        misbehave();
        policy.accepted?.(age);
      },
      rejected: (age) => {
        oracle().world.emissions.fields('evidence', age);
        misbehave();
        policy.rejected?.(age);
      },
    },
  };
}
