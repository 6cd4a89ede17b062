/**
 * Tokens leave the process only sealed: AES-256-GCM, bound to the record's name (owner, client, endpoint) and to its
 * generation. What was moved to another owner's record, replayed under a newer generation, cut, garbled or sealed with
 * a key that is not held does not open.
 *
 *     base64url( version 1 | key id 4 | nonce 12 | ciphertext | tag 16 )
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

/** What is sealed of a token: all that another replica's registry needs to come to the same conclusions. */
export interface SharedToken {
  readonly token: string;
  readonly tokenType?: string;
  /** As the service sent it: policies read lifetimes from it. */
  readonly response?: Readonly<Record<string, unknown>>;
  /** Server's time, just before the request for it was sent. */
  readonly requestedAtUs: number;
  /** By the policy of the replica that obtained it. `Infinity`: until rejected. */
  readonly lifetimeMs: number;
}

export const SEALING_KEY_BYTES = 32;

const VERSION = 1;
const HEADER_BYTES = 5;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Answers are small; one over this is used and not shared. */
const MAX_PLAIN_BYTES = 131_072;

/** The longest string that could be one of ours. */
const MAX_SEALED_LENGTH = 180_000;

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

  /** Undefined for what is too large to share. */
  seal(shared: SharedToken, name: string, generation: number): string | undefined {
    const [first] = this.#ring;
    const plain = Buffer.from(JSON.stringify(toWire(shared)));
    if (!first || plain.length > MAX_PLAIN_BYTES) return undefined;
    const header = Buffer.concat([Buffer.of(VERSION), first.id]);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', first.key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(associated(header, name, generation));
    const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([header, nonce, ciphertext, cipher.getAuthTag()]).toString('base64url');
  }

  /** Undefined for whatever was not sealed for this record and generation with a key that is held. Never throws. */
  open(sealed: string, name: string, generation: number): SharedToken | undefined {
    if (sealed.length > MAX_SEALED_LENGTH) return undefined;
    const bytes = Buffer.from(sealed, 'base64url');
    if (bytes.length <= HEADER_BYTES + NONCE_BYTES + TAG_BYTES || bytes[0] !== VERSION) return undefined;
    const header = bytes.subarray(0, HEADER_BYTES);
    const aad = associated(header, name, generation);
    for (const { id, key } of this.#ring) {
      const plain = id.equals(header.subarray(1)) ? decrypted(bytes, key, aad) : undefined;
      if (plain) return fromWire(plain);
    }
    return undefined;
  }
}

/** Every use has a key of its own. */
function derived(key: Uint8Array, use: string): Buffer {
  return createHmac('sha256', key).update(`owner-token-registry ${use} ${VERSION}`).digest();
}

function associated(header: Buffer, name: string, generation: number): Buffer {
  return Buffer.concat([header, Buffer.from(`${generation} ${name}`)]);
}

function decrypted(bytes: Buffer, key: KeyObject, aad: Buffer): Buffer | undefined {
  const nonce = bytes.subarray(HEADER_BYTES, HEADER_BYTES + NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(aad);
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    const ciphertext = bytes.subarray(HEADER_BYTES + NONCE_BYTES, -TAG_BYTES);
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** As it is written: short names, and JSON has no Infinity. */
interface WireToken {
  t: string;
  y?: string;
  r?: Record<string, unknown>;
  i: number;
  l: number | null;
}

function toWire(shared: SharedToken): WireToken {
  const { token, tokenType, response, requestedAtUs, lifetimeMs } = shared;
  return {
    t: token,
    ...(tokenType !== undefined && { y: tokenType }),
    ...(response && { r: response }),
    i: requestedAtUs,
    l: lifetimeMs === Infinity ? null : lifetimeMs,
  };
}

/** Whoever sealed it held the key, so this only guards against another version's mistakes. */
function fromWire(plain: Buffer): SharedToken | undefined {
  let wire: Partial<WireToken> | null;
  try {
    wire = JSON.parse(plain.toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof wire !== 'object' || wire === null || typeof wire.t !== 'string') return undefined;
  if (!Number.isFinite(wire.i) || !(wire.l === null || Number.isFinite(wire.l))) return undefined;
  return {
    token: wire.t,
    ...(typeof wire.y === 'string' && { tokenType: wire.y }),
    ...(typeof wire.r === 'object' && wire.r !== null && { response: wire.r }),
    requestedAtUs: wire.i as number,
    lifetimeMs: wire.l ?? Infinity,
  };
}
