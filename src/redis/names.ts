/**
 * The names of keys and channel, which anyone with access to Redis can read. An owner's is a keyed digest of the source's
 * identity (token URL, client, secret) and the access key. So no one can find an owner by guessing access keys, and a rotated
 * secret gets new records.
 */

import { createHmac } from 'node:crypto';

/** The format of names, records and sealed values. Replicas with different formats share nothing. */
export const FORMAT_VERSION = '4';

export class Names {
  /** The channel of all wake-ups and news. */
  readonly channel: string;
  /** The record that lists the replicas. */
  readonly replicas: string;
  readonly #prefix: string;
  readonly #key: Uint8Array;

  constructor(prefix: string, key: Uint8Array) {
    this.#prefix = `${prefix}:${FORMAT_VERSION}`;
    this.#key = key;
    this.channel = `${this.#prefix}:wake`;
    this.replicas = `${this.#prefix}:replicas`;
  }

  /** Tells naming keys apart. */
  get keyId(): string {
    return this.#digest('key id').slice(0, 12);
  }

  ofOwner(identity: string, accessKey: string): string {
    return `${this.#prefix}:${this.#digest('owner', identity, accessKey)}`;
  }

  /** A keyed digest: proves that a replica with the naming key has said this about an owner's record, or about itself. */
  proofOf(said: 'rejected' | 'recovered' | 'forgotten' | 'present', name: string, ...numbers: number[]): string {
    return this.#digest(said, name, ...numbers.map(String)).slice(0, 22);
  }

  /** Length-prefixed, so that no two lists give the same bytes; UTF-16, so that no two strings do. */
  #digest(...parts: string[]): string {
    const hmac = createHmac('sha256', this.#key);
    for (const part of parts) {
      const bytes = Buffer.from(part, 'utf16le');
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      hmac.update(length).update(bytes);
    }
    return hmac.digest('base64url');
  }
}

/** The default naming key. */
export function namingKeyFrom(sealingKey: Uint8Array): Uint8Array {
  return createHmac('sha256', sealingKey).update('owner-token-registry names 1').digest();
}
