/** News from other replicas, which a source receives and a registry acts on. */

/**
 * The callbacks by which a source passes news from other replicas to its registry.
 *
 * @example
 * ```ts
 * const listening: TokenSource = {
 *   requestToken: async () => ({ token: 'opaque' }),
 *   listen: (news: SourceNews) => void setTimeout(() => news.recovered(accessKey), 10),
 * };
 * await using tokens = new OwnerTokenRegistry({ source: listening });
 * ```
 */
export interface SourceNews {
  /** A token of this owner was rejected elsewhere: asks once for a newer one if `isToken` recognizes the cached one. */
  rejected(accessKey: string, isToken: (token: string) => boolean): void;
  /** The service has issued a token of this owner elsewhere after a failure: lifts its pause and those of all owners. */
  recovered(accessKey: string): void;
}

/**
 * A source that may receive news from other replicas.
 *
 * @example
 * ```ts
 * const silent: NewsSource = { listen: () => {} };
 * ```
 */
export interface NewsSource {
  /** Called once by the registry. */
  listen?(news: SourceNews): void;
}
