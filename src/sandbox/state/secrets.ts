import { createCipheriv, createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** How many secrets are drawn from the key stream at a time, and of how many bytes each. */
const BATCH = 128;
const SECRET_BYTES = 24;

/**
 * Generates all secrets of one sandbox. With a seed they are the same at every start, so that a `.env` file stays valid;
 * without one they cannot be guessed.
 */
export class Secrets {
  #key: Buffer;
  #salt: string;
  #made = 0;
  #batch: Buffer | undefined;

  constructor(seed: number | undefined) {
    this.#key = seed === undefined ? randomBytes(32) : createHmac('sha256', 'sandbox').update(`${seed}`).digest();
    this.#salt = this.#derived('salt').toString('base64url');
  }

  /** The secret of this name: the same at each call. */
  named(prefix: string, name: string, bytes = SECRET_BYTES): string {
    return prefix + this.#derived(`named:${name}`).subarray(0, bytes).toString('base64url');
  }

  /** A new secret, from the key stream. */
  next(prefix: string): string {
    const index = this.#made % BATCH;
    if (index === 0 || !this.#batch) this.#batch = this.#draw(Math.floor(this.#made / BATCH));
    this.#made++;
    const from = index * SECRET_BYTES;
    return prefix + this.#batch.toString('base64url', from, from + SECRET_BYTES);
  }

  /** A random secret, whatever the seed. */
  random(prefix: string): string {
    return prefix + randomBytes(SECRET_BYTES).toString('base64url');
  }

  /** For a state file: a restart continues from here and repeats no secret. */
  get key(): string {
    return this.#key.toString('base64url');
  }

  get made(): number {
    return this.#made;
  }

  restore({ key, made }: { key: string; made: number }): void {
    this.#key = Buffer.from(key, 'base64url');
    this.#salt = this.#derived('salt').toString('base64url');
    this.#made = made;
    this.#batch = undefined;
  }

  /** A JWT with these claims, signed with a key that is never published. */
  jwt(claims: object): string {
    const unsigned = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
    return `${unsigned}.${createHmac('sha256', this.#key).update(unsigned).digest('base64url')}`;
  }

  /** A short salted digest that stands for a secret in the ledger, events and pages. */
  fingerprint(secret: string): string {
    return hash('sha256', this.#salt + secret, 'base64url').slice(0, 10);
  }

  #derived(name: string): Buffer {
    return createHmac('sha256', this.#key).update(name).digest();
  }

  /** The batch of the key stream with this number. */
  #draw(number: number): Buffer {
    const iv = this.#derived(`batch:${number}`).subarray(0, 16);
    return createCipheriv('aes-256-ctr', this.#key, iv).update(Buffer.alloc(BATCH * SECRET_BYTES));
  }
}

/** Compares two secrets in a time that reveals at most their length. */
export function sameSecret(given: string, kept: Buffer): boolean {
  const bytes = Buffer.from(given);
  const sameLength = bytes.length === kept.length;
  return timingSafeEqual(sameLength ? bytes : kept, kept) && sameLength;
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
