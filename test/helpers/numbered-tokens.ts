import type { OwnerTokens } from '../../src/calling/owner-fetch.ts';
import { AccessToken } from '../../src/token.ts';

/** A minimal registry for calls: one token at a time, `t1`, `t2`, …, the next one after a rejection. */
export class NumberedTokens implements OwnerTokens {
  readonly rejected: string[] = [];
  readonly accepted: string[] = [];
  /** Number of calls of `getToken`. */
  asked = 0;
  /** If set, each call of `getToken` fails with it. */
  failure: unknown;
  /** If set, each call of `getToken` waits for it. */
  gate: Promise<void> | undefined;
  #number: number;

  /** @param first the number of the first token. */
  constructor(first = 1) {
    this.#number = first;
  }

  async getToken(_accessKey: string, options?: { signal?: AbortSignal }): Promise<AccessToken> {
    this.asked++;
    options?.signal?.throwIfAborted();
    if (this.gate) await untilAborted(this.gate, options?.signal);
    if (this.failure) throw this.failure;
    return tokenOf(`t${this.#number}`);
  }

  reject(_accessKey: string, token: AccessToken): boolean {
    this.rejected.push(token.value);
    if (token.value !== `t${this.#number}`) return false;
    this.#number++;
    return true;
  }

  accept(_accessKey: string, token: AccessToken): void {
    this.accepted.push(token.value);
  }
}

/** A token of this value that never expires. */
export function tokenOf(value: string): AccessToken {
  const times = { issuedAtMs: 0, refreshAtMs: Number.POSITIVE_INFINITY, expiresAtMs: Number.POSITIVE_INFINITY };
  return new AccessToken({ value, tokenType: 'Bearer', fingerprint: `of ${value}`, ...times });
}

function untilAborted(gate: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    gate.then(resolve, reject);
  });
}
