import type { Secrets } from './secrets.ts';

/** An integration app, identified by a client id and its secret. */
export interface App {
  readonly id: string;
  name: string;
  enabled: boolean;
  readonly clientId: string;
  /** The current secret first, then older ones that are valid for a while. */
  secrets: AppSecret[];
}

export interface AppSecret {
  readonly value: string;
  /** Epoch ms; undefined for the current one. */
  goodUntilMs?: number;
}

/** An appliance owner. Its id is its public name; its access keys are secrets. */
export interface Owner {
  readonly id: string;
  name: string;
  enabled: boolean;
}

/** Authorizes one app to act for one owner: pairing and secret in one. */
export interface AccessKey {
  readonly id: string;
  readonly ownerId: string;
  readonly appId: string;
  readonly value: string;
  readonly fingerprint: string;
  enabled: boolean;
  /** Revoked permanently; the profile says how requests with it are answered. */
  revoked: boolean;
}

/** Bounds the memory that a client in a loop can fill. */
export const MAX_OWNERS = 10_000;

/** Apps, owners, and the access keys that pair them. */
export class Directory {
  readonly apps = new Map<string, App>();
  readonly owners = new Map<string, Owner>();
  readonly accessKeys = new Map<string, AccessKey>();
  readonly #byValue = new Map<string, AccessKey>();
  readonly #secrets: Secrets;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  /** Creates the first app, and owners with a key for it until there are this many. Idempotent. */
  seed(owners: number): void {
    const app = this.apps.get('app-1') ?? this.addApp({ id: 'app-1', name: 'First integration app' });
    for (let n = 1; n <= owners; n++) {
      const id = `owner-${String(n).padStart(3, '0')}`;
      if (!this.owners.has(id)) this.addOwner({ id, name: `Appliance owner ${n}` });
      if (!this.accessKeys.has(`${id}-${app.id}`)) this.addAccessKey(id, app.id, { id: `${id}-${app.id}` });
    }
  }

  /** The owners whose id or name contains a text, in the order they were added. */
  search(text: string): Owner[] {
    const wanted = text.trim().toLowerCase();
    const owners = [...this.owners.values()];
    if (wanted === '') return owners;
    return owners.filter(({ id, name }) => id.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted));
  }

  clear(): void {
    this.apps.clear();
    this.owners.clear();
    this.accessKeys.clear();
    this.#byValue.clear();
  }

  addApp(given: { id?: string; name?: string } = {}): App {
    const id = given.id ?? this.#freeId('app', this.apps);
    const clientId = this.#secrets.named('sbx-client-', id, 9);
    const secrets = [{ value: this.#secrets.named('sbx_secret_', id) }];
    const app = { id, name: given.name ?? id, enabled: true, clientId, secrets };
    this.apps.set(id, app);
    return app;
  }

  addOwner(given: { id?: string; name?: string } = {}): Owner {
    const id = given.id ?? this.#freeId('owner', this.owners);
    const owner = { id, name: given.name ?? id, enabled: true };
    this.owners.set(id, owner);
    return owner;
  }

  addAccessKey(ownerId: string, appId: string, given: { id?: string } = {}): AccessKey {
    const id = given.id ?? this.#freeId(`${ownerId}-${appId}-key`, this.accessKeys);
    const value = this.#secrets.named('sbx_key_', id);
    const fingerprint = this.#secrets.fingerprint(value);
    const key = { id, ownerId, appId, value, fingerprint, enabled: true, revoked: false };
    this.accessKeys.set(id, key);
    this.#byValue.set(value, key);
    return key;
  }

  /** Removes an owner and its access keys. Revoke its tokens first. */
  removeOwner(id: string): void {
    this.owners.delete(id);
    for (const key of this.accessKeys.values()) {
      if (key.ownerId !== id) continue;
      this.accessKeys.delete(key.id);
      this.#byValue.delete(key.value);
    }
  }

  findAccessKey(value: string): AccessKey | undefined {
    return this.#byValue.get(value);
  }

  findApp(clientId: string): App | undefined {
    return [...this.apps.values()].find((app) => app.clientId === clientId);
  }

  /** Whether this is the app's current secret or a still valid older one. */
  secretIsGood(app: App, secret: string, nowMs: number): boolean {
    return app.secrets.some(({ value, goodUntilMs = Number.POSITIVE_INFINITY }) => {
      return value === secret && nowMs < goodUntilMs;
    });
  }

  /** Gives an app a new secret. The old ones end after the overlap; without one, at once. */
  rotateSecret(app: App, nowMs: number, overlapMs: number): string {
    const endMs = nowMs + overlapMs;
    for (const old of app.secrets) old.goodUntilMs = Math.min(old.goodUntilMs ?? endMs, endMs);
    const value = this.#secrets.random('sbx_secret_');
    app.secrets = [{ value }, ...app.secrets.filter((old) => (old.goodUntilMs ?? nowMs) > nowMs)];
    return value;
  }

  #freeId(prefix: string, taken: ReadonlyMap<string, unknown>): string {
    let n = taken.size + 1;
    while (taken.has(`${prefix}-${n}`)) n++;
    return `${prefix}-${n}`;
  }
}
