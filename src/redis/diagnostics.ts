/**
 * What sharing reports: state changes, once each, on the diagnostics channel `owner-token-registry:sharing` and in the log.
 * No message has a field that could hold a secret.
 */

import { channel } from 'node:diagnostics_channel';
import type { Logger } from '../logger.ts';
import type { RedisTrouble } from './redis-link.ts';

/** A message on `owner-token-registry:sharing`. */
export type SharingMessage =
  /** Redis is unavailable: each replica requests its own tokens until `resumed`. */
  | { readonly event: 'suspended'; readonly trouble: RedisTrouble }
  | { readonly event: 'resumed' }
  /** A stored value did not open: it is damaged, forged, or sealed with a key this replica does not have. */
  | { readonly event: 'unreadable'; readonly count: number }
  /** The subscription failed: followers poll until it is tried again. */
  | { readonly event: 'subscribe_failed' }
  /** Replicas with the same prefix derive other names: their sealing or naming keys differ from this one's. */
  | { readonly event: 'key_mismatch'; readonly replicas: number };

const sharing = channel('owner-token-registry:sharing');

/** The log gets the 1st, 10th, 100th … unreadable value. */
const isPowerOfTen = (count: number): boolean => /^10*$/.test(`${count}`);

export class SharingDiagnostics {
  readonly #logger: Pick<Logger, 'info' | 'warn'> | undefined;
  #unreadable = 0;
  #strangers = 0;

  constructor(logger: Pick<Logger, 'info' | 'warn'> | undefined) {
    this.#logger = logger;
  }

  get unreadableCount(): number {
    return this.#unreadable;
  }

  suspended(trouble: RedisTrouble): void {
    this.#emit('warn', { event: 'suspended', trouble }, 'tokens are not shared: Redis is unavailable');
  }

  resumed(): void {
    this.#emit('info', { event: 'resumed' }, 'tokens are shared again');
  }

  unreadable(): void {
    const count = ++this.#unreadable;
    const level = isPowerOfTen(count) ? 'warn' : undefined;
    this.#emit(
      level,
      { event: 'unreadable', count },
      'a stored token does not open: do all replicas have the same keys?',
    );
  }

  subscribeFailed(): void {
    this.#emit('warn', { event: 'subscribe_failed' }, 'cannot subscribe to wake-ups: followers poll instead');
  }

  /** @param replicas number of replicas with another naming key; reported when it rises from 0. */
  strangers(replicas: number): void {
    if (replicas > 0 && this.#strangers === 0) {
      const text = 'replicas with this prefix have another key: they share nothing with this one';
      this.#emit('warn', { event: 'key_mismatch', replicas }, text);
    }
    this.#strangers = replicas;
  }

  #emit(level: 'info' | 'warn' | undefined, message: SharingMessage, text: string): void {
    if (sharing.hasSubscribers) sharing.publish(message);
    if (!level) return;
    const { event, ...fields } = message;
    try {
      this.#logger?.[level]({ event: `sharing.${event}`, ...fields }, text);
    } catch {
      // Reporting never fails a call.
    }
  }
}
