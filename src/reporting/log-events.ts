/** The log lines of a registry. {@link LOG_EVENTS} lists their fields: names, numbers and codes, never secrets. */

import { type LogLine, logLine } from './logger.ts';

type FailureField =
  | 'owner'
  | 'code'
  | 'message'
  | 'causeCode'
  | 'status'
  | 'oauthError'
  | 'address'
  | 'port'
  | 'durationMs'
  | 'failureScope'
  | 'retryInMs'
  | 'retryAt';

/**
 * Every log event in one place; `docs/observability.md` follows this table. Every line also has the fields `event` and
 * `registry`. `logField` gives their names in the log.
 */
export const LOG_EVENTS = Object.freeze({
  'request.sent': logLine<'owner' | 'reason' | 'canary'>('debug', 'token request sent'),
  'request.succeeded': logLine<'owner' | 'reason' | 'durationMs' | 'token' | 'expiresAtMs'>('debug', 'token issued'),
  'request.failed': logLine<'reason' | FailureField>('debug', 'token request failed'),
  'pause.began': logLine<FailureField>('warn', 'token requests paused'),
  'pause.lifted': logLine<'failureScope' | 'owner' | 'durationMs' | 'refused'>('info', 'token requests resumed'),
  'service.slow': logLine<'latencyMs' | 'usualMs'>('warn', 'tokens take much longer than usual'),
  'service.normal': logLine<'latencyMs' | 'usualMs'>('warn', 'tokens take as long as usual again'),
  'token.rejected': logLine<'owner' | 'token' | 'wasHeld'>('info', 'token reported as rejected'),
  'token.reissued': logLine<'owner' | 'token'>('warn', 'the service issued a rejected token again'),
  'token.shared': logLine<'owner' | 'otherOwner'>(
    'warn',
    'two owners received the same token, on a retry too: the service may ignore the access key',
  ),
  'token.mixed_up': logLine<'owner' | 'otherOwner'>(
    'warn',
    'two owners received the same token, and on a retry another one: a proxy or cache may mix up responses; both tokens are replaced',
  ),
  'token.contended': logLine<'owner'>(
    'warn',
    "the owner's tokens keep ending early: another process seems to request tokens for it, each revoking the previous one; share them between replicas (docs/fleet.md)",
  ),
  'clock.differs': logLine<'differenceMs'>('warn', 'the clocks of the service and of this machine differ'),
  'exp.ignored': logLine<'owner'>(
    'warn',
    "the Date header of the token response does not come from the issuer's clock: the exp of its tokens is ignored",
  ),
  'lifetime.unknown': logLine<'owner' | 'kind' | 'assumedMs'>(
    'warn',
    'the token lifetime is unknown: set an expiry policy (docs/expiry.md)',
  ),
  'scheme.unknown': logLine<'owner'>(
    'warn',
    'the token type is not a registered authentication scheme: the token is sent as Bearer',
  ),
  'label.ignored': logLine<'owner'>(
    'warn',
    'an ownerLabel that contains the access key was ignored: the owner is named by its fingerprint (docs/options.md)',
  ),
  'hook.failed': logLine<'hook' | 'cause'>('warn', 'a hook threw; the error was ignored'),
  'warmup.exceeded': logLine<'maxOwners'>(
    'warn',
    'a warm-up obtained more tokens than the registry holds: raise maxOwners',
  ),
  'owner.evicted': logLine<'owner'>('debug', 'least recently used owner evicted'),
  'registry.closed': logLine<'abandoned'>('info', 'registry closed'),
});

/** `pause.began` and `pause.lifted` where the API rejects new tokens too: a token is kept, and no request is paused. */
export const TOKEN_KEPT = Object.freeze({
  began: logLine('warn', 'rejected token kept: the API rejects new ones too'),
  lifted: logLine('info', 'streak of rejected tokens ended'),
});

export type EventName = keyof typeof LOG_EVENTS;
type FieldOf<Line> = Line extends LogLine<infer Field> ? Field : never;
export type FieldsOf<E extends EventName> = Partial<Record<FieldOf<(typeof LOG_EVENTS)[E]>, unknown>>;
export type FailureFields = Record<FailureField, unknown>;

/** Events that are logged once for each value of a field. */
export const ONCE_PER: Readonly<Record<string, string>> = {
  'token.reissued': 'registry',
  'token.shared': 'registry',
  'token.mixed_up': 'registry',
  'token.contended': 'registry',
  'clock.differs': 'registry',
  'exp.ignored': 'registry',
  'warmup.exceeded': 'registry',
  'lifetime.unknown': 'kind',
  'scheme.unknown': 'registry',
  'label.ignored': 'registry',
  'hook.failed': 'hook',
};
