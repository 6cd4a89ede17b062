import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * Makes and compares everything secret in one sandbox. With a seed all that is made is the same at every start, so that
 * a `.env` file stays good; without one nothing can be guessed.
 */
export class Secrets {
  #key: Buffer;
  #salt: string;
  #made = 0;

  constructor(seed: number | undefined) {
    this.#key =
      seed === undefined ? randomBytes(32) : createHmac('sha256', 'owner-token-registry').update(`${seed}`).digest();
    this.#salt = this.#saltOfKey();
  }

  /** The secret of this name: the same each time it is asked for. */
  named(prefix: string, name: string, bytes = 24): string {
    return prefix + this.#bytes(`named:${name}`).subarray(0, bytes).toString('base64url');
  }

  /** A secret that was not made before. */
  next(prefix: string, bytes = 24): string {
    return (
      prefix +
      this.#bytes(`next:${this.#made++}`)
        .subarray(0, bytes)
        .toString('base64url')
    );
  }

  /** One that no seed makes the same. */
  random(prefix: string): string {
    return prefix + randomBytes(24).toString('base64url');
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
    this.#salt = this.#saltOfKey();
    this.#made = made;
  }

  /** A JWT over these claims, signed with a key that nobody outside needs. */
  jwt(claims: object): string {
    const unsigned = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
    return `${unsigned}.${createHmac('sha256', this.#key).update(unsigned).digest('base64url')}`;
  }

  /** What tables are keyed by, and what is compared in place of a secret. */
  digest(secret: string): string {
    return hash('sha256', this.#salt + secret, 'base64url');
  }

  /** What ledger, events and pages call a secret: enough to tell two apart, not to find it. */
  fingerprint(secret: string): string {
    return this.digest(secret).slice(0, 10);
  }

  #saltOfKey(): string {
    return this.#bytes('salt').toString('base64url');
  }

  #bytes(name: string): Buffer {
    return createHmac('sha256', this.#key).update(name).digest();
  }
}

/** Whether two digests are the same, in a time that does not tell where they differ. */
export function sameDigest(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
