import { type AccessKey, type App, Directory } from './directory.ts';
import type { SandboxFaults } from './fault-rules.ts';
import { Faults } from './faults.ts';
import { Ledger, type SandboxLedger } from './ledger.ts';
import { changedProfile, type Profile, type ProfileChanges } from './profile.ts';
import { resolveOptions, type SandboxOptions } from './sandbox-options.ts';
import { Secrets } from './secrets.ts';
import { TokenPlane } from './token-plane.ts';
import { Tokens } from './tokens.ts';
import { VirtualClock } from './virtual-clock.ts';
import type { World } from './world.ts';

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
  /** Stops both planes at once, whoever is connected. Idempotent. */
  close(): Promise<void>;
}

/** Starts a sandbox. Unknown or bad options are refused, all of them at once. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const resolved = resolveOptions(options);
  const clock = new VirtualClock();
  const secrets = new Secrets(resolved.seed);
  const world: World = {
    clock,
    secrets,
    directory: new Directory(secrets),
    tokens: new Tokens(secrets),
    ledger: new Ledger(clock, resolved.ledgerSize),
    faults: new Faults(clock),
    profile: resolved.profile,
    answers: 0,
  };
  world.directory.seed(resolved.owners);
  const tokenPlane = new TokenPlane(world);
  world.faults.onChange = (rules) => {
    if (rules) tokenPlane.obeyFaults();
  };
  const port = await tokenPlane.listen(resolved.port, resolved.host);
  return new RunningSandbox(world, tokenPlane, urlOf(resolved.host, port));
}

class RunningSandbox implements Sandbox {
  readonly url: string;
  readonly portalUrl = '';
  readonly ledger: SandboxLedger;
  readonly faults: SandboxFaults;
  readonly clock: VirtualClock;
  readonly #world: World;
  readonly #tokenPlane: TokenPlane;
  #closed: Promise<void> | undefined;

  constructor(world: World, tokenPlane: TokenPlane, url: string) {
    this.#world = world;
    this.#tokenPlane = tokenPlane;
    this.url = url;
    this.ledger = world.ledger;
    this.faults = world.faults;
    this.clock = world.clock;
  }

  get clientId(): string {
    return this.#firstApp().clientId;
  }

  get clientSecret(): string {
    return this.#firstApp().secrets[0]?.value ?? '';
  }

  get accessKeys(): string[] {
    return this.owners.map((owner) => owner.accessKey);
  }

  get owners(): SandboxOwner[] {
    const { owners, accessKeys } = this.#world.directory;
    const appId = this.#firstApp().id;
    const current = new Map<string, AccessKey>();
    for (const key of accessKeys.values()) {
      if (key.appId !== appId || (key.revoked && current.has(key.ownerId))) continue;
      current.set(key.ownerId, key);
    }
    return [...current].map(([id, { value }]) => ({ id, name: owners.get(id)?.name ?? id, accessKey: value }));
  }

  ownerOf(accessKey: string): string | undefined {
    return this.#world.directory.findAccessKey(accessKey)?.ownerId;
  }

  get profile(): Profile {
    return structuredClone(this.#world.profile);
  }

  setProfile(changes: ProfileChanges): void {
    this.#world.profile = changedProfile(this.#world.profile, changes);
  }

  revokeToken(token: string): void {
    this.#world.tokens.revoke(token);
  }

  revokeAccessKey(accessKey: string): void {
    const found = this.#world.directory.findAccessKey(accessKey);
    if (!found) throw new Error('revokeAccessKey: not an access key of this sandbox');
    found.revoked = true;
    if (!this.#world.profile.revokedKeyEndsTokens) return;
    this.#world.tokens.revokeWhere((key) => key === found, this.clock.now());
  }

  rotateClientSecret({ overlapMs = 0 }: { overlapMs?: number } = {}): string {
    if (!(overlapMs >= 0)) throw new RangeError('rotateClientSecret: expected overlapMs of 0 or more');
    return this.#world.directory.rotateSecret(this.#firstApp(), this.clock.now(), overlapMs);
  }

  close(): Promise<void> {
    this.#closed ??= this.#tokenPlane.close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #firstApp(): App {
    const [app] = this.#world.directory.apps.values();
    if (!app) throw new Error('the sandbox has no app');
    return app;
  }
}

/** Where a server on this address is reached: a wildcard address is reached as loopback. */
function urlOf(host: string, port: number): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
