/** For sources that change only how another source requests tokens. */

import type { TokenSource } from './token-source.ts';

/**
 * A source with another `requestToken`, to log, limit or repeat requests. Everything else is the given source's: `origin`, `identity`,
 * `close`, `listen` and whatever else it has. A hand-written wrapper that forgets one of them loses, for example, the check
 * of origins or the news of other replicas.
 *
 * @param requestToken calls `source.requestToken` itself.
 *
 * @example
 * ```ts
 * const endpoint = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * const source = decoratedSource(endpoint, async (accessKey, request) => {
 *   console.log(request.reason); // → absent
 *   return endpoint.requestToken(accessKey, request);
 * });
 * await using tokens = new OwnerTokenRegistry({ source });
 * await tokens.getToken(accessKey);
 * ```
 */
export function decoratedSource<S extends TokenSource>(source: S, requestToken: TokenSource['requestToken']): S {
  // An object that inherits from it, because a proxy of the source itself could not replace a method of a frozen one.
  return new Proxy(Object.create(source), {
    get: (_, name) => {
      if (name === 'requestToken') return requestToken;
      const value: unknown = Reflect.get(source, name);
      // Methods may use private fields, which only the source has.
      return typeof value === 'function' ? value.bind(source) : value;
    },
  });
}
