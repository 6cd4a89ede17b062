/** The messages of the diagnostics channels. None has a field that could hold a secret. */

import type { FailureScope, OwnerTokenError, OwnerTokenErrorCode } from '../errors/owner-token-error.ts';
import type { RequestReason } from '../token-source.ts';

/**
 * How a call was answered: from the cache, by an in-flight or a new request, or not at all.
 *
 * @example
 * ```ts
 * const served: LookupOutcome[] = ['serve', 'serve-and-refresh'];
 * ```
 */
export type LookupOutcome = 'serve' | 'serve-and-refresh' | 'wait' | 'request' | 'refuse';

/**
 * Message of `owner-token-registry:lookup`.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 *
 * subscribe('owner-token-registry:lookup', (message) => {
 *   const { owner, outcome } = message as LookupMessage;
 *   console.log(outcome); // → request
 * });
 * await registry.getToken(accessKey);
 * ```
 */
export interface LookupMessage {
  /** Name of the registry. */
  readonly registry: string;
  /** Fingerprint or label of the owner. */
  readonly owner: string;
  /** How the call was answered. */
  readonly outcome: LookupOutcome;
}

/**
 * Message of `tracing:owner-token-registry:request:*`: the same object from start to end.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 *
 * subscribe('tracing:owner-token-registry:request:asyncEnd', (message) => {
 *   const { reason, error } = message as RequestMessage;
 *   console.log(reason, error?.code ?? 'issued'); // → absent issued
 * });
 * await registry.getToken(accessKey);
 * ```
 */
export interface RequestMessage {
  /** Name of the registry. */
  readonly registry: string;
  /** Fingerprint or label of the owner. */
  readonly owner: string;
  /** Why the token is requested. */
  readonly reason: RequestReason;
  /** Set if the request is a canary, sent to see whether the service works. */
  canary?: true;
  /** How long the request was queued, in milliseconds. */
  readonly queuedMs: number;
  /**
   * Wraps the call of the source, for example to run it in the context of a span. A subscriber of `start` may set it.
   * If it is set already, the new function must call the old one.
   */
  run?: <T>(send: () => T) => T;
  /** From the call of the source to its outcome, in milliseconds. */
  durationMs?: number;
  /** Fingerprint of the issued token. */
  token?: string;
  /** Epoch ms: when the issued token expires. */
  expiresAtMs?: number;
  /** Why the request failed. */
  error?: OwnerTokenError;
}

/**
 * Message of `owner-token-registry:rejection`.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 *
 * subscribe('owner-token-registry:rejection', (message) => {
 *   const { token, wasHeld } = message as RejectionMessage;
 *   console.log(wasHeld); // → true
 * });
 * registry.reject(accessKey, await registry.getToken(accessKey));
 * ```
 */
export interface RejectionMessage {
  /** Name of the registry. */
  readonly registry: string;
  /** Fingerprint or label of the owner. */
  readonly owner: string;
  /** Fingerprint of the rejected token. */
  readonly token: string;
  /** Whether this was the cached token; a late rejection of an older token has no effect. */
  readonly wasHeld: boolean;
}

/**
 * Message of `owner-token-registry:pause`.
 *
 * @example
 * ```ts
 * import { subscribe } from 'node:diagnostics_channel';
 *
 * subscribe('owner-token-registry:pause', (message) => {
 *   const { scope, action, code } = message as PauseMessage;
 *   console.log(scope, action, code); // → owner paused owner_refused
 * });
 * await registry.getToken('a wrong key').catch(() => {});
 * ```
 */
export interface PauseMessage {
  /** Name of the registry. */
  readonly registry: string;
  /** What is paused: one owner, all requests of this client, or the whole endpoint. */
  readonly scope: FailureScope;
  /** Whether the pause began or was extended, or ended. */
  readonly action: 'paused' | 'lifted';
  /** The paused owner, for the scope `owner`. */
  readonly owner?: string;
  /** When paused: the code of the failure. `token_rejected` pauses no request: a token that the API rejected is kept. */
  readonly code?: OwnerTokenErrorCode;
  /** When paused: epoch ms of the next attempt, or of the end of the time for which the token is kept. */
  readonly retryAtMs?: number;
  /** When lifted: milliseconds from the first failure to the recovery. */
  readonly durationMs?: number;
  /** When lifted: how many calls the pause refused. */
  readonly refused?: number;
}
