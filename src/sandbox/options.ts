import * as v from 'valibot';
import { MAX_OWNERS } from './state/world/directory.ts';
import { FAULT_RULE, type FaultRule } from './state/world/fault-rules.ts';
import {
  changedProfile,
  DEFAULT_PROFILE,
  LIFETIME,
  PROFILE_CHANGES,
  type ProfileChanges,
} from './state/world/profile.ts';
import { boolean, checked, integer, maybe, object, text } from './state/world/schema.ts';

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
  /** Number of owners, each with an access key: 0 to 10,000. Default 5. */
  owners?: number | undefined;
  /** Lifetime of a token in seconds: from 0.001 to ten years. Default 3600. */
  lifetimeSeconds?: number | undefined;
  /** Settings for undocumented behaviour; see {@link Profile}. Its `lifetimeSeconds` overrides the option of that name. */
  profile?: ProfileChanges | undefined;
  /** Initial fault rules. */
  faults?: FaultRule[] | undefined;
  /**
   * A folder in which the files `client-secret` and `access-keys` (one a line) hold the current ones: an
   * integration that reads them follows a rotation. Created if its parent exists. Default: none.
   */
  secretsFolder?: string | undefined;
  /**
   * The same whole number yields the same client id, client secret and access keys at every start. Tokens never repeat.
   * Added owners, a rotated secret and other changes are lost at a restart. Default: random.
   */
  seed?: number | undefined;
  /** Requests that the ledger keeps in full: 1 to 1,000,000. Default 10,000. Its counts are exact beyond that. */
  ledgerSize?: number | undefined;
  /**
   * Whether the process may exit while the sandbox runs, so that a forgotten `close()` does not hang a test runner.
   * Default `true`. A process that only serves the sandbox sets `false`.
   */
  unref?: boolean | undefined;
}

const PORT = maybe(integer(0, 65_535));

const OPTIONS = object({
  port: PORT,
  portalPort: PORT,
  host: maybe(text(/./, 'an address or host name')),
  owners: maybe(integer(0, MAX_OWNERS)),
  lifetimeSeconds: maybe(LIFETIME),
  profile: maybe(PROFILE_CHANGES),
  faults: maybe(v.array(FAULT_RULE, 'expected a list of fault rules')),
  secretsFolder: maybe(text(/./, 'a path')),
  seed: maybe(integer(0, Number.MAX_SAFE_INTEGER)),
  ledgerSize: maybe(integer(1, 1_000_000)),
  unref: maybe(boolean),
});

const DEFAULTS = { port: 0, portalPort: 0, host: '127.0.0.1', owners: 5, ledgerSize: 10_000, unref: true };

export type ResolvedOptions = ReturnType<typeof resolveOptions>;

/** Checks all options at once and fills in the defaults. */
export function resolveOptions(options: SandboxOptions) {
  const { faults = [], lifetimeSeconds, profile, ...others } = checked('startSandbox', OPTIONS, options);
  const changes: ProfileChanges = { ...(lifetimeSeconds !== undefined && { lifetimeSeconds }), ...profile };
  return { ...DEFAULTS, ...others, faults, profile: changedProfile(DEFAULT_PROFILE, changes) };
}
