/**
 * Everything the registry tells: one function for each event, to a diagnostics channel and to the log. Nothing else in
 * the core logs. Fields are fixed and hold names, numbers and codes; there is no way to hand a secret in.
 *
 * Telling never breaks what is told of: a logger that throws goes unheard.
 */

import { type Channel, channel, tracingChannel } from 'node:diagnostics_channel';
import { pino } from 'pino';
import { type OwnerTokenError, ScrubbedCause } from './errors.ts';
import type { RequestReason } from './token.ts';

type LogFunction = (fields: object, message: string) => void;

/** The part of pino's logger that is used; any logger with these methods will do. */
export interface Logger {
  debug: LogFunction;
  info: LogFunction;
  warn: LogFunction;
}

/** A level for a logger that the registry makes itself, writing to standard output. */
export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
export const LEVELS: readonly Level[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** How a call was answered: from what is held, by waiting for a request under way or a new one, or not at all. */
export type LookupOutcome = 'serve' | 'serve-and-refresh' | 'wait' | 'request' | 'refuse';

/** What subscribers of `owner-token-registry:lookup` get. */
export interface LookupMessage {
  readonly owner: string;
  readonly outcome: LookupOutcome;
}

/** What subscribers of `tracing:owner-token-registry:request:*` get; the same object from start to end. */
export interface RequestMessage {
  readonly owner: string;
  readonly reason: RequestReason;
  /** Fingerprint of the token obtained. */
  token?: string;
  expiresAtMs?: number;
  error?: OwnerTokenError;
}

/** What subscribers of `owner-token-registry:rejection` get. */
export interface RejectionMessage {
  readonly owner: string;
  readonly token: string;
  /** Whether that very token was held; a late rejection of an older one changes nothing. */
  readonly wasHeld: boolean;
}

/** What subscribers of `owner-token-registry:pause` get. */
export interface PauseMessage {
  readonly scope: 'owner' | 'client' | 'endpoint';
  readonly action: 'paused' | 'lifted';
  /** The owner concerned, where it is one. */
  readonly owner?: string;
  readonly code?: string;
  readonly retryAtMs?: number;
}

const lookups: Channel = channel('owner-token-registry:lookup');
const rejections: Channel = channel('owner-token-registry:rejection');
const pauses: Channel = channel('owner-token-registry:pause');
const requests = tracingChannel<object, RequestMessage>('owner-token-registry:request');

const SILENT: Logger = { debug: () => {}, info: () => {}, warn: () => {} };

/** One registry's voice. */
export class Diagnostics {
  readonly #logger: Logger;
  /** What has been warned of once; bounded by the kinds of warning there are. */
  readonly #warned = new Set<string>();

  constructor(logger: Logger | Level | undefined) {
    if (logger === undefined) this.#logger = SILENT;
    else if (typeof logger === 'string') this.#logger = pino({ name: 'owner-token-registry', level: logger });
    else this.#logger = logger;
  }

  /** Whether anybody listens to lookups: asked first, so that a hit costs nothing more when nobody does. */
  get hearsLookups(): boolean {
    return lookups.hasSubscribers;
  }

  lookup(owner: string, outcome: LookupOutcome): void {
    if (lookups.hasSubscribers) lookups.publish({ owner, outcome } satisfies LookupMessage);
  }

  /** Runs a request inside its trace, so that what it calls (an HTTP client, say) becomes part of it. */
  requestSent<T>(message: RequestMessage, send: () => Promise<T>): Promise<T> {
    this.#log('debug', { event: 'request.sent', owner: message.owner, reason: message.reason }, 'token request sent');
    if (!requests.start.hasSubscribers) return send();
    return requests.start.runStores(message, () => {
      const sent = send();
      requests.end.publish(message);
      return sent;
    });
  }

  requestSucceeded(message: RequestMessage): void {
    const { owner, reason, token, expiresAtMs } = message;
    this.#log('debug', { event: 'request.succeeded', owner, reason, token, expiresAtMs }, 'token obtained');
    this.#requestOver(message);
  }

  requestFailed(message: RequestMessage, error: OwnerTokenError): void {
    message.error = error;
    const { owner, reason } = message;
    const { code, failureScope, status, oauthError, retryAtMs } = error;
    const fields = { event: 'request.failed', owner, reason, code, failureScope, status, oauthError, retryAtMs };
    this.#log('warn', fields, 'token request failed');
    if (requests.error.hasSubscribers) requests.error.publish(message);
    this.#requestOver(message);
  }

  rejected(message: RejectionMessage): void {
    this.#log('info', { event: 'token.rejected', ...message }, 'token reported as refused');
    if (rejections.hasSubscribers) rejections.publish(message);
  }

  paused(message: Omit<PauseMessage, 'action'>): void {
    // An owner's pause is told by its failed request already. One of all owners, or of tokens refused, is news of its own.
    if (message.scope !== 'owner' || message.code === 'token_rejected')
      this.#log('warn', { event: 'pause.began', ...message }, 'token requests paused');
    if (pauses.hasSubscribers) pauses.publish({ ...message, action: 'paused' } satisfies PauseMessage);
  }

  lifted(scope: PauseMessage['scope'], owner?: string): void {
    const fields = { scope, ...(owner !== undefined && { owner }) };
    this.#log('info', { event: 'pause.lifted', ...fields }, 'pause lifted');
    if (pauses.hasSubscribers) pauses.publish({ ...fields, action: 'lifted' } satisfies PauseMessage);
  }

  evicted(owner: string): void {
    this.#log('debug', { event: 'owner.evicted', owner }, 'least recently used owner dropped');
  }

  /** Once for each kind. */
  lifetimeUnknown(owner: string, kind: string, assumedMs: number): void {
    const message = 'the lifetime of tokens is not known: set an expiry policy (docs/expiry.md)';
    this.#warnOnce(`lifetime ${kind}`, { event: 'lifetime.unknown', owner, kind, assumedMs }, message);
  }

  /** A function of the user's that only tells threw; once for each. */
  hookFailed(hook: 'expiry.accepted' | 'expiry.rejected' | 'source.close', thrown: unknown): void {
    const fields = { event: 'hook.failed', hook, cause: ScrubbedCause.of(thrown) };
    this.#warnOnce(`hook ${hook}`, fields, `${hook} threw; it was ignored`);
  }

  closed(abandoned: number): void {
    this.#log('info', { event: 'registry.closed', abandoned }, 'registry closed');
  }

  #requestOver(message: RequestMessage): void {
    if (requests.asyncStart.hasSubscribers) requests.asyncStart.publish(message);
    if (requests.asyncEnd.hasSubscribers) requests.asyncEnd.publish(message);
  }

  #warnOnce(kind: string, fields: object, message: string): void {
    if (this.#warned.has(kind)) return;
    this.#warned.add(kind);
    this.#log('warn', fields, message);
  }

  #log(level: keyof Logger, fields: object, message: string): void {
    try {
      this.#logger[level](fields, message);
    } catch {
      // There is nowhere left to say so.
    }
  }
}
