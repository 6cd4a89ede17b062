/** Runs scripts with a client of either family, and notices a failed attempt to connect. */

import type { RecordScript } from './record-scripts.ts';

interface ReconnectingEvents {
  on?(event: 'reconnecting', listener: () => void): unknown;
}

/** What is known of a client's attempts to connect. */
interface Attempts {
  hasFailed: boolean;
}

/** One listener per client, whatever number of ports use it: Node warns of a leak from eleven on. */
const attemptsOf = new WeakMap<ReconnectingEvents, Attempts>();

/** Both families emit `reconnecting` after an attempt that failed. */
function watchAttempts(client: ReconnectingEvents): Attempts {
  const known = attemptsOf.get(client);
  if (known) return known;
  const attempts = { hasFailed: false };
  attemptsOf.set(client, attempts);
  client.on?.('reconnecting', () => {
    attempts.hasFailed = true;
  });
  return attempts;
}

/**
 * Sends the whole script until the server has run it, and from then on its digest. A digest that the server does not know
 * would cost a second round trip and a second command, for each call of a fleet that starts over an overloaded Redis.
 */
export class ScriptRunner {
  readonly #known = new Set<RecordScript>();
  readonly #attempts: Attempts;

  constructor(client: ReconnectingEvents) {
    this.#attempts = watchAttempts(client);
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
