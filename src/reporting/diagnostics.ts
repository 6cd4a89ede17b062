/**
 * Everything that a registry reports. {@link LOG_EVENTS} lists the log lines and their fields: names, numbers and codes,
 * never secrets. {@link Diagnostics.emit} writes one; nothing else in the core logs. The other methods also publish to the
 * diagnostics channels of requests, lookups and pauses.
 *
 * Reporting never fails a call: errors thrown by a logger are ignored.
 */

import { type Channel, channel, tracingChannel } from 'node:diagnostics_channel';
import type { Instant } from '../clock.ts';
import type { FailureScope, OwnerTokenError, WiderScope } from '../errors/owner-token-error.ts';
import { ScrubbedCause } from '../errors/scrubbed-cause.ts';
import type { AccessToken } from '../token.ts';
import type { RequestReason } from '../token-source.ts';
import type {
  LookupMessage,
  LookupOutcome,
  PauseMessage,
  RejectionMessage,
  RequestMessage,
} from './channel-messages.ts';
import { type EventName, type FailureFields, type FieldsOf, LOG_EVENTS, ONCE_PER, TOKEN_KEPT } from './log-events.ts';
import { isEnabled, type Level, type Logger, type LogLine, loggerFor, writeLine } from './logger.ts';

/** Asked for subscribers before each report, so that a hit without any costs nothing extra. */
export const lookups: Channel = channel('owner-token-registry:lookup');
const rejections: Channel = channel('owner-token-registry:rejection');
const pauses: Channel = channel('owner-token-registry:pause');
const requests = tracingChannel<object, RequestMessage>('owner-token-registry:request');

/** An owner's slot. Its name may be computed when it is first read. */
type Named = { readonly owner: string };

export type PauseSubject = Named | WiderScope;

/** One scope's failures in a row, from the first pause to the recovery. */
interface Outage {
  readonly sinceMs: number;
  retryAtMonotonicMs: number;
  refused: number;
  /** Whether tokens were kept, and no request was paused. */
  isKept: boolean;
}

/** The settings of the registry that reports. */
interface Reporter {
  readonly name: string;
  readonly logger: Logger | Level | undefined;
  /** Address and port of the token endpoint; empty if the source has no origin. */
  readonly server: { readonly address?: string; readonly port?: number | undefined };
  readonly time: { now(): Instant };
}

/** The message of one call of the source. */
export class ReportedRequest implements RequestMessage {
  readonly registry: string;
  readonly reason: RequestReason;
  readonly queuedMs: number;
  /** Set by {@link withOwner}. */
  declare owner: string;
  declare canary?: true;
  declare durationMs?: number;
  declare error?: OwnerTokenError;
  declare run?: NonNullable<RequestMessage['run']>;
  readonly #slot: Named;
  readonly #sentAtMs: number;

  constructor(registry: string, slot: Named, reason: RequestReason, sentAtMs: number, queuedAtMs: number) {
    this.registry = registry;
    this.reason = reason;
    this.queuedMs = sentAtMs - queuedAtMs;
    this.#slot = slot;
    this.#sentAtMs = sentAtMs;
  }

  /** Adds `owner` when it is first needed, because a fingerprint is expensive. */
  withOwner(): this {
    this.owner ??= this.#slot.owner;
    return this;
  }

  ended(nowMs: number): void {
    this.durationMs = Math.round(nowMs - this.#sentAtMs);
  }
}

export class Diagnostics {
  readonly #registry: string;
  readonly #logger: Logger | undefined;
  readonly #server: Reporter['server'];
  readonly #time: Reporter['time'];
  /** Bounded by the number of kinds of warnings. */
  readonly #warned = new Set<string>();
  /** By slot, so that an owner's outage ends with its slot; by the next two objects for the wider scopes. */
  readonly #outages = new WeakMap<object, Outage>();
  readonly #circuits = { client: {}, endpoint: {} };
  /** When the outage of an owner, or of a wider scope, began, on the monotonic clock. */
  readonly failingSinceMs = (paused: PauseSubject): number | undefined =>
    this.#outages.get(this.#keyOf(paused))?.sinceMs;

  constructor({ name, logger, server, time }: Reporter) {
    this.#registry = name;
    this.#logger = loggerFor(logger);
    this.#server = server;
    this.#time = time;
  }

  /** For calls while {@link lookups} has subscribers: hits do not even call this without. */
  lookup(slot: Named, outcome: LookupOutcome): void {
    lookups.publish({ registry: this.#registry, owner: slot.owner, outcome } satisfies LookupMessage);
  }

  /** Writes a line to the log. The fields are computed only if it is written. */
  emit<E extends EventName>(event: E, fieldsOf: () => FieldsOf<E>, line: LogLine<string> = LOG_EVENTS[event]): void {
    if (this.#logger === undefined) return;
    const { level, message } = line;
    try {
      if (!isEnabled(this.#logger, level)) return;
      const fields: Record<string, unknown> = { event, registry: this.#registry, ...fieldsOf() };
      const per = ONCE_PER[event];
      if (per && this.#warned.size === this.#warned.add(`${event} ${fields[per]}`).size) return;
      writeLine(this.#logger, level, fields, message);
    } catch {
      // A logger must not fail a call, and there is nowhere else to report this.
    }
  }

  /** Runs a request inside its trace, so that what it calls (an HTTP client, for example) becomes part of it. */
  requestSent<T>(message: ReportedRequest, send: () => Promise<T>): Promise<T> {
    const { reason, canary } = message;
    this.emit('request.sent', () => ({ owner: message.withOwner().owner, reason, canary }));
    if (!requests.start.hasSubscribers) return send();
    return requests.start.runStores(message.withOwner(), () => {
      const run = Object.hasOwn(message, 'run') && message.run;
      const sent = run ? run(send) : send();
      requests.end.publish(message);
      return sent;
    });
  }

  requestSucceeded(message: ReportedRequest, token: AccessToken, slot: Named, nowMs: number): void {
    message.ended(nowMs);
    const { reason, durationMs } = message;
    this.emit('request.succeeded', () => ({ owner: slot.owner, reason, durationMs, ...issuedFields(token) }));
    this.#publishOutcome(message, token);
  }

  /** Ends the owner's outage, if there was one. */
  recovered(slot: Named): void {
    if (this.#outages.has(slot)) this.lifted(slot);
  }

  requestFailed(message: ReportedRequest, error: OwnerTokenError): void {
    message.error = error;
    message.ended(this.#time.now().monotonicMs);
    this.emit('request.failed', () => ({ reason: message.reason, ...this.#failureFields(error, message) }));
    if (requests.error.hasSubscribers) requests.error.publish(message.withOwner());
    this.#publishOutcome(message);
  }

  /** The request was aborted because no caller waits for it any more; it has neither a token nor an error. */
  requestAbandoned(message: ReportedRequest): void {
    message.ended(this.#time.now().monotonicMs);
    this.#publishOutcome(message);
  }

  /**
   * A pause began or was extended. Reported once, no matter how many requests fail during it.
   *
   * @param error the failure, with the pause's `failureScope` and `retryAtMs`.
   * @param request the request that failed; absent when the API rejected a token, so that the token is kept.
   */
  paused(
    subject: PauseSubject,
    { retryAtMonotonicMs }: { readonly retryAtMonotonicMs: number },
    error: OwnerTokenError,
    request?: ReportedRequest,
  ): void {
    const key = this.#keyOf(subject);
    const outage = this.#outages.get(key);
    const isKept = error.code === 'token_rejected' && !request;
    if (outage) outage.isKept &&= isKept;
    if (outage && retryAtMonotonicMs <= outage.retryAtMonotonicMs) return;
    if (outage) outage.retryAtMonotonicMs = retryAtMonotonicMs;
    else {
      const sinceMs = this.#time.now().monotonicMs - (request?.durationMs ?? 0);
      this.#outages.set(key, { sinceMs, retryAtMonotonicMs, refused: 0, isKept });
    }
    // The API rejected the token, not the server that issued it.
    const server = isKept ? {} : this.#server;
    this.emit('pause.began', () => this.#failureFields(error, request, server), lineOf(subject, isKept));
    const { code, retryAtMs } = error;
    this.#publishPause(subject, { action: 'paused', code, ...(retryAtMs !== undefined && { retryAtMs }) });
  }

  /** Calls were refused by a pause. */
  refused(subject: PauseSubject, calls = 1): void {
    const outage = this.#outages.get(this.#keyOf(subject));
    if (outage) outage.refused += calls;
  }

  lifted(subject: PauseSubject): void {
    const key = this.#keyOf(subject);
    const outage = this.#outages.get(key);
    this.#outages.delete(key);
    const since = outage && {
      durationMs: Math.round(this.#time.now().monotonicMs - outage.sinceMs),
      refused: outage.refused,
    };
    const owner = typeof subject === 'string' ? undefined : subject.owner;
    const line = outage?.isKept ? TOKEN_KEPT.lifted : LOG_EVENTS['pause.lifted'];
    this.emit('pause.lifted', () => ({ failureScope: scopeOf(subject), owner, ...since }), line);
    this.#publishPause(subject, { action: 'lifted', ...since });
  }

  rejected(slot: Named, token: string, wasHeld: boolean): void {
    this.emit('token.rejected', () => ({ owner: slot.owner, token, wasHeld }));
    if (!rejections.hasSubscribers) return;
    rejections.publish({ registry: this.#registry, owner: slot.owner, token, wasHeld } satisfies RejectionMessage);
  }

  /** A user's function threw, but its result is not needed. */
  hookFailed(hook: 'expiry.accepted' | 'expiry.rejected' | 'source.close' | 'source.forget', thrown: unknown): void {
    this.emit('hook.failed', () => ({ hook, cause: ScrubbedCause.of(thrown) }));
  }

  #failureFields(error: OwnerTokenError, request?: ReportedRequest, server = this.#server): FailureFields {
    const { code, message, status, oauthError, failureScope, retryAtMs } = error;
    return {
      owner: error.owner ?? request?.withOwner().owner,
      code,
      message,
      causeCode: causeCodeOf(error.cause),
      status,
      oauthError,
      address: server.address,
      port: server.port,
      durationMs: request?.durationMs,
      failureScope,
      retryInMs: retryAtMs === undefined ? undefined : Math.max(0, retryAtMs - this.#time.now().wallMs),
      retryAt: isoTime(retryAtMs),
    };
  }

  #publishOutcome(message: ReportedRequest, token?: AccessToken): void {
    const { asyncStart, asyncEnd } = requests;
    if (!asyncStart.hasSubscribers && !asyncEnd.hasSubscribers) return;
    if (token) Object.assign(message, issuedFields(token));
    asyncStart.publish(message.withOwner());
    asyncEnd.publish(message);
  }

  #publishPause(subject: PauseSubject, rest: Omit<PauseMessage, 'registry' | 'scope' | 'owner'>): void {
    if (!pauses.hasSubscribers) return;
    const owner = typeof subject === 'string' ? {} : { owner: subject.owner };
    pauses.publish({ registry: this.#registry, scope: scopeOf(subject), ...owner, ...rest } satisfies PauseMessage);
  }

  #keyOf(subject: PauseSubject): object {
    return typeof subject === 'string' ? this.#circuits[subject] : subject;
  }
}

/** The line of `pause.began`. */
function lineOf(subject: PauseSubject, isKept: boolean): LogLine<string> {
  if (isKept) return TOKEN_KEPT.began;
  const paused = LOG_EVENTS['pause.began'];
  // Only a person can fix refused credentials.
  return subject === 'client' ? { ...paused, level: 'error' } : paused;
}

function scopeOf(subject: PauseSubject): FailureScope {
  return typeof subject === 'string' ? subject : 'owner';
}

function issuedFields({ fingerprint, expiresAtMs }: AccessToken) {
  return { token: fingerprint, expiresAtMs };
}

/** The first code in a chain of causes: `fetch failed` has none, but its cause has. */
function causeCodeOf(cause: ScrubbedCause | undefined): string | undefined {
  return cause && (cause.code ?? causeCodeOf(cause.cause));
}

/** ISO 8601; undefined outside the range of `Date`, which a user's clock may exceed. */
function isoTime(ms: number | undefined): string | undefined {
  const date = new Date(ms ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
