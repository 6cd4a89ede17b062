import { createHmac, hash, randomBytes } from 'node:crypto';

const SECRET_BYTES = 24;

/**
 * Generates all secrets of one sandbox. With a seed the named ones are the same at every start, so that a `.env` file stays
 * valid; without one they cannot be guessed.
 */
export class Secrets {
  readonly #key: Buffer;
  readonly #salt: string;

  constructor(seed: number | undefined) {
    this.#key = seed === undefined ? randomBytes(32) : createHmac('sha256', 'sandbox').update(`${seed}`).digest();
    this.#salt = this.#derived('salt').toString('base64url');
  }

  /** The secret of this name: the same at each call. */
  named(prefix: string, name: string, bytes = SECRET_BYTES): string {
    return prefix + this.#derived(`named:${name}`).subarray(0, bytes).toString('base64url');
  }

  /** A new secret, random whatever the seed: a client may still hold a token of an earlier start. */
  random(prefix: string): string {
    return prefix + randomBytes(SECRET_BYTES).toString('base64url');
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
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
