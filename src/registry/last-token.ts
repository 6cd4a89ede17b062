/** The token that was stored last. If the next owner receives the same one, the service may ignore the access key. */

import type { Diagnostics } from '../diagnostics.ts';
import type { Slot } from './slot.ts';

export class LastToken {
  readonly #diagnostics: Pick<Diagnostics, 'emit'>;
  #last: { readonly slot: Slot; readonly token: string } | undefined;

  constructor(diagnostics: Pick<Diagnostics, 'emit'>) {
    this.#diagnostics = diagnostics;
  }

  stored(slot: Slot, token: string): void {
    const last = this.#last;
    this.#last = { slot, token };
    if (last?.token !== token || last.slot === slot) return;
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
