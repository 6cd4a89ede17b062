/**
 * What sharing reports: state changes, once each, on the diagnostics channel `owner-token-registry:sharing` and in the log.
 * {@link SHARING_EVENTS} lists the log lines. No message has a field that could hold a secret.
 */

import { channel } from 'node:diagnostics_channel';
import type { Level, Logger, LogLine } from '../reporting/logger.ts';
import { isEnabled, loggerFor, logLine, writeLine } from '../reporting/logger.ts';
import type { RedisTrouble } from './redis-link.ts';

/**
 * What changed in how a replica shares tokens.
 *
 * @example
 * ```ts
 * const alarming: SharingEvent[] = ['suspended', 'key_mismatch'];
 * ```
 */
export type SharingEvent =
  | 'suspended'
  | 'resumed'
  | 'unreadable'
  | 'subscribe_failed'
  | 'key_mismatch'
  | 'unidentified'
  | 'clock_behind'
  | 'forget_delayed'
  | 'second_registry';

/**
 * Message of `owner-token-registry:sharing`.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 *
 * subscribe('owner-token-registry:sharing', (message) => {
 *   const { registry, event, trouble } = message as SharingMessage;
 *   console.log(registry, event, trouble); // such as: crm suspended timeout
 * });
 * ```
 */
export interface SharingMessage {
  /** Name of the registry: the option `name` of `SharedTokens`. */
  readonly registry: string;
  /**
   * `suspended`: Redis is unavailable, and each replica requests its own tokens until `resumed`. `unreadable`: a stored
   * value could not be decrypted: it is damaged, forged, or sealed with a key that this replica does not have.
   * `subscribe_failed`: followers poll until the next attempt to subscribe. `key_mismatch`: replicas with the same
   * prefix derive other names, because their sealing or naming keys differ from this one's. `unidentified`: the source's
   * `identity()` failed, so a call was not shared: the option `identity` states one. `clock_behind`: the clock of the Redis
   * server was set back, or is behind that of another server of the same deployment. `forget_delayed`: the other replicas
   * cannot be told now that an owner was forgotten; they are told when Redis is back. `second_registry`: one more registry has
   * this `SharedTokens`; it gets no news of other replicas.
   */
  readonly event: SharingEvent;
  /** With `suspended`: why Redis is unavailable. */
  readonly trouble?: RedisTrouble;
  /** With `suspended`: the code of the server's error reply, such as `MISCONF`, if it was one. */
  readonly redisCode?: string | undefined;
  /** With `unreadable`: how many values could not be decrypted so far. With `unidentified`: how many calls were not shared. */
  readonly count?: number;
  /** With `key_mismatch`: how many replicas have other keys. */
  readonly replicas?: number;
  /** With `clock_behind`: how far, in milliseconds. */
  readonly behindMs?: number;
}

/** Every log line of sharing. Each also has the fields `event` and `registry`, like the registry's own. */
export const SHARING_EVENTS = Object.freeze({
  'sharing.suspended': logLine<'trouble' | 'redisCode'>('warn', 'tokens are not shared: Redis is unavailable'),
  'sharing.resumed': logLine('info', 'tokens are shared again'),
  'sharing.unreadable': logLine<'count'>('warn', 'cannot decrypt a stored token: do all replicas have the same keys?'),
  'sharing.subscribe_failed': logLine('warn', 'cannot subscribe to wake-ups: followers poll instead'),
  'sharing.key_mismatch': logLine<'replicas'>('warn', 'replicas with this prefix have other keys: they share nothing'),
  'sharing.unidentified': logLine<'count'>(
    'error',
    'tokens are not shared: identity() failed; set the option identity',
  ),
  'sharing.clock_behind': logLine<'behindMs'>('warn', "the Redis server's clock is behind: check its time service"),
  'sharing.forget_delayed': logLine('warn', 'an owner is forgotten here alone until Redis is available'),
  'sharing.second_registry': logLine('warn', 'a second registry over one SharedTokens gets no news of other replicas'),
} satisfies Readonly<Record<`sharing.${SharingEvent}`, LogLine<string>>>);

const sharing = channel('owner-token-registry:sharing');

/** The log gets the 1st, 10th, 100th … of frequent events. */
const isPowerOfTen = (count: number): boolean => /^10*$/.test(`${count}`);

export class SharingDiagnostics {
  readonly #registry: string;
  readonly #logger: Logger | undefined;
  /** Values that could not be decrypted, calls whose identity failed, and replicas with another naming key, at the last count. */
  readonly counts = { unreadable: 0, unidentified: 0, mismatched: 0 };

  constructor(registry: string, logger: Logger | Level | undefined) {
    this.#registry = registry;
    this.#logger = loggerFor(logger);
  }

  count(event: 'unreadable' | 'unidentified'): void {
    const count = ++this.counts[event];
    this.report(event, { count }, isPowerOfTen(count));
  }

  /** @param replicas number of replicas with another naming key; reported when it rises from 0. */
  keyMismatch(replicas: number): void {
    if (replicas > 0 && this.counts.mismatched === 0) this.report('key_mismatch', { replicas });
    this.counts.mismatched = replicas;
  }

  report(event: SharingEvent, fields: Omit<SharingMessage, 'registry' | 'event'> = {}, isLogged = true): void {
    const registry = this.#registry;
    if (sharing.hasSubscribers) sharing.publish({ registry, event, ...fields } satisfies SharingMessage);
    if (!isLogged || !this.#logger) return;
    const { level, message } = SHARING_EVENTS[`sharing.${event}`];
    try {
      if (isEnabled(this.#logger, level))
        writeLine(this.#logger, level, { event: `sharing.${event}`, registry, ...fields }, message);
    } catch {
      // A logger must not fail a call.
    }
  }
}
