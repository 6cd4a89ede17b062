/**
 * The last token of each owner that this replica requested or shared, by digest. With it the replica names the generation
 * of a rejected token, refuses older tokens that were put back into Redis, and recognizes a token that another replica has
 * rejected. Bounded by what the registry keeps: for an owner that was dropped, the record itself shows the generation.
 */

import { createHash } from 'node:crypto';
import type { TokenRequest } from '../token-source.ts';

/** From this number of owners on, those that the registry no longer keeps are dropped as new ones come. */
const MIN_KNOWN = 10_000;

interface Known {
  readonly accessKey: string;
  /** Empty for an owner without a token yet. */
  digest: string;
  /** 0: requested while the server's time was unknown. */
  generation: number;
  /** The newest generation that a replica reported as rejected, or forgot; perhaps of a token that is still on its way here. */
  rejected: number;
  /** The newest generation with which a replica reported the owner's recovery. */
  recovered: number;
  /** The newest forgetting; at first, when this replica met the owner, because it has nothing from before. */
  forgotten: number;
}

export class KnownTokens {
  /** Whether the registry keeps anything for this owner: a token, a failure or a request. */
  isKept = (_accessKey: string): boolean => false;
  /** By the name of the owner's record. */
  readonly #known = new Map<string, Known>();
  /** Cycles through the table. */
  #hand = this.#known.entries();

  /**
   * News of the owner counts from now on.
   *
   * @param nowUs the server's time.
   */
  meet(name: string, accessKey: string, nowUs = 0): Known {
    let known = this.#known.get(name);
    if (known) return known;
    this.#makeRoom();
    known = { accessKey, digest: '', generation: 0, rejected: 0, recovered: 0, forgotten: nowUs };
    this.#known.set(name, known);
    return known;
  }

  /** Returns whether the token is known to be rejected. */
  remember(name: string, accessKey: string, token: string, generation: number): boolean {
    const known = Object.assign(this.meet(name, accessKey), { digest: digestOf(token), generation });
    return generation <= known.rejected;
  }

  /** Looks at two owners for each new one. That is enough for a table of at most twice the owners that are kept. */
  #makeRoom(): void {
    for (let left = this.#known.size < MIN_KNOWN ? 0 : 2; left > 0; left--) {
      const { value, done } = this.#hand.next();
      if (done) this.#hand = this.#known.entries();
      else if (!this.isKept(value[1].accessKey)) this.#known.delete(value[0]);
    }
  }

  /** 0 if it is unknown. */
  generationOf(name: string, token: string | undefined): number {
    const known = this.#known.get(name);
    return known && token !== undefined && known.digest === digestOf(token) ? known.generation : 0;
  }

  /**
   * The generation up to which no token is wanted: a rejected token's, for a refresh the current one's, or else the one
   * before that.
   */
  avoid(name: string, request: TokenRequest): number {
    const known = this.#known.get(name);
    if (!known) return 0;
    const isUnwanted = this.generationOf(name, unwanted(request)?.value) > 0;
    return Math.max(known.rejected, isUnwanted ? known.generation : known.generation - 1);
  }

  /** Undefined for an owner that was never requested here. */
  get(name: string): Readonly<Known> | undefined {
    return this.#known.get(name);
  }

  /**
   * Notes what a replica reported. Returns whether that is new: anyone with access to the same Redis can replay a report, and a
   * forgetting from before this replica met the owner changes nothing here. The first report of a rejection takes the token out of
   * the record, so nobody reports it again, unless a backup brings it back; then this replica does not share it.
   */
  hear(news: News, name: string, generation: number): boolean {
    const known = this.#known.get(name);
    if (!known || generation <= known[news]) return false;
    known[news] = generation;
    if (news === 'forgotten') known.rejected = Math.max(known.rejected, generation);
    return true;
  }
}

/** What a replica reports of an owner. */
export type News = 'rejected' | 'recovered' | 'forgotten';

/** The token that the request is to replace. */
export const unwanted = ({ rejected, held, reason }: TokenRequest) =>
  rejected ?? (reason === 'refresh' ? held : undefined);

export const digestOf = (token: string) => createHash('sha256').update(token).digest('base64url').slice(0, 22);
