/** Runs scripts with a client of either family, and notices a failed attempt to connect before the first reply. */

import type { RecordScript } from './record-scripts.ts';

interface ReconnectingEvents {
  on?(event: 'reconnecting', listener: () => void): unknown;
  off?(event: 'reconnecting', listener: () => void): unknown;
  listenerCount?(event: 'reconnecting'): number;
}

/** Node warns of a leak from eleven on. */
const MAX_LISTENERS = 8;

/**
 * Sends the whole script until the server has run it, and from then on its digest. A digest that the server does not know
 * would cost a second round trip and a second command, for each call of a fleet that starts over an overloaded Redis.
 */
export class ScriptRunner {
  readonly #client: ReconnectingEvents;
  readonly #known = new Set<RecordScript>();
  #hasFailedToConnect = false;
  /** Both families emit `reconnecting` after an attempt that failed. */
  readonly #onReconnecting = () => {
    this.#hasFailedToConnect = true;
  };

  constructor(client: ReconnectingEvents) {
    this.#client = client;
    const listeners = client.listenerCount?.('reconnecting') ?? 0;
    if (listeners < MAX_LISTENERS) client.on?.('reconnecting', this.#onReconnecting);
  }

  /** Whether an attempt to connect is known to have failed before the first reply. */
  get hasFailedToConnect(): boolean {
    return this.#hasFailedToConnect;
  }

  async run(script: RecordScript, bySha: () => Promise<unknown>, whole: () => Promise<unknown>): Promise<unknown> {
    if (this.#known.has(script)) {
      try {
        return await bySha();
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
        this.#known.delete(script);
      }
    }
    const reply = await whole();
    this.#client.off?.('reconnecting', this.#onReconnecting);
    this.#known.add(script);
    return reply;
  }
}
