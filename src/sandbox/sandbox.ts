import type { ControlContext } from './control/context.ts';
import { environmentOf } from './control/environment.ts';
import { finishScenario, startScenario } from './state/judge/scenario-run.ts';
import type { ScenarioName } from './state/judge/scenarios.ts';
import type { SandboxLedger } from './state/ledger/ledger-entry.ts';
import * as actions from './state/world/actions.ts';
import type { SandboxFaults } from './state/world/fault-rules.ts';
import { BadRequest } from './state/world/problems.ts';
import type { Profile, ProfileChanges } from './state/world/profile.ts';
import { checked } from './state/world/schema.ts';
import type { SandboxClock, VirtualClock } from './state/world/virtual-clock.ts';
import type { ScenarioRun, ScenarioVerdict, World } from './state/world/world.ts';

/**
 * An owner of a sandbox.
 *
 * @example
 * ```ts
 * const owner: SandboxOwner = sandbox.addOwner({ name: 'Plant 7' });
 * await registry.getToken(owner.accessKey);
 * ```
 */
export interface SandboxOwner {
  /** What the echo resource and the ledger call it. */
  readonly id: string;
  /** Its name in the portal. */
  readonly name: string;
  /** The newest access key: a secret. */
  readonly accessKey: string;
}

/**
 * Runs scenarios and judges the integration.
 *
 * @example
 * ```ts
 * const { scenarios, clock, accessKeys }: Sandbox = sandbox;
 * const run = scenarios.run('owner-revoked');
 * await Promise.allSettled(accessKeys.map((key) => registry.getToken(key))); // the integration's work
 * clock.advance(60_000);
 * console.log((await run).verdict); // → passed
 * ```
 */
export interface SandboxScenarios {
  /**
   * Runs a scenario to its end and judges what the integration did, from the ledger. Lasts 30 to 90 seconds on the
   * sandbox's clock: drive the integration meanwhile, and advance the clock or let it run. The verdict is `not tested`
   * where what the scenario `requires` did not come about, and when the run was interrupted (another scenario,
   * `stopScenario`, `reset`, `close`, its fault removed). Rejects with `signal.reason` when `signal` aborts, and ends
   * the scenario.
   *
   * @param options.owner the owner, by id, for scenarios that concern one. Default: the first.
   */
  run(name: ScenarioName, options?: { owner?: string; signal?: AbortSignal }): Promise<ScenarioVerdict>;
}

/**
 * A running emulator of the token service.
 *
 * @example
 * ```ts
 * const service: Sandbox = await startSandbox({ owners: 2 });
 * console.log(service.owners.length, service.url); // → 2 http://127.0.0.1:…
 * await service.close();
 * ```
 */
export interface Sandbox extends AsyncDisposable {
  /** Base URL of the token plane, without a trailing slash. */
  readonly url: string;
  /** Base URL of the control plane and portal. */
  readonly portalUrl: string;
  /** Required by the control plane when it is bound elsewhere than loopback: open `portalUrl/?token=…`. A secret. */
  readonly portalToken?: string;
  /** The client id of the integration. */
  readonly clientId: string;
  /** Its current client secret. */
  readonly clientSecret: string;
  /** The owners' access keys, in the order of {@link Sandbox.owners}. */
  readonly accessKeys: string[];
  /** The owners, each with its newest unrevoked access key, else its newest. */
  readonly owners: SandboxOwner[];
  /**
   * The settings of an integration as the text of an `.env` file: `OTR_BASE_URL`, `OTR_CLIENT_ID`, `OTR_CLIENT_SECRET`,
   * `OTR_ACCESS_KEY` (the first), `OTR_ACCESS_KEYS` (all, up to 100), `PORTAL_URL`, and `OTR_CLIENT_SECRET_FILE` and
   * `OTR_ACCESS_KEYS_FILE` where there is a `secretsFolder`. Holds secrets.
   */
  readonly env: string;
  /** The id of the owner of an access key, disabled and revoked ones included. */
  ownerOf(accessKey: string): string | undefined;
  /** What was requested, by whom, with what outcome. */
  readonly ledger: SandboxLedger;
  /** What goes wrong, for which requests, and when. */
  readonly faults: SandboxFaults;
  /** Give it to the registry, and both sides jump together. */
  readonly clock: SandboxClock;
  /** The settings for all undocumented behaviour, as a copy. */
  readonly profile: Profile;
  /** Changes some settings for requests from now on. Throws `invalid_options` for unknown names and invalid values. */
  setProfile(changes: ProfileChanges): void;
  /** Revokes a token. Unknown ones are ignored. */
  revokeToken(token: string): void;
  /** Revokes an access key permanently, and the tokens issued for it. */
  revokeAccessKey(accessKey: string): void;
  /** Gives the client a new secret and returns it. The old one ends after the overlap; by default at once. */
  rotateClientSecret(options?: { overlapMs?: number }): string;
  /** Situations that every integration meets, with a verdict. */
  readonly scenarios: SandboxScenarios;
  /** Starts a scenario, after ending the running one. `owner`: for those that concern one. */
  runScenario(name: ScenarioName, options?: { owner?: string }): ScenarioRun;
  /** Ends the running scenario and removes its fault; false if none runs. */
  stopScenario(): boolean;
  /** Creates owners until there are this many. Idempotent. */
  seed(owners: number): void;
  /** Adds an owner with an access key. */
  addOwner(owner?: { id?: string; name?: string }): SandboxOwner;
  /** Disables an owner, or enables it again: by id. */
  setOwnerEnabled(id: string, enabled: boolean): void;
  /** Restores the state from the start, with the clock running. Time and request ids continue. */
  reset(): void;
  /** Stops both planes at once and closes all connections. Idempotent. */
  close(): Promise<void>;
}

/** A sandbox whose planes are listening. */
export class RunningSandbox implements Sandbox {
  readonly url: string;
  readonly portalUrl: string;
  readonly portalToken?: string;
  readonly ledger: SandboxLedger;
  readonly faults: SandboxFaults;
  readonly clock: VirtualClock;
  readonly scenarios: SandboxScenarios;
  readonly #context: ControlContext;
  readonly #world: World;
  readonly #close: () => Promise<void>;
  #closed: Promise<void> | undefined;

  constructor(context: ControlContext, close: () => Promise<void>) {
    const { world, url } = context;
    const portal = context.portal();
    this.#context = context;
    this.#world = world;
    this.#close = close;
    this.url = url;
    this.portalUrl = portal.url;
    if (portal.token !== undefined) this.portalToken = portal.token;
    this.ledger = world.ledger;
    this.faults = world.faults;
    this.clock = world.clock;
    this.scenarios = { run: (name, options) => runToEnd(world, name, options) };
  }

  get clientId(): string {
    return this.#world.directory.client.clientId;
  }

  get clientSecret(): string {
    return this.#world.directory.client.secrets[0]?.value ?? '';
  }

  get accessKeys(): string[] {
    return this.owners.map((owner) => owner.accessKey);
  }

  get env(): string {
    return environmentOf(this.#context);
  }

  get owners(): SandboxOwner[] {
    const { directory } = this.#world;
    const keys = actions.currentKeys(this.#world);
    return [...keys].map(([id, { value }]) => ({ id, name: directory.owners.get(id)?.name ?? id, accessKey: value }));
  }

  ownerOf(accessKey: string): string | undefined {
    return this.#world.directory.findAccessKey(accessKey)?.ownerId;
  }

  get profile(): Profile {
    return structuredClone(this.#world.profile);
  }

  setProfile(changes: ProfileChanges): void {
    actions.changeProfile(this.#world, changes);
  }

  revokeToken(token: string): void {
    this.#world.tokens.revoke(token, this.clock.now());
  }

  revokeAccessKey(accessKey: string): void {
    const key = this.#world.directory.findAccessKey(accessKey);
    if (!key) throw new BadRequest('revokeAccessKey: not an access key of this sandbox');
    actions.revokeAccessKey(this.#world, key);
  }

  rotateClientSecret(options: { overlapMs?: number } = {}): string {
    const { overlapMs } = checked('rotateClientSecret', actions.ROTATION, options);
    return actions.rotateSecret(this.#world, overlapMs);
  }

  runScenario(name: ScenarioName, options: { owner?: string } = {}): ScenarioRun {
    return startScenario(this.#world, name, options).run;
  }

  stopScenario(): boolean {
    return finishScenario(this.#world, 'it was stopped');
  }

  seed(owners: number): void {
    actions.seedOwners(this.#world, checked('seed', actions.SEED, { owners }).owners);
  }

  addOwner(owner: { id?: string; name?: string } = {}): SandboxOwner {
    const { id } = actions.addOwner(this.#world, checked('addOwner', actions.NEW_OWNER, owner));
    const added = this.owners.find((candidate) => candidate.id === id);
    if (!added) throw new BadRequest('addOwner: the owner was removed');
    return added;
  }

  setOwnerEnabled(id: string, enabled: boolean): void {
    actions.changeOwner(this.#world, id, { enabled });
  }

  reset(): void {
    finishScenario(this.#world, 'the sandbox was reset');
    actions.reset(this.#world);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function runToEnd(
  world: World,
  name: ScenarioName,
  { owner, signal }: { owner?: string; signal?: AbortSignal } = {},
): Promise<ScenarioVerdict> {
  signal?.throwIfAborted();
  const running = startScenario(world, name, owner === undefined ? {} : { owner });
  const stop = () => {
    if (world.scenario === running) finishScenario(world, 'it was aborted');
  };
  signal?.addEventListener('abort', stop, { once: true });
  const verdict = await running.verdict;
  signal?.removeEventListener('abort', stop);
  signal?.throwIfAborted();
  return structuredClone(verdict);
}
