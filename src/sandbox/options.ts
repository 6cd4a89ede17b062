import { OptionCheck } from '../option-check.ts';
import { MAX_OWNERS } from './state/directory.ts';
import { checkFaultRule } from './state/fault-check.ts';
import type { FaultRule } from './state/fault-rules.ts';
import {
  changedProfile,
  checkProfile,
  DEFAULT_PROFILE,
  isLifetime,
  type Profile,
  type ProfileChanges,
} from './state/profile.ts';
import type { GivenOptions } from './state/state-file.ts';

/**
 * Options of {@link startSandbox}.
 *
 * @example
 * ```ts
 * const options: SandboxOptions = { owners: 50, lifetimeSeconds: 300, profile: { shape: 'minimal' }, seed: 1 };
 * await using service = await startSandbox(options);
 * ```
 */
export interface SandboxOptions {
  /** Port of the token plane. Default 0: any free one. */
  port?: number | undefined;
  /** Port of the control plane and portal. Default 0: any free one. */
  portalPort?: number | undefined;
  /** Address that both planes listen on. Default `127.0.0.1`. */
  host?: string | undefined;
  /**
   * Number of owners, each with an access key for the first app: 0 to 10,000. Default 5. Beside an existing state file:
   * creates the missing ones; fewer than the file holds is a `StateFileError`.
   */
  owners?: number | undefined;
  /** Lifetime of a token in seconds: from 0.001 to ten years. Default 3600. */
  lifetimeSeconds?: number | undefined;
  /** Settings for undocumented behaviour; see {@link Profile}. Its `lifetimeSeconds` overrides the option of that name. */
  profile?: ProfileChanges | undefined;
  /** Initial fault rules. */
  faults?: FaultRule[] | undefined;
  /**
   * A file that preserves owners, keys, secrets, profile and unexpired tokens across restarts. It holds secrets.
   * Throws `StateFileError` where it cannot be used. Default: none.
   */
  stateFile?: string | undefined;
  /**
   * A folder in which the files `client-secret` and `access-keys` (one a line) hold the first app's current ones: an
   * integration that reads them follows a rotation. Created if its parent exists. Default: none.
   */
  secretsFolder?: string | undefined;
  /** The same whole number yields the same credentials, access keys and tokens at every start. Default: random. */
  seed?: number | undefined;
  /** Requests that the ledger keeps in full: 1 to 1,000,000. Default 10,000. Its counts are exact beyond that. */
  ledgerSize?: number | undefined;
  /**
   * Whether the process may exit while the sandbox runs, so that a forgotten `close()` does not hang a test runner.
   * Default `true`. A process that only serves the sandbox sets `false`.
   */
  unref?: boolean | undefined;
}

const KNOWN = [
  'port',
  'portalPort',
  'host',
  'owners',
  'lifetimeSeconds',
  'profile',
  'faults',
  'stateFile',
  'secretsFolder',
  'seed',
  'ledgerSize',
  'unref',
] as const;

type Given<T> = { [K in keyof T]-?: NonNullable<T[K]> };

export type ResolvedOptions = Given<
  Omit<SandboxOptions, 'seed' | 'stateFile' | 'secretsFolder' | 'lifetimeSeconds' | 'profile'>
> & {
  seed: number | undefined;
  stateFile: string | undefined;
  secretsFolder: string | undefined;
  profile: Profile;
  /** The options that must hold beside an existing state file too. */
  given: GivenOptions;
};

/** Checks all options at once and fills in the defaults. */
export function resolveOptions(given: SandboxOptions): ResolvedOptions {
  const check = new OptionCheck<SandboxOptions>('startSandbox', given, KNOWN);
  check.integer('port', 0, 65_535);
  check.integer('portalPort', 0, 65_535);
  check.when('host', (value) => typeof value === 'string' && value !== '', 'an address or host name');
  check.integer('owners', 0, MAX_OWNERS);
  check.when('lifetimeSeconds', isLifetime, 'seconds, from 0.001 to ten years');
  const profile = check.nested<Profile>('profile', Object.keys(DEFAULT_PROFILE));
  if (profile) checkProfile(profile);
  check.when('faults', Array.isArray, 'a list of fault rules');
  check.when('stateFile', (value) => typeof value === 'string' && value !== '', 'a path');
  check.when('secretsFolder', (value) => typeof value === 'string' && value !== '', 'a path');
  check.integer('seed', 0, Number.MAX_SAFE_INTEGER);
  check.integer('ledgerSize', 1, 1_000_000);
  check.when('unref', (value) => typeof value === 'boolean', 'true or false');
  const options = check.done();
  for (const rule of options.faults ?? []) checkFaultRule(rule);
  const lifetime = options.lifetimeSeconds === undefined ? {} : { lifetimeSeconds: options.lifetimeSeconds };
  return {
    port: options.port ?? 0,
    portalPort: options.portalPort ?? 0,
    host: options.host ?? '127.0.0.1',
    owners: options.owners ?? 5,
    profile: changedProfile(DEFAULT_PROFILE, { ...lifetime, ...options.profile }),
    faults: options.faults ?? [],
    stateFile: options.stateFile,
    secretsFolder: options.secretsFolder,
    seed: options.seed,
    given: {
      owners: options.owners,
      seed: options.seed,
      profile: { ...lifetime, ...options.profile },
    },
    ledgerSize: options.ledgerSize ?? 10_000,
    unref: options.unref ?? true,
  };
}
