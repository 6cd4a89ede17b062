/**
 * The cache that a team writes itself beside a client that has none: a Map of promises, so that concurrent callers
 * share a request, with failures deleted and expired tokens replaced. It has no bound.
 */
export class TokenMap {
  #entries = new Map();
  #request;

  /** @param request `(accessKey) => Promise<{ token, lifetimeMs }>` */
  constructor(request) {
    this.#request = request;
  }

  async get(accessKey) {
    const held = this.#entries.get(accessKey);
    if (held && !(held.expiresAtMs <= Date.now())) return held.promise;
    const entry = { promise: undefined, expiresAtMs: undefined };
    entry.promise = this.#request(accessKey).then(
      ({ token, lifetimeMs }) => {
        entry.expiresAtMs = Date.now() + lifetimeMs;
        return token;
      },
      (error) => {
        if (this.#entries.get(accessKey) === entry) this.#entries.delete(accessKey);
        throw error;
      },
    );
    this.#entries.set(accessKey, entry);
    return entry.promise;
  }

  async renew(accessKey, token) {
    const held = this.#entries.get(accessKey);
    if (held && (await held.promise.catch(() => undefined)) === token && this.#entries.get(accessKey) === held) {
      this.#entries.delete(accessKey);
    }
    return this.get(accessKey);
  }
}
