/** The log lines of a registry. {@link LOG_EVENTS} lists their fields: names, numbers and codes, and no secret. */

import { logLine } from './logger.ts';

const FAILURE_FIELDS = [
  'owner',
  'code',
  'message',
  'causeCode',
  'status',
  'oauthError',
  'address',
  'port',
  'durationMs',
  'failureScope',
  'retryInMs',
  'retryAt',
] as const;

/**
 * Every log event in one place; `docs/observability.md` follows this table. Every line also has the fields `event` and
 * `registry`. `logField` gives their names in the log.
 */
export const LOG_EVENTS = Object.freeze({
  'request.sent': logLine('debug', 'token request sent', 'owner', 'reason', 'canary'),
  'request.succeeded': logLine('debug', 'token issued', 'owner', 'reason', 'durationMs', 'token', 'expiresAtMs'),
  'request.failed': logLine('debug', 'token request failed', 'reason', ...FAILURE_FIELDS),
  'pause.began': logLine('warn', 'token requests paused', ...FAILURE_FIELDS),
  'pause.lifted': logLine('info', 'token requests resumed', 'failureScope', 'owner', 'durationMs', 'refused'),
  'token.rejected': logLine('info', 'token reported as rejected', 'owner', 'token', 'wasHeld'),
  'token.shared': logLine(
    'warn',
    'two owners received the same token: the service may ignore the access key',
    'owner',
    'otherOwner',
  ),
  'lifetime.unknown': logLine(
    'warn',
    'the token lifetime is unknown: set an expiry policy (docs/expiry.md)',
    'owner',
    'kind',
    'assumedMs',
  ),
  'hook.failed': logLine('warn', 'a hook threw; the error was ignored', 'hook', 'cause'),
  'warmup.exceeded': logLine(
    'warn',
    'a warm-up obtained more tokens than the registry holds: raise maxOwners',
    'maxOwners',
  ),
  'owner.evicted': logLine('debug', 'least recently used owner evicted', 'owner'),
  'registry.closed': logLine('info', 'registry closed', 'abandoned'),
});

export type EventName = keyof typeof LOG_EVENTS;
export type FieldsOf<E extends EventName> = Partial<Record<(typeof LOG_EVENTS)[E]['fields'][number], unknown>>;
export type FailureFields = Record<(typeof FAILURE_FIELDS)[number], unknown>;

/** Events that are logged once for each value of a field. */
export const ONCE_PER: Readonly<Record<string, string>> = {
  'token.shared': 'registry',
  'warmup.exceeded': 'registry',
  'lifetime.unknown': 'kind',
  'hook.failed': 'hook',
};
