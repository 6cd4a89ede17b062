/**
 * Everything that sharing tells, to the diagnostics channel `owner-token-registry:sharing` and to the log; nothing else
 * in here does. Changes of state are told once each. There is no way to hand a secret in.
 */

import { channel } from 'node:diagnostics_channel';
import type { Logger } from '../diagnostics.ts';
import type { RedisTrouble } from './redis-link.ts';

/** What subscribers of `owner-token-registry:sharing` get. */
export type SharingMessage =
  /** Redis is of no help: each replica works on alone until `resumed`. */
  | { readonly event: 'suspended'; readonly trouble: RedisTrouble }
  | { readonly event: 'resumed' }
  /** A stored value that does not open: damage, another key, or somebody else's hand. Counted. */
  | { readonly event: 'unreadable'; readonly count: number }
  /** Subscribing failed: waiters look again from time to time instead. */
  | { readonly event: 'deaf' };

const sharing = channel('owner-token-registry:sharing');

/** A value is told of in the log at its 1st, 10th, 100th … */
const isPowerOfTen = (count: number): boolean => /^10*$/.test(`${count}`);

export class SharingEvents {
  readonly #logger: Pick<Logger, 'info' | 'warn'> | undefined;
  #unreadable = 0;

  constructor(logger: Pick<Logger, 'info' | 'warn'> | undefined) {
    this.#logger = logger;
  }

  get unreadableCount(): number {
    return this.#unreadable;
  }

  suspended(trouble: RedisTrouble): void {
    this.#tell('warn', { event: 'suspended', trouble }, 'tokens are not shared: Redis is of no help');
  }

  resumed(): void {
    this.#tell('info', { event: 'resumed' }, 'tokens are shared again');
  }

  unreadable(): void {
    const count = ++this.#unreadable;
    const level = isPowerOfTen(count) ? 'warn' : undefined;
    this.#tell(level, { event: 'unreadable', count }, 'a shared token does not open: are all sealing keys the same?');
  }

  deaf(): void {
    this.#tell('warn', { event: 'deaf' }, 'cannot subscribe: waiters look again from time to time instead');
  }

  #tell(level: 'info' | 'warn' | undefined, message: SharingMessage, text: string): void {
    if (sharing.hasSubscribers) sharing.publish(message);
    if (!level) return;
    const { event, ...fields } = message;
    try {
      this.#logger?.[level]({ event: `sharing.${event}`, ...fields }, text);
    } catch {
      // A logger that throws goes unheard.
    }
  }
}
