/**
 * Who plays the scenes: what a team writes in ten lines, in three ways that differ only in what a 401 of the API means to
 * them, and the registry. Each of the three is best somewhere: `keep` where the API is at fault, `renew` where the token is.
 */

import { type Clock, type OwnerFetch, OwnerTokenRegistry } from '../../../src/index.ts';
import type { Service } from '../../world/service.ts';
import type { ApiScene } from './scene.ts';

/** What a subject gets. It uses no other time, randomness or network. */
export interface ApiTools {
  readonly requestToken: Service['requestToken'];
  readonly callApi: Service['callApi'];
  readonly clock: Clock;
  readonly random: () => number;
  readonly scene: ApiScene;
}

export interface ApiClient {
  /** Makes a call of this owner. Resolves to the API's last status. */
  call(accessKey: string, route: string): Promise<number>;
  close?(): void;
}

export interface ApiSubject {
  readonly name: string;
  create(tools: ApiTools): ApiClient;
}

const ORIGIN = 'https://api.example';
const MARGIN_MS = 10_000;
const OLD_MS = 10_000;

/** Keeps a token until its stated end; the caller gets the 401. */
export const keep = cached('keep', () => false);
/** Gets a new token at each 401, and makes the call once more. */
export const renew = cached('renew', () => true);
/** As `renew`, but only if the token is older than ten seconds. */
export const renewOld = cached('renew old', (ageMs) => ageMs > OLD_MS);

/** The registry with its defaults and those of the scene. */
export const apiRegistry: ApiSubject = {
  name: 'registry',
  create({ requestToken, callApi, clock, random, scene }) {
    const source = { origin: ORIGIN, requestToken };
    const tokens = new OwnerTokenRegistry({ source, clock, random, ...scene.options });
    const fetches = new Map<string, OwnerFetch>();
    const fetchOf = (accessKey: string) => {
      const known = fetches.get(accessKey);
      if (known) return known;
      const fetch = async (input: unknown, init?: RequestInit) => {
        const [, token = ''] = new Headers(init?.headers).get('authorization')?.split(' ') ?? [];
        const status = await callApi(accessKey, token, new URL(String(input)).pathname);
        return { status, headers: new Headers(), body: null } as Response;
      };
      const ownerFetch = tokens.ownerFetch(accessKey, { fetch });
      fetches.set(accessKey, ownerFetch);
      return ownerFetch;
    };
    const byFetch = async (accessKey: string, route: string) => (await fetchOf(accessKey)(`${ORIGIN}${route}`)).status;
    const byHand = async (accessKey: string, route: string) => {
      const token = await tokens.getToken(accessKey);
      const status = await callApi(accessKey, token.value, route);
      if (status === 401) tokens.reject(accessKey, token);
      else if (scene.accepts) tokens.accept(accessKey, token);
      return status;
    };
    return {
      call: scene.style === 'hand' ? byHand : byFetch,
      close: () => void tokens.close({ timeoutMs: 0 }),
    };
  },
};

interface Held {
  readonly value: string;
  readonly fromMs: number;
  readonly endsMs: number;
}

/** A cache and one request per owner at a time. @param drops whether a token of this age is dropped at a 401. */
function cached(name: string, drops: (ageMs: number) => boolean): ApiSubject {
  return {
    name,
    create({ requestToken, callApi, clock, scene }) {
      const cache = new Map<string, Held>();
      const inFlight = new Map<string, Promise<Held>>();
      const request = async (key: string): Promise<Held> => {
        const { token: value, requestedAtMs = 0 } = await requestToken(key);
        const lifeMs = scene.tokenLifeS * 1_000;
        const endsMs = requestedAtMs + lifeMs - Math.min(MARGIN_MS, lifeMs / 20);
        const held = { value, fromMs: requestedAtMs, endsMs };
        cache.set(key, held);
        return held;
      };
      const tokenOf = (key: string): Held | Promise<Held> => {
        const held = cache.get(key);
        if (held && clock.now() < held.endsMs) return held;
        const shared = inFlight.get(key) ?? request(key).finally(() => inFlight.delete(key));
        inFlight.set(key, shared);
        return shared;
      };
      const attempt = async (key: string, route: string) => {
        const held = await tokenOf(key);
        const status = await callApi(key, held.value, route);
        const isDropped = status === 401 && drops(clock.now() - held.fromMs);
        if (isDropped && cache.get(key) === held) cache.delete(key);
        return { status, isDropped };
      };
      return {
        async call(key, route) {
          const { status, isDropped } = await attempt(key, route);
          return isDropped && scene.style !== 'hand' ? (await attempt(key, route)).status : status;
        },
      };
    },
  };
}
