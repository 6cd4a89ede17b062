/**
 * What others on the same Redis can read of this fleet: sealed values, and the names of keys and channel.
 *
 * Values are sealed with AES-256-GCM, bound to what they are (a token, a failure), to the record's name and to its generation.
 * A value that was moved to another record, truncated, corrupted, or sealed with a key that this replica does not have cannot be
 * decrypted.
 *
 *     base64url( version | key id 4 | nonce 12 | ciphertext | tag 16 )
 *
 * The name of an owner's record is a keyed digest of the source's identity (token URL, client, secret) and the access key. So
 * no one can find an owner by guessing access keys, and a rotated secret gets new records.
 *
 * @see {@link https://csrc.nist.gov/pubs/sp/800/38/d/final NIST SP 800-38D, GCM}
 */

import * as crypto from 'node:crypto';

export const SEALING_KEY_BYTES = 32;

const VERSION = 3;
const ALGORITHM = 'aes-256-gcm';
const HEADER_BYTES = 5;
const NONCE_BYTES = 12;
const TAG = { authTagLength: 16 };

/** Token responses are small; a larger one is used and not shared. */
const MAX_PLAIN_BYTES = 131_072;

interface RingKey {
  readonly header: Buffer;
  readonly key: crypto.KeyObject;
}

/** What a value is bound to. It cannot be opened in any other context. */
export const sealContext = (kind: 'token' | 'failure', recordName: string, generation: number): string =>
  `${kind} ${generation} ${recordName}`;

export class Sealer {
  readonly #ring: readonly RingKey[];

  /** @param keys 32 bytes each: the first seals, all open. */
  constructor(keys: readonly Uint8Array[]) {
    this.#ring = keys.map((bytes) => ({
      header: Buffer.concat([Buffer.of(VERSION), derived(bytes, 'key id').subarray(0, HEADER_BYTES - 1)]),
      key: crypto.createSecretKey(derived(bytes, 'sealing')),
    }));
  }

  /** Seals JSON. Undefined for a value that is too large to share. */
  seal(value: object, context: string): string | undefined {
    const plain = Buffer.from(JSON.stringify(value));
    if (plain.length > MAX_PLAIN_BYTES) return undefined;
    const { header, key } = this.#ring[0] as RingKey;
    const nonce = crypto.randomBytes(NONCE_BYTES);
    const cipher = crypto.createCipheriv(ALGORITHM, key, nonce, TAG).setAAD(associatedData(header, context));
    const parts = [header, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(parts).toString('base64url');
  }

  /** The JSON object that was sealed for this context with any key of the ring, else undefined. Never throws. */
  open(sealed: string, context: string): object | undefined {
    const bytes = Buffer.from(sealed, 'base64url');
    const key = this.#ring.find(({ header }) => header.equals(bytes.subarray(0, HEADER_BYTES)));
    if (!key) return undefined;
    try {
      const nonce = bytes.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
      const decipher = crypto.createDecipheriv(ALGORITHM, key.key, nonce, TAG);
      decipher.setAAD(associatedData(key.header, context)).setAuthTag(bytes.subarray(-TAG.authTagLength));
      const ciphertext = bytes.subarray(HEADER_BYTES + NONCE_BYTES, -TAG.authTagLength);
      return JSON.parse(`${decipher.update(ciphertext)}${decipher.final()}`);
    } catch {
      return undefined;
    }
  }
}

/** Derives a separate key for each use. */
const derived = (key: Uint8Array, use: string): Buffer =>
  crypto.createHmac('sha256', key).update(`owner-token-registry ${use} ${VERSION}`).digest();

const associatedData = (header: Buffer, context: string) => Buffer.concat([header, Buffer.from(context)]);

/** The format of names, records and sealed values. Replicas with different formats share nothing. */
export const FORMAT_VERSION = '4';

export class Names {
  /** The channel of all wake-ups and news. */
  readonly channel: string;
  /** The record that lists the replicas. */
  readonly replicas: string;
  /** Tells naming keys apart. */
  readonly keyId: string;
  readonly #prefix: string;
  readonly #key: Uint8Array;

  constructor(prefix: string, key: Uint8Array) {
    this.#prefix = `${prefix}:${FORMAT_VERSION}`;
    this.#key = key;
    this.channel = `${this.#prefix}:wake`;
    this.replicas = `${this.#prefix}:replicas`;
    this.keyId = this.#digest('key id').slice(0, 12);
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
    const hmac = crypto.createHmac('sha256', this.#key);
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
  return crypto.createHmac('sha256', sealingKey).update('owner-token-registry names 1').digest();
}
