/** The sandbox's requests and faults in words. */

import { countWord, sentence, spanWord } from '../../../page-engine/words.ts';
import type { LedgerEntry, Outcome } from '../../control/shapes.ts';
import { FAULT_KINDS, type FaultEffect, type FaultKind, faultMembers } from '../../state/world/fault-kinds.ts';
import type { ActiveFault, FaultTarget, FaultWhen } from '../../state/world/fault-rules.ts';
import { fieldOf } from '../../state/world/schema.ts';

const OUTCOME_WORDS: Readonly<Record<Outcome, string>> = {
  issued: 'token issued',
  accepted: 'call accepted',
  refused: 'refused',
  rejected: 'token rejected',
  wrong_owner: 'wrong owner',
  rate_limited: 'rate limited',
  server_error: 'server error',
  bad_answer: 'unusable answer',
  socket_fault: 'socket fault',
  aborted: 'client disconnected',
  not_found: 'no such path',
  pending: 'in flight',
};

export function outcomeWord({ outcome, wasted }: Pick<LedgerEntry, 'outcome' | 'wasted'>): string {
  return wasted ? `${OUTCOME_WORDS[outcome]}, wasted` : OUTCOME_WORDS[outcome];
}

const TOKEN_PROBLEMS: Readonly<Record<string, string>> = {
  no_token: 'The call carried no token.',
  token_unknown: 'The sandbox did not issue the token, or has forgotten it.',
  token_expired: 'The token had expired.',
  token_revoked: 'The token was revoked.',
  token_lagging: 'The token is so new that this resource does not know it yet (replication lag).',
};

const PROBLEMS: Readonly<Partial<Record<Outcome, string>>> = {
  rejected: 'The resource did not accept the token.',
  wrong_owner: 'The token belongs to a different owner than the client intended.',
  rate_limited: 'The client sent more requests than allowed.',
  server_error: 'The service failed.',
  bad_answer: 'The answer was complete, but there is no usable token in it.',
  socket_fault: 'The connection ended without a complete answer.',
  not_found: 'The sandbox has only /auth/v1/token and /echo.',
};

/** Why a request failed, in sentences; undefined if it has not. */
export function whyWord(entry: LedgerEntry): string | undefined {
  const { outcome, error = '', description, durationMs = 0, retryAfterSeconds, faultKind } = entry;
  const sentences = [TOKEN_PROBLEMS[error] ?? PROBLEMS[outcome]];
  if (outcome === 'refused') sentences.push(description ? `${sentence(description)}.` : 'The request was refused.');
  if (outcome === 'aborted') sentences.push(`The client closed the connection after ${spanWord(durationMs)}.`);
  if (retryAfterSeconds !== undefined) sentences.push(`It was told to wait ${retryAfterSeconds} s.`);
  const why = sentences.filter((each) => each !== undefined).join(' ');
  if (why === '') return undefined;
  return faultKind === undefined ? why : `${why} Cause: the fault “${faultKindWord(faultKind)}”.`;
}

export const ownerWord = (id: string): string => id || 'unknown owner';

export const faultKindWord = (kind: string): string =>
  Object.hasOwn(FAULT_KINDS, kind) ? FAULT_KINDS[kind as FaultKind].word : kind;

/** A rule in short: `Error status 503`, `Latency 2 s`. */
export function faultWord(rule: FaultEffect): string {
  const { word, shown } = FAULT_KINDS[rule.kind] as { word: string; shown?: string };
  if (shown === undefined) return word;
  const value = (rule as unknown as Record<string, unknown>)[shown];
  const isSpan = faultMembers(rule.kind).some(
    ([name, member]) => name === shown && fieldOf(member).facts.unit === 'ms',
  );
  return `${word} ${isSpan ? spanWord(Number(value)) : String(value).replace('_', ' ')}`;
}

export function targetWord({ path, owner, share }: FaultTarget, kind: FaultKind): string {
  const where = path ?? FAULT_KINDS[kind].paths[0];
  const what = { token: 'token requests', echo: 'calls to /echo', all: 'everything' }[where];
  const part = share !== undefined && `of ${percentWord(share)} of the owners`;
  return [what, part, owner && `of ${owner}`].filter(Boolean).join(' ');
}

const percentWord = (share: number): string => `${Number((share * 100).toFixed(2))} %`;

export function whenWord(when: FaultWhen): string {
  if ('next' in when) return `next ${countWord(when.next)}`;
  if ('over' in when) return `over ${countWord(when.over)} in ${spanWord(when.perMs)}`;
  if ('probability' in when) return `${percentWord(when.probability)} of the time`;
  if ('schedule' in when) {
    const spans = when.schedule
      .map(([fromMs, toMs]) => (fromMs === 0 ? `first ${spanWord(toMs)}` : `${spanWord(fromMs)} to ${spanWord(toMs)}`))
      .join(', ');
    return when.everyMs === undefined ? spans : `${spans}, every ${spanWord(when.everyMs)}`;
  }
  return 'always';
}

/** What is left of a rule, by the sandbox's time. */
export function leftWord(rule: ActiveFault, nowMs: number): string {
  const { when, left, addedAtMs, endsAtMs } = rule;
  const isSpan = 'schedule' in when && when.everyMs === undefined;
  const endMs = endsAtMs ?? (isSpan ? addedAtMs + (when.schedule.at(-1)?.[1] ?? 0) : undefined);
  if (left && 'requests' in left) return left.requests > 0 ? `${countWord(left.requests)} left` : 'used up';
  if (endMs === undefined) return 'until removed';
  return endMs > nowMs ? `${spanWord(Math.ceil((endMs - nowMs) / 1000) * 1000)} left` : 'over';
}

/** Whether a rule can still apply. */
export const isActive = (rule: ActiveFault, nowMs: number): boolean => {
  const word = leftWord(rule, nowMs);
  return word !== 'over' && word !== 'used up';
};
