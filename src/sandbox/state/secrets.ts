import { createCipheriv, createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** How many secrets are drawn from the key stream at a time, and of how many bytes each. */
const BATCH = 128;
const SECRET_BYTES = 24;

/**
 * Makes and compares everything secret in one sandbox. With a seed all that is made is the same at every start, so that
 * a `.env` file stays good; without one nothing can be guessed.
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

  /** The secret of this name: the same each time it is asked for. */
  named(prefix: string, name: string, bytes = SECRET_BYTES): string {
    return prefix + this.#derived(`named:${name}`).subarray(0, bytes).toString('base64url');
  }

  /** A secret that was not made before: the next of the key stream, since there is one for each token. */
  next(prefix: string): string {
    const index = this.#made % BATCH;
    if (index === 0 || !this.#batch) this.#batch = this.#draw(Math.floor(this.#made / BATCH));
    this.#made++;
    const from = index * SECRET_BYTES;
    return prefix + this.#batch.toString('base64url', from, from + SECRET_BYTES);
  }

  /** One that no seed makes the same. */
  random(prefix: string): string {
    return prefix + randomBytes(SECRET_BYTES).toString('base64url');
  }

  /** For a state file: a restart goes on from here, and makes no secret twice. */
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

  /** A JWT over these claims, signed with a key that nobody outside needs. */
  jwt(claims: object): string {
    const unsigned = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
    return `${unsigned}.${createHmac('sha256', this.#key).update(unsigned).digest('base64url')}`;
  }

  /** What ledger, events and pages call a secret: enough to tell two apart, not to find it. */
  fingerprint(secret: string): string {
    return hash('sha256', this.#salt + secret, 'base64url').slice(0, 10);
  }

  #derived(name: string): Buffer {
    return createHmac('sha256', this.#key).update(name).digest();
  }

  /** A part of the key stream, the same for the same number. */
  #draw(number: number): Buffer {
    const iv = this.#derived(`batch:${number}`).subarray(0, 16);
    return createCipheriv('aes-256-ctr', this.#key, iv).update(Buffer.alloc(BATCH * SECRET_BYTES));
  }
}

/** Whether two secrets are the same, in a time that tells at most how long they are. */
export function sameSecret(given: string, kept: Buffer): boolean {
  const bytes = Buffer.from(given);
  const sameLength = bytes.length === kept.length;
  return timingSafeEqual(sameLength ? bytes : kept, kept) && sameLength;
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
