/** Runs scripts with a client of either family, and notices a failed attempt to connect. */

import type { RecordScript } from './record-scripts.ts';

interface ReconnectingEvents {
  on?(event: 'reconnecting', listener: () => void): unknown;
  listeners?(event: 'reconnecting'): readonly unknown[];
}

/** Listens for failed attempts to connect. */
interface AttemptListener {
  (): void;
  readonly [IS_OURS]: true;
  hasFailed: boolean;
}

const IS_OURS = Symbol.for('owner-token-registry.attempt-listener');

/** One listener per client, whatever number of ports use it: Node warns of a leak from eleven on. */
function attemptListenerOf(client: ReconnectingEvents): AttemptListener {
  const isOurs = (listener: unknown): listener is AttemptListener => IS_OURS in (listener as AttemptListener);
  const known = client.listeners?.('reconnecting').find(isOurs);
  if (known) return known;
  const note = () => {
    listener.hasFailed = true;
  };
  const listener: AttemptListener = Object.assign(note, { [IS_OURS]: true as const, hasFailed: false });
  // Both families emit it after an attempt that failed.
  client.on?.('reconnecting', listener);
  return listener;
}

/**
 * Sends the whole script until the server has run it, and from then on its digest. A digest that the server does not know
 * would cost a second round trip and a second command, for each call of a fleet that starts over an overloaded Redis.
 */
export class ScriptRunner {
  readonly #known = new Set<RecordScript>();
  readonly #attempts: AttemptListener;

  constructor(client: ReconnectingEvents) {
    this.#attempts = attemptListenerOf(client);
  }

  /** Whether an attempt to connect has failed. */
  get hasFailedToConnect(): boolean {
    return this.#attempts.hasFailed;
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
    this.#known.add(script);
    return reply;
  }
}
