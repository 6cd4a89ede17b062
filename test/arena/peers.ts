/**
 * Libraries of the behaviour board, in virtual time: they read the time and send requests through globals, which are
 * replaced for the length of a run. Their adapters are those of the board.
 */

import { pathToFileURL } from 'node:url';
import { BASE_URL } from '../world/service.ts';
import type { Subject, Tools } from './subjects.ts';

/** What an adapter of `test/bench/peers` opens. */
interface Peer {
  getToken(accessKey: string): Promise<string>;
  renew(accessKey: string, token: string): Promise<string>;
  close(): void;
}

/** The folder from which `npm run arena` is run. */
const PEERS = `${process.cwd()}/test/bench/peers`;

export const peers: readonly Subject[] = [
  peer('openid-client', 'openid-client', 'openidClient'),
  peer('badgateway', 'badgateway', 'badgateway'),
];

function peer(name: string, file: string, exported: string): Subject {
  return {
    name,
    async create(tools) {
      const { [exported]: adapter } = await import(pathToFileURL(`${PEERS}/${file}.mjs`).href);
      const restore = replaceGlobals(tools);
      const credentials = {
        tokenUrl: `${BASE_URL}/auth/v1/token`,
        clientId: 'client',
        clientSecret: 'a-client-secret',
      };
      const client: Peer = await adapter.open(credentials);
      /** Tokens that the API refused: the next call renews them, as the libraries' own wrappers of `fetch` do. */
      const rejected = new Map<string, string>();
      return {
        async getToken(key) {
          const token = rejected.get(key);
          if (token === undefined) return client.getToken(key);
          rejected.delete(key);
          return client.renew(key, token);
        },
        reject: (key, token) => void rejected.set(key, token),
        close: () => {
          client.close();
          restore();
        },
      };
    },
  };
}

/** Returns a function that puts them back. */
function replaceGlobals({ fetch, clock }: Tools): () => void {
  const { setTimeout, clearTimeout } = globalThis;
  const real = { fetch: globalThis.fetch, setTimeout, clearTimeout };
  const realTimeout = AbortSignal.timeout;
  const virtual = {
    // They read a standard `Response`.
    fetch: async (url: unknown, init?: RequestInit) => {
      const { status, headers, text } = await fetch(url, init);
      return new Response(await text(), { status, headers: [...headers] });
    },
    setTimeout: (fn: () => void, ms = 0) => {
      const cancel = clock.setTimeout(fn, ms);
      return { cancel, unref: () => undefined };
    },
    clearTimeout: (timer?: { cancel(): void }) => timer?.cancel(),
  };
  Object.assign(globalThis, virtual);
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    clock.setTimeout(() => controller.abort(new DOMException('timeout', 'TimeoutError')), ms);
    return controller.signal;
  };
  return () => {
    Object.assign(globalThis, real);
    AbortSignal.timeout = realTimeout;
  };
}
