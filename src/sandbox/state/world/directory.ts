import type { Secrets } from './secrets.ts';

/** The integration, identified by its client id and secret. */
export interface Client {
  readonly clientId: string;
  enabled: boolean;
  /** The current secret first, then older ones that are valid for a while. */
  secrets: ClientSecret[];
}

interface ClientSecret {
  readonly value: string;
  /** Epoch ms; undefined for the current one. */
  validUntilMs?: number;
}

/** An appliance owner. Its id is its public name; its access keys are secrets. */
export interface Owner {
  readonly id: string;
  name: string;
  enabled: boolean;
}

/** Authorizes the client to act for one owner: pairing and secret in one. */
export interface AccessKey {
  readonly id: string;
  readonly ownerId: string;
  readonly value: string;
  readonly fingerprint: string;
  enabled: boolean;
  /** Revoked permanently; the profile says how requests with it are answered. */
  revoked: boolean;
}

/** Bounds the memory that a client in a loop can fill. */
export const MAX_OWNERS = 10_000;

/** The client, the owners, and the access keys that pair them. */
export class Directory {
  client: Client;
  readonly owners = new Map<string, Owner>();
  readonly accessKeys = new Map<string, AccessKey>();
  readonly #byValue = new Map<string, AccessKey>();
  readonly #secrets: Secrets;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
    this.client = this.#newClient();
  }

  /** Creates owners with an access key until there are this many. Idempotent. */
  seed(owners: number): void {
    for (let n = 1; n <= owners; n++) {
      const id = `owner-${String(n).padStart(3, '0')}`;
      if (!this.owners.has(id)) this.addOwner({ id, name: `Appliance owner ${n}` });
      if (!this.accessKeys.has(`${id}-key`)) this.addAccessKey(id);
    }
  }

  /** The owners whose id or name contains a text, in the order they were added. */
  search(text: string): Owner[] {
    const wanted = text.trim().toLowerCase();
    const owners = [...this.owners.values()];
    if (wanted === '') return owners;
    return owners.filter(({ id, name }) => id.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted));
  }

  /** Removes owners and access keys, and gives the client the secret from the start. */
  clear(): void {
    this.client = this.#newClient();
    this.owners.clear();
    this.accessKeys.clear();
    this.#byValue.clear();
  }

  addOwner(given: { id?: string; name?: string } = {}): Owner {
    const id = given.id ?? this.#freeId('owner', this.owners);
    const owner = { id, name: given.name ?? id, enabled: true };
    this.owners.set(id, owner);
    return owner;
  }

  addAccessKey(ownerId: string): AccessKey {
    const first = `${ownerId}-key`;
    const id = this.accessKeys.has(first) ? this.#freeId(first, this.accessKeys) : first;
    const value = this.#secrets.named('sbx_key_', id);
    const fingerprint = this.#secrets.fingerprint(value);
    const key = { id, ownerId, value, fingerprint, enabled: true, revoked: false };
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

  /** Whether this is the client's current secret or a still valid older one. */
  acceptsSecret(secret: string, nowMs: number): boolean {
    return this.client.secrets.some(({ value, validUntilMs = Number.POSITIVE_INFINITY }) => {
      return value === secret && nowMs < validUntilMs;
    });
  }

  /** Gives the client a new secret. The old ones end after the overlap; without one, at once. */
  rotateSecret(nowMs: number, overlapMs: number): string {
    const endMs = nowMs + overlapMs;
    const { client } = this;
    for (const old of client.secrets) old.validUntilMs = Math.min(old.validUntilMs ?? endMs, endMs);
    const value = this.#secrets.random('sbx_secret_');
    client.secrets = [{ value }, ...client.secrets.filter((old) => (old.validUntilMs ?? nowMs) > nowMs)];
    return value;
  }

  #newClient(): Client {
    const clientId = this.#secrets.named('sbx-client-', 'client id', 9);
    return { clientId, enabled: true, secrets: [{ value: this.#secrets.named('sbx_secret_', 'client secret') }] };
  }

  #freeId(prefix: string, taken: ReadonlyMap<string, unknown>): string {
    let n = taken.size + 1;
    while (taken.has(`${prefix}-${n}`)) n++;
    return `${prefix}-${n}`;
  }
}
