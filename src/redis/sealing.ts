/**
 * Values leave the process only sealed: AES-256-GCM, bound to what they are (a token, a failure) and to the record's name
 * (endpoint, client, owner). A value that was moved to another record, truncated, corrupted, or sealed with a key that
 * this replica does not have cannot be decrypted.
 *
 *     base64url( version | key id 4 | nonce 12 | ciphertext | tag 16 )
 *
 * @see {@link https://csrc.nist.gov/pubs/sp/800/38/d/final NIST SP 800-38D, GCM}
 */

import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';

export const SEALING_KEY_BYTES = 32;

const VERSION = 2;
const HEADER_BYTES = 5;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Token responses are small; a larger one is used and not shared. */
const MAX_PLAIN_BYTES = 131_072;

/** The longest string that the sealer could have made. */
const MAX_SEALED_LENGTH = 180_000;

/** Where a value belongs. It opens nowhere else. */
export interface SealContext {
  readonly kind: 'token' | 'failure';
  /** The record's name. */
  readonly name: string;
  readonly generation?: number;
}

interface RingKey {
  readonly id: Buffer;
  readonly key: KeyObject;
}

export class Sealer {
  readonly #ring: readonly RingKey[];

  /** @param keys 32 bytes each: the first seals, all open. */
  constructor(keys: readonly Uint8Array[]) {
    this.#ring = keys.map((bytes) => ({
      id: derived(bytes, 'key id').subarray(0, HEADER_BYTES - 1),
      key: createSecretKey(derived(bytes, 'sealing')),
    }));
  }

  /** Seals JSON. Undefined for a value that is too large to share. */
  seal(value: object, context: SealContext): string | undefined {
    const [first] = this.#ring;
    const plain = Buffer.from(JSON.stringify(value));
    if (!first || plain.length > MAX_PLAIN_BYTES) return undefined;
    const header = Buffer.concat([Buffer.of(VERSION), first.id]);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', first.key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(associatedData(header, context));
    const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([header, nonce, ciphertext, cipher.getAuthTag()]).toString('base64url');
  }

  /** The JSON object that was sealed for this context with any key of the ring, else undefined. Never throws. */
  open(sealed: string, context: SealContext): Readonly<Record<string, unknown>> | undefined {
    if (sealed.length > MAX_SEALED_LENGTH) return undefined;
    const bytes = Buffer.from(sealed, 'base64url');
    if (bytes.length <= HEADER_BYTES + NONCE_BYTES + TAG_BYTES || bytes[0] !== VERSION) return undefined;
    const header = bytes.subarray(0, HEADER_BYTES);
    const data = associatedData(header, context);
    for (const { id, key } of this.#ring) {
      const plain = id.equals(header.subarray(1)) ? decrypted(bytes, key, data) : undefined;
      if (plain) return parsed(plain);
    }
    return undefined;
  }
}

/** Derives a separate key for each use. */
function derived(key: Uint8Array, use: string): Buffer {
  return createHmac('sha256', key).update(`owner-token-registry ${use} ${VERSION}`).digest();
}

function associatedData(header: Buffer, { kind, name, generation = 0 }: SealContext): Buffer {
  return Buffer.concat([header, Buffer.from(`${kind} ${generation} ${name}`)]);
}

function decrypted(bytes: Buffer, key: KeyObject, data: Buffer): Buffer | undefined {
  const nonce = bytes.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(data);
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    const ciphertext = bytes.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES);
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** Only a replica with the key could seal it, so this guards against mistakes of other versions. */
function parsed(plain: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(plain.toString('utf8'));
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
