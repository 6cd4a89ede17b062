/**
 * Who plays the scenes: what a careful team writes in an afternoon, with and without a circuit breaker, and the registry.
 * A library has to do better for the service, and no worse for any tenant.
 */

import { ConsecutiveBreaker, circuitBreaker, handleAll } from 'cockatiel';
import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import { type AccessToken, type Clock, OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { BASE_URL } from '../world/service.ts';
import type { Scene } from './scene.ts';

/** What a subject gets. It uses no other time, randomness or network. */
export interface Tools {
  readonly fetch: (url: unknown, init?: RequestInit) => Promise<Response>;
  readonly clock: Clock & Required<Pick<Clock, 'setTimeout'>>;
  readonly random: () => number;
  readonly readSecret: () => string;
  readonly scene: Scene;
}

export interface Subject {
  readonly name: string;
  create(tools: Tools): Client | Promise<Client>;
}

export interface Client {
  getToken(accessKey: string): Promise<string>;
  /** The API did not accept this token. */
  reject(accessKey: string, token: string): void;
  /** The API accepted it. */
  accept?(accessKey: string, token: string): void;
  warmUp?(accessKeys: readonly string[]): void;
  close?(): void;
}

const TIMEOUT_MS = 10_000;
const CONCURRENCY = 32;
const MAX_OWNERS = 100_000;
const MARGIN_MS = 10_000;
/** A token is used for at least this share of its life. */
const LEAST_USED = 0.9;

interface Held {
  readonly token: string;
  readonly endsAtMs: number;
}

/** p-limit, lru-cache and single flight. */
export const plain: Subject = {
  name: 'plain',
  create: (tools) => cached(tools, (key) => requestToken(key, tools)),
};

/** The same, but it keeps a token that the API did not accept. */
export const keeping: Subject = {
  name: 'keeping',
  create: async (tools) => ({ ...(await plain.create(tools)), reject: () => {} }),
};

/** The same behind cockatiel's circuit breaker: open after five failures in a row, one trial after 10 s. */
export const breaker: Subject = {
  name: 'breaker',
  create: (tools) => {
    const circuit = circuitBreaker(handleAll, { halfOpenAfter: 10_000, breaker: new ConsecutiveBreaker(5) });
    return cached(tools, (key) => circuit.execute(() => requestToken(key, tools)));
  },
};

/** The registry as its users get it, with its defaults. */
export const registry: Subject = {
  name: 'registry',
  create: ({ fetch, clock, random, readSecret, scene }) => {
    const { concurrency, maxOwners = MAX_OWNERS } = scene;
    const options = { baseUrl: BASE_URL, clientId: 'client', clientSecret: readSecret };
    const source = new TokenEndpoint({ ...options, fetch: fetch as typeof globalThis.fetch, clock });
    const tokens = new OwnerTokenRegistry({
      source,
      clock,
      random,
      maxOwners,
      ...(concurrency !== undefined && { concurrency }),
    });
    const given = new Map<string, AccessToken>();
    return {
      async getToken(key) {
        const token = await tokens.getToken(key);
        if (scene.api) given.set(key, token);
        return token.value;
      },
      reject: (key, token) => void tokens.reject(key, token),
      accept(key, value) {
        const token = given.get(key);
        if (token?.value === value) tokens.accept(key, token);
      },
      warmUp: (keys) => void tokens.warmUp(keys),
      close: () => void tokens.close({ timeoutMs: 0 }),
    };
  },
};

/** A cache, one request per owner at a time, 32 requests in all. */
function cached({ clock, scene }: Tools, request: (key: string) => Promise<Held>): Client {
  const limit = pLimit(scene.concurrency ?? CONCURRENCY);
  const cache = new LRUCache<string, Held>({ max: scene.maxOwners ?? MAX_OWNERS });
  const inFlight = new Map<string, Promise<Held>>();
  return {
    async getToken(key) {
      const held = cache.get(key);
      if (held && clock.now() < held.endsAtMs) return held.token;
      let requested = inFlight.get(key);
      if (!requested) {
        requested = limit(request, key).finally(() => inFlight.delete(key));
        inFlight.set(key, requested);
      }
      const fresh = await requested;
      cache.set(key, fresh);
      return fresh.token;
    },
    reject(key, token) {
      if (cache.get(key)?.token === token) cache.delete(key);
    },
  };
}

/** One token request, with a time limit. */
async function requestToken(key: string, { fetch, clock, readSecret }: Tools): Promise<Held> {
  const abort = new AbortController();
  const cancel = clock.setTimeout(() => abort.abort(failure('timeout')), TIMEOUT_MS);
  try {
    const body = JSON.stringify({ client_secret: readSecret(), appliance_owner_scope: key });
    const response = await fetch(`${BASE_URL}/auth/v1/token`, { method: 'POST', body, signal: abort.signal });
    if (response.status !== 200) throw failure(`http ${response.status}`);
    const { access_token: token, expires_in: seconds } = JSON.parse(await response.text());
    if (!token) throw failure('no token');
    const lifeMs = seconds * 1_000;
    return { token, endsAtMs: clock.now() + Math.max(LEAST_USED * lifeMs, lifeMs - MARGIN_MS) };
  } finally {
    cancel();
  }
}

const failure = (code: string) => Object.assign(new Error(code), { code });
