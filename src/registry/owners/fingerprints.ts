/** Names for secrets in logs and errors: keyed digests, so that nobody can find a secret by hashing guesses. */

import { interned } from './slot.ts';

/** 96 bits, which are 16 characters. */
const DIGEST_BYTES = 12;

/** Names access keys and tokens. Replicas with the same key produce the same names. */
export class Fingerprints {
  #key: Uint8Array | undefined;
  readonly #label: ((accessKey: string) => string) | undefined;
  /** Is called with the fingerprint of an owner whose label is ignored because it contains the access key. */
  onIgnoredLabel: ((fingerprint: string) => void) | undefined = undefined;

  /**
   * @param key any length; random when absent.
   * @param label returns a custom name for an owner.
   */
  constructor(key?: Uint8Array, label?: (accessKey: string) => string) {
    this.#key = key;
    this.#label = label;
  }

  /** The owner's label, or else its fingerprint, which also replaces a label that contains the access key. */
  nameOf(accessKey: string): string {
    const label = this.#labelOf(accessKey);
    const hasKey = label?.includes(accessKey);
    if (label !== undefined && !hasKey) return label;
    const fingerprint = this.ofOwner(accessKey);
    if (hasKey) this.onIgnoredLabel?.(fingerprint);
    return fingerprint;
  }

  /** Undefined when the label throws or is empty. */
  #labelOf(accessKey: string): string | undefined {
    try {
      const label: unknown = this.#label?.(accessKey);
      return typeof label === 'string' && label !== '' ? label : undefined;
    } catch {
      return undefined;
    }
  }

  ofOwner(accessKey: string): string {
    return this.#digest('owner', 'access key', accessKey);
  }

  ofToken(token: string): string {
    return this.#digest('token', 'token', token);
  }

  /** The purpose is part of the input, so that a string has different names as access key and as token. */
  #digest(prefix: string, purpose: string, secret: string): string {
    // Loaded when first needed, because `node:crypto` takes a tenth of the package's import time.
    const { createHmac, randomBytes } = process.getBuiltinModule('node:crypto');
    this.#key ??= randomBytes(32);
    const digest = createHmac('sha256', this.#key).update(`${purpose}\0`).update(secret).digest();
    // Interned, because V8 keeps a string made of parts in several objects, and with observers every owner has one.
    return interned(`${prefix}_${digest.toString('base64url', 0, DIGEST_BYTES)}`);
  }
}
