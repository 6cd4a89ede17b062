/** What a scene has at hand: the library under its adapter, the service's script and ledger, the clock, calls. */

import { createHash } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { clock } from './clock.mjs';
import { idOf } from './players.mjs';

const realSetTimeout = setTimeout;
export const SECRET = 'canary-client-secret';

export class Scene {
  clock = clock;
  wrongTokens = 0;
  player;
  #service;
  #controlUrl;
  #loop;

  constructor({ player, tokenUrl, controlUrl }) {
    this.player = player;
    this.#service = { tokenUrl, clientId: 'board-client', clientSecret: SECRET };
    this.#controlUrl = controlUrl;
  }

  realTimeout = (fn, ms) => realSetTimeout(fn, ms).unref();

  /**
   * After a 401 every library follows one rule, whatever its own `renew` does: if the owner's token is no longer the one
   * that was refused, it is used; only otherwise it is renewed.
   *
   * @param changes of the service's address or credentials
   */
  async open(changes = {}) {
    const opened = await this.player.open({ ...this.#service, ...changes });
    const renew = async (accessKey, refused) => {
      const held = await opened.getToken(accessKey);
      return held === refused ? opened.renew(accessKey, refused) : held;
    };
    return { ...opened, renew };
  }

  /** The arguments of `replica.mjs`. */
  replicaOf = (redisPort) => [idOf(this.player), this.#service.tokenUrl, String(redisPort)];

  /** Makes the service do this from now on; its ledger begins anew unless `keepLedger`. */
  async script(script) {
    await fetch(this.#controlUrl, { method: 'POST', body: JSON.stringify(script) });
  }

  async ledger() {
    return (await fetch(this.#controlUrl)).json();
  }

  /** Calls once; verifies that the token is the owner's. Never throws. */
  async call(key, get) {
    const startedMs = clock.realNow();
    try {
      const token = await get(key);
      // Some resolve with nothing when the answer had no token in it.
      if (!token) throw new Error('resolved without a token');
      if (!isOf(key, token)) this.wrongTokens++;
      return { key, ok: true, token, ms: clock.realNow() - startedMs };
    } catch (error) {
      return { key, ok: false, error, ms: clock.realNow() - startedMs };
    }
  }

  /**
   * Calls all of them at once, though the event loop may turn after every hundredth, so that a stall is not that of this
   * very loop. Gives their outcomes, and how long it took in seconds.
   */
  async callAll(keys, get) {
    const startedMs = clock.realNow();
    const calls = [];
    for (const key of keys) {
      if (calls.push(this.call(key, get)) % 100 === 0) await new Promise(setImmediate);
    }
    const outcomes = await Promise.all(calls);
    return { outcomes, failed: outcomes.filter(({ ok }) => !ok).length, seconds: (clock.realNow() - startedMs) / 1000 };
  }

  /** Calls until it is served: waits as long as the error says, or else a quarter of a second. */
  async callUntilServed(key, get, forMs) {
    const endMs = clock.realNow() + forMs;
    for (let calls = 1; ; calls++) {
      const outcome = await this.call(key, get);
      if (outcome.ok || clock.realNow() >= endMs) return { ...outcome, calls };
      const { retryAtMs } = outcome.error ?? {};
      const waitMs = retryAtMs === undefined ? 250 : retryAtMs - Date.now();
      await clock.sleep(Math.min(Math.max(waitMs, 10), 5_000));
    }
  }

  isTokenOf = isOf;

  watchLoop() {
    this.#loop = monitorEventLoopDelay({ resolution: 5 });
    this.#loop.enable();
  }

  /** The longest time in milliseconds that the event loop stood still since. */
  longestStallMs() {
    this.#loop.disable();
    return this.#loop.max / 1e6;
  }
}

const digest = (key) => createHash('sha256').update(key).digest('hex').slice(0, 16);
const isOf = (key, token) => typeof token === 'string' && token.startsWith(`tk.${digest(key)}.`);

export const keysOf = (count, prefix = 'access-key') => Array.from({ length: count }, (_, n) => `${prefix}-${n}`);

export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** `1 fails`, `2 fail`. */
export const fails = (count) => (count === 0 ? 'none fails' : count === 1 ? '1 fails' : `${number(count)} fail`);
export const seconds = (value) => `${value.toFixed(1)} s`;
export const number = (value) => Math.round(value).toLocaleString('en');
