import * as actions from './state/actions.ts';
import type { SandboxFaults } from './state/fault-rules.ts';
import type { SandboxLedger } from './state/ledger.ts';
import { BadRequest } from './state/problems.ts';
import type { Profile, ProfileChanges } from './state/profile.ts';
import { type ScenarioName, startScenario, stopScenario } from './state/scenarios.ts';
import type { VirtualClock } from './state/virtual-clock.ts';
import type { ScenarioRun, World } from './state/world.ts';

/** An owner as a test needs it. `id` is what the echo resource and the ledger call it; `accessKey` is a secret. */
export interface SandboxOwner {
  readonly id: string;
  readonly name: string;
  readonly accessKey: string;
}

/** A running emulator of the token service. */
export interface Sandbox extends AsyncDisposable {
  /** Base URL of the token plane, without a slash at its end. */
  readonly url: string;
  /** Base URL of the control plane and portal. */
  readonly portalUrl: string;
  /** What the control plane requires where others than this machine can reach it: open `portalUrl/?token=…`. A secret. */
  readonly portalToken?: string;
  /** Credentials of the first app. The secret is the current one. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** The first app's access keys, in the order of {@link Sandbox.owners}. */
  readonly accessKeys: string[];
  /** The owners that the first app has an access key for, with the newest one that is not revoked, if there is one. */
  readonly owners: SandboxOwner[];
  /** The id of the owner whose access key this is; also for one that is disabled or revoked. */
  ownerOf(accessKey: string): string | undefined;
  readonly ledger: SandboxLedger;
  readonly faults: SandboxFaults;
  /** Give it to the registry, and both sides jump together. */
  readonly clock: VirtualClock;
  /** The settings for everything that is not documented. A copy. */
  readonly profile: Profile;
  /** Changes some of these settings, for the requests to come. Unknown ones and bad values are refused. */
  setProfile(changes: ProfileChanges): void;
  /** Ends a token. Unknown ones are ignored. */
  revokeToken(token: string): void;
  /** Ends an access key for good, and the tokens that were given for it. */
  revokeAccessKey(accessKey: string): void;
  /** Gives the first app a new secret. The old one ends after the overlap; by default at once. */
  rotateClientSecret(options?: { overlapMs?: number }): string;
  /** Starts a scenario, after ending the one that runs; `owner` for those that are about one. */
  runScenario(name: ScenarioName, options?: { owner?: string }): ScenarioRun;
  /** Ends the scenario that runs, and removes its faults; false where there was none. */
  stopScenario(): boolean;
  /** Makes sure that so many owners exist. Done twice, changes nothing. */
  seed(owners: number): void;
  /** Adds an owner with an access key for the first app. */
  addOwner(owner?: { id?: string; name?: string }): SandboxOwner;
  /** Disables an owner, or enables it again: by id. */
  setOwnerEnabled(id: string, enabled: boolean): void;
  /** Back to how it was started, with the clock running. The time and the numbers of requests go on. */
  reset(): void;
  /** Stops both planes at once, whoever is connected. Idempotent. */
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
  readonly #world: World;
  readonly #close: () => Promise<void>;
  #closed: Promise<void> | undefined;

  constructor(world: World, at: { url: string; portalUrl: string; portalToken?: string }, close: () => Promise<void>) {
    this.#world = world;
    this.#close = close;
    this.url = at.url;
    this.portalUrl = at.portalUrl;
    if (at.portalToken !== undefined) this.portalToken = at.portalToken;
    this.ledger = world.ledger;
    this.faults = world.faults;
    this.clock = world.clock;
  }

  get clientId(): string {
    return actions.firstApp(this.#world).clientId;
  }

  get clientSecret(): string {
    return actions.firstApp(this.#world).secrets[0]?.value ?? '';
  }

  get accessKeys(): string[] {
    return this.owners.map((owner) => owner.accessKey);
  }

  get owners(): SandboxOwner[] {
    const { directory } = this.#world;
    const keys = actions.currentKeys(this.#world, actions.firstApp(this.#world).id);
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

  rotateClientSecret({ overlapMs = 0 }: { overlapMs?: number } = {}): string {
    return actions.rotateSecret(this.#world, actions.firstApp(this.#world), overlapMs);
  }

  runScenario(name: ScenarioName, options: { owner?: string } = {}): ScenarioRun {
    return startScenario(this.#world, name, options);
  }

  stopScenario(): boolean {
    return stopScenario(this.#world);
  }

  seed(owners: number): void {
    actions.seedOwners(this.#world, owners);
  }

  addOwner(owner: { id?: string; name?: string } = {}): SandboxOwner {
    const { id } = actions.addOwner(this.#world, owner);
    const added = this.owners.find((candidate) => candidate.id === id);
    if (!added) throw new BadRequest('addOwner: the owner has gone');
    return added;
  }

  setOwnerEnabled(id: string, enabled: boolean): void {
    actions.changeOwner(this.#world, id, { enabled });
  }

  reset(): void {
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
