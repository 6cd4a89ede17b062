/**
 * What is written to Redis where all can read it: names. A keyed digest over who the source is (token URL, client,
 * secret) and the access key, so that nothing can be found by trying keys, and a rotated secret begins anew.
 */

import { createHmac } from 'node:crypto';

/** The format of names, records and sealed values; replicas with another one do not meet. */
export const FORMAT_VERSION = '1';

export class Names {
  readonly #prefix: string;
  readonly #key: Uint8Array;

  constructor(prefix: string, key: Uint8Array) {
    this.#prefix = `${prefix}:${FORMAT_VERSION}`;
    this.#key = key;
  }

  /** Where waiters are woken; one for all, since each replica may wait for any owner. */
  get channel(): string {
    return `${this.#prefix}:wake`;
  }

  ofOwner(identity: string, accessKey: string): string {
    return `${this.#prefix}:${this.#digest('owner', identity, accessKey)}`;
  }

  ofEndpoint(identity: string): string {
    return `${this.#prefix}:${this.#digest('endpoint', identity)}`;
  }

  /** Length-prefixed, so that no two lists run into the same bytes; UTF-16, so that no two strings do. */
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

/** The naming key that is used when none is given. */
export function namingKeyFrom(sealingKey: Uint8Array): Uint8Array {
  return createHmac('sha256', sealingKey).update('owner-token-registry names 1').digest();
}
