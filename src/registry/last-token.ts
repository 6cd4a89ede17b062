/** Warns of tokens that a service issues twice: to two owners in a row, or again although they were rejected. */

import type { Diagnostics } from '../reporting/diagnostics.ts';
import type { AccessToken } from '../token.ts';
import type { Slot } from './slot.ts';

export class LastToken {
  readonly #diagnostics: Pick<Diagnostics, 'emit'>;
  #last: { readonly slot: Slot; readonly token: string } | undefined;

  constructor(diagnostics: Pick<Diagnostics, 'emit'>) {
    this.#diagnostics = diagnostics;
  }

  /** @param rejected the token that it replaces, if that was rejected. */
  stored(slot: Slot, token: AccessToken, rejected: AccessToken | undefined): void {
    const last = this.#last;
    const { value } = token;
    this.#last = { slot, token: value };
    if (rejected?.value === value)
      this.#diagnostics.emit('token.reissued', () => ({ owner: slot.owner, token: token.fingerprint }));
    if (last?.token !== value || last.slot === slot) return;
    this.#diagnostics.emit('token.shared', () => ({ owner: slot.owner, otherOwner: last.slot.owner }));
  }

  /** The owner was removed. */
  forget(slot: Slot): void {
    if (this.#last?.slot === slot) this.#last = undefined;
  }

  forgetAll(): void {
    this.#last = undefined;
  }
}
