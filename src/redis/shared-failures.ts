/**
 * What replicas tell each other of a failure: code, scope, status; never a message, a body or a secret. Pure: from an
 * error to what is recorded, and from what is recorded to an error.
 */

import { ERROR_CODES, type FailureScope, OwnerTokenError, type OwnerTokenErrorCode } from '../errors.ts';
import { retryAfterMsOf } from '../failures/backoff.ts';
import type { EndpointSign, RecordedFailure } from './shared-record.ts';

/** What becomes of a failed request: what its owner's record says, and what the endpoint's. */
export interface FailureReport {
  /** Undefined: nothing that others should share; the lease is just given back. */
  readonly owner: RecordedFailure | undefined;
  readonly endpoint: EndpointSign;
}

interface Backoff {
  readonly baseMs: number;
  readonly capMs: number;
}

/** Where trying again may help, the next attempt of the fleet follows soon; each replica has its own, longer pauses. */
const TRANSIENT: Backoff = { baseMs: 250, capMs: 2_000 };
const REFUSED: Backoff = { baseMs: 1_000, capMs: 60_000 };
const OF_ALL: Readonly<Record<'client' | 'endpoint', Backoff>> = {
  client: { baseMs: 1_000, capMs: 30_000 },
  endpoint: { baseMs: 500, capMs: 5_000 },
};

/** How long an owner's record repeats a failure of all; who asks later is told by the endpoint's. */
const ECHO: Backoff = { baseMs: 0, capMs: 500 };

/** As it is written. */
interface Payload {
  code: OwnerTokenErrorCode;
  scope?: FailureScope;
  status?: number;
  oauthError?: string;
}

/**
 * - Not asked of the service at all (closed, a full queue, options): nothing to share.
 * - Of the client or the endpoint: stops the fleet, for as long as the service said or else with back-off.
 * - The owner's at first, maybe wider: the owner's record has it, and it counts against the endpoint or the client.
 * - The owner's alone: the owner's record has it, and the endpoint is known to answer.
 */
export function reportOf(thrown: unknown): FailureReport {
  const error = thrown instanceof OwnerTokenError ? thrown : new OwnerTokenError('source_failed', 'the source failed');
  const { failureScope: scope, retryable } = error;
  if (scope === undefined) return { owner: undefined, endpoint: { outcome: 'released' } };
  if (scope !== 'owner') {
    const endpoint: EndpointSign = {
      outcome: 'blamed',
      scope,
      payload: payloadOf(error, scope),
      ...backoffOf(error, scope),
    };
    return { owner: { payload: payloadOf(error, scope), ...ECHO }, endpoint };
  }
  const owner = { payload: payloadOf(error, undefined), ...(retryable ? TRANSIENT : REFUSED) };
  const wider = OwnerTokenError.escalationOf(error);
  if (wider === 'client' || wider === 'endpoint') {
    return { owner, endpoint: { outcome: 'struck', scope: wider, payload: payloadOf(error, wider), ...OF_ALL[wider] } };
  }
  return { owner, endpoint: { outcome: error.code === 'owner_refused' ? 'answered' : 'released' } };
}

/** What the record says once three fresh tokens in a row were rejected. */
export const REJECTED_IN_A_ROW: RecordedFailure = Object.freeze({ payload: '{"code":"token_rejected"}', ...TRANSIENT });

/** What an owner's record repeats while its request was not made because of a failure of all. */
export function echoOf(payload: string, remainingMs: number): RecordedFailure {
  return { payload, ...ECHO, capMs: Math.min(ECHO.capMs, Math.max(1, remainingMs)) };
}

/**
 * The error for whoever is refused by a recorded failure; undefined when that makes no sense. Of a failure of all it
 * says when to come again, as the service may have: then this replica's own pause is not longer than the fleet's, which
 * has one probe for all.
 */
export function errorFrom(payload: string, remainingMs: number): OwnerTokenError | undefined {
  let read: Partial<Record<keyof Payload, unknown>> | null;
  try {
    read = JSON.parse(payload);
  } catch {
    return undefined;
  }
  const { code, scope, status, oauthError } = read ?? {};
  const known = ERROR_CODES.find((candidate) => candidate === code);
  if (!known || !(scope === undefined || scope === 'owner' || scope === 'client' || scope === 'endpoint')) {
    return undefined;
  }
  const error = new OwnerTokenError(
    known,
    'another replica met this failure, and the fleet has not tried again since',
    {
      ...(scope && { failureScope: scope }),
      ...(Number.isInteger(status) && { status: status as number }),
      ...(typeof oauthError === 'string' && { oauthError }),
      ...((scope === 'client' || scope === 'endpoint') && { retryAfterMs: remainingMs }),
    },
  );
  return error.failureScope === undefined ? undefined : error;
}

/** A failure that was met here and stops all: it says too when the fleet tries again. */
export function withFleetPause(error: OwnerTokenError, scope: 'client' | 'endpoint', remainingMs: number) {
  const { code, message, status, oauthError, failedAtMs, cause } = error;
  const facts = { failureScope: scope, status, oauthError, failedAtMs, cause };
  return new OwnerTokenError(code, message, { ...facts, retryAfterMs: error.retryAfterMs ?? remainingMs });
}

function backoffOf(error: OwnerTokenError, scope: 'client' | 'endpoint'): Backoff {
  const askedMs = retryAfterMsOf(error, OF_ALL[scope].capMs);
  return askedMs === undefined ? OF_ALL[scope] : { baseMs: 0, capMs: Math.ceil(askedMs) };
}

/** @param scope left out where it follows from the code, so that each replica may still widen it. */
function payloadOf(error: OwnerTokenError, scope: FailureScope | undefined): string {
  const { code, status, oauthError } = error;
  const narrow = scope === undefined && !OwnerTokenError.escalationOf(error);
  const payload: Payload = {
    code,
    ...(narrow ? { scope: 'owner' } : scope && { scope }),
    ...(status !== undefined && { status }),
    ...(oauthError !== undefined && { oauthError }),
  };
  return JSON.stringify(payload);
}
