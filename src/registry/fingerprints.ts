/** How secrets are named where people read: a keyed digest, so that a name cannot be found by trying keys. */

import { createHmac, randomBytes } from 'node:crypto';

const DIGEST_CHARACTERS = 16;

/** Names access keys and tokens. With the same key, the same names in every replica. */
export class Fingerprints {
  readonly #key: Uint8Array;
  readonly #label: ((accessKey: string) => string) | undefined;

  /**
   * @param key any length; random when absent.
   * @param label gives owners a name of the user's own.
   */
  constructor(key: Uint8Array = randomBytes(32), label?: (accessKey: string) => string) {
    this.#key = key;
    this.#label = label;
  }

  /** The owner's label, where there is one that can be shown, else the digest of its access key. */
  ofOwner(accessKey: string): string {
    return this.#labelOf(accessKey) ?? this.digestOf(accessKey);
  }

  /** The digest of the owner's access key, label or not: for what must tell owners apart. */
  digestOf(accessKey: string): string {
    return `owner_${this.#digest('access key', accessKey)}`;
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

  /** 96 bits; the purpose is part of what is digested, so that no string has the same name in both roles. */
  #digest(purpose: string, secret: string): string {
    const digest = createHmac('sha256', this.#key).update(`${purpose}\0`).update(secret).digest('base64url');
    return digest.slice(0, DIGEST_CHARACTERS);
  }
}
