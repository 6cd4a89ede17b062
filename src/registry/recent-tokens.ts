/** Detects tokens that a service issues twice: to another owner, or again although they were rejected or have ended. */

import { ANOTHER_OWNERS } from '../errors/inconclusive.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { outlives } from '../expiry/lifetime.ts';
import type { Diagnostics } from '../reporting/diagnostics.ts';
import type { AccessToken } from '../token.ts';
import type { Slot } from './slot.ts';

/**
 * How many tokens are remembered. A proxy that mixes up answers does so between requests that are made at about the same
 * time.
 */
const MAX_REMEMBERED = 256;

/** A token, and the owner to whom it was issued. */
interface Remembered {
  readonly slot: Slot;
  readonly token: AccessToken;
}

export class RecentTokens {
  readonly #diagnostics: Pick<Diagnostics, 'emit'>;
  /** By its value, the oldest first. */
  readonly #tokens = new Map<string, Remembered>();
  /** Owners that received another one's token, until their next answer; and by which call. */
  readonly #inDoubt = new WeakMap<Slot, Remembered & { readonly call: object }>();
  /** Owners that permanently share their tokens. */
  #sharers = new WeakSet<Slot>();

  constructor(diagnostics: Pick<Diagnostics, 'emit'>) {
    this.#diagnostics = diagnostics;
  }

  /** The token of another owner that this owner received last: a newer one is wanted. */
  doubted(slot: Slot): AccessToken | undefined {
    return this.#inDoubt.get(slot)?.token;
  }

  /**
   * A token has arrived that is neither stored nor served yet. If two calls in a row bring another owner's token, then two
   * access keys may belong to one owner, or the service ignores them.
   *
   * @param call identifies the call of the source, which may check its token before it shares it.
   * @throws OwnerTokenError `invalid_response` in the first call, if the token is another owner's.
   */
  check(slot: Slot, value: string, call: object): void {
    const issued = this.#tokens.get(value);
    if (!issued || issued.slot.accessKey === slot.accessKey) return;
    const { slot: other } = issued;
    if (this.#sharers.has(slot) && this.#sharers.has(other)) return;
    const doubt = this.#inDoubt.get(slot);
    if (doubt?.slot !== other || doubt.call === call) {
      this.#inDoubt.set(slot, { ...issued, call });
      const cause = { code: ANOTHER_OWNERS };
      throw new OwnerTokenError('invalid_response', 'the token belongs to another owner', { owner: slot.owner, cause });
    }
    this.#inDoubt.delete(slot);
    this.#sharers.add(slot).add(other);
    this.#diagnostics.emit('token.shared', () => ({ owner: slot.owner, otherOwner: other.owner }));
  }

  /** @param rejected the token that it replaces, if that was rejected. */
  stored(slot: Slot, token: AccessToken, rejected: AccessToken | undefined): void {
    const { value } = token;
    const before = this.#tokens.get(value);
    this.#tokens.delete(value);
    this.#tokens.set(value, { slot, token });
    if (this.#tokens.size > MAX_REMEMBERED) this.#tokens.delete(this.#tokens.keys().next().value as string);
    const other = this.#inDoubt.get(slot)?.slot;
    if (other) this.#diagnostics.emit('token.mixed_up', () => ({ owner: slot.owner, otherOwner: other.owner }));
    this.#inDoubt.delete(slot);
    const isAgain = before?.slot.accessKey === slot.accessKey;
    const event =
      rejected?.value === value ? 'token.reissued' : isAgain && outlives(token, before.token) && 'token.outlived';
    if (event) this.#diagnostics.emit(event, () => ({ owner: slot.owner, token: token.fingerprint }));
  }

  /** The owner was removed, or has been evicted before. */
  forget(accessKey: string): void {
    for (const [token, { slot }] of this.#tokens) if (slot.accessKey === accessKey) this.#tokens.delete(token);
  }

  forgetAll(): void {
    this.#tokens.clear();
    this.#sharers = new WeakSet();
  }
}
