/** Detects tokens that a service issues to two owners: once by mistake, or always because it ignores the access key. */

import { ANOTHER_OWNERS } from '../../errors/inconclusive.ts';
import { OwnerTokenError } from '../../errors/owner-token-error.ts';
import type { Diagnostics } from '../../reporting/diagnostics.ts';
import type { AccessToken } from '../../token.ts';
import type { Slot } from './slot.ts';

/** How many tokens are remembered: a proxy that mixes up answers does so between requests made at about the same time. */
const MAX_REMEMBERED = 256;

/** A token that was issued, and the first three owners that got it; after a mix-up, the last one. With three, any owner may get it. */
export interface Remembered {
  readonly token: AccessToken;
  owners: [Slot, ...Slot[]];
}

/** A request, and another owner's token that its first answer brought. */
type PendingRequest = { readonly slot: Slot; othersToken: Remembered | undefined };

const isOf = ({ owners }: Remembered, accessKey: string) => owners.some((owner) => owner.accessKey === accessKey);

export class RecentTokens {
  readonly #diagnostics: Pick<Diagnostics, 'emit'>;
  /** By its value, the oldest first. */
  readonly #tokens = new Map<string, Remembered>();

  constructor(diagnostics: Pick<Diagnostics, 'emit'>) {
    this.#diagnostics = diagnostics;
  }

  /**
   * A token has arrived that is neither stored nor served yet. If it is another owner's, the request is repeated
   * once; the second answer is served in any case.
   *
   * @param isRepeated whether this is the second answer.
   * @throws OwnerTokenError `invalid_response`, inconclusive.
   */
  check(flight: PendingRequest, value: string, isRepeated: boolean): void {
    const { slot } = flight;
    const issued = this.#tokens.get(value);
    if (isRepeated || !issued || issued.owners.length === 3 || isOf(issued, slot.accessKey)) return;
    flight.othersToken = issued;
    const cause = { code: ANOTHER_OWNERS };
    throw new OwnerTokenError('invalid_response', 'the token belongs to another owner', { owner: slot.owner, cause });
  }

  /**
   * A token was stored. If the first answer brought another owner's token, this one shows whether that was shared or mixed up.
   *
   * @returns the other owner, if its token may be this owner's.
   */
  stored({ slot, othersToken }: PendingRequest, token: AccessToken): Slot | undefined {
    const { value } = token;
    const issued: Remembered = this.#tokens.get(value) ?? { token, owners: [slot] };
    this.#tokens.delete(value);
    this.#tokens.set(value, issued);
    if (this.#tokens.size > MAX_REMEMBERED) this.#tokens.delete(this.#tokens.keys().next().value as string);
    const { owners } = issued;
    if (owners.length < 3 && !isOf(issued, slot.accessKey)) owners.push(slot);
    if (!othersToken) return undefined;
    const isShared = owners[0].accessKey !== slot.accessKey;
    const [other] = isShared ? owners : othersToken.owners;
    const event = isShared ? 'token.shared' : 'token.mixed_up';
    this.#diagnostics.emit(event, () => ({ owner: slot.owner, otherOwner: other.owner }));
    if (isShared || othersToken.owners.length > 1 || other.held?.value !== othersToken.token.value) return undefined;
    // If the other owner was evicted, and comes back with this token, its request is repeated.
    othersToken.owners = [slot];
    return other;
  }

  /** The owner was removed, or has been evicted before. */
  forget(accessKey: string): void {
    for (const [value, issued] of this.#tokens) if (isOf(issued, accessKey)) this.#tokens.delete(value);
  }

  forgetAll(): void {
    this.#tokens.clear();
  }
}
