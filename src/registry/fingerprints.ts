/** Names for secrets in logs and errors: keyed digests, so that nobody can find a secret by hashing guesses. */

import { createHmac, randomBytes } from 'node:crypto';

const DIGEST_CHARACTERS = 16;

/** What an owner is called. */
export interface OwnerNames {
  /** Its label if it has a usable one, or else the digest. */
  readonly owner: string;
  /** The digest of its access key: unlike labels, digests are unique. */
  readonly digest: string;
}

/** Names access keys and tokens. Replicas with the same key produce the same names. */
export class Fingerprints {
  readonly #key: Uint8Array;
  readonly #label: ((accessKey: string) => string) | undefined;

  /**
   * @param key any length; random when absent.
   * @param label returns a custom name for an owner.
   */
  constructor(key: Uint8Array = randomBytes(32), label?: (accessKey: string) => string) {
    this.#key = key;
    this.#label = label;
  }

  namesOf(accessKey: string): OwnerNames {
    const digest = `owner_${this.#digest('access key', accessKey)}`;
    return { owner: this.#labelOf(accessKey) ?? digest, digest };
  }

  /** Falls back to the digest when the label throws, is empty or contains the key. */
  #labelOf(accessKey: string): string | undefined {
    try {
      const label: unknown = this.#label?.(accessKey);
      return typeof label === 'string' && label !== '' && !label.includes(accessKey) ? label : undefined;
    } catch {
      return undefined;
    }
  }

  ofToken(token: string): string {
    return `token_${this.#digest('token', token)}`;
  }

  /** 96 bits. The purpose is part of the input, so that a string has different names as access key and as token. */
  #digest(purpose: string, secret: string): string {
    const digest = createHmac('sha256', this.#key).update(`${purpose}\0`).update(secret).digest('base64url');
    return digest.slice(0, DIGEST_CHARACTERS);
  }
}
