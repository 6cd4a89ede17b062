/** The words on screen, used by picture, list and table alike. */

import type { LedgerEntry, Outcome } from '../../api-types.ts';
import { FAULT_KINDS, type FaultEffect, type FaultKind, faultMembers } from '../../state/fault-kinds.ts';
import type { ActiveFault, FaultTarget, FaultWhen } from '../../state/fault-rules.ts';
import type { MarkKind } from '../../state/marks.ts';

export const MARK_WORDS: Readonly<Record<MarkKind, string>> = {
  ok: '200',
  wasted: 'wasted',
  limited: '429',
  error: '5xx',
  broken: 'no usable answer',
  refused: 'refused or revoked',
  pending: 'in flight',
};

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

export function outcomeWord(entry: Pick<LedgerEntry, 'outcome' | 'wasted'>): string {
  const word = OUTCOME_WORDS[entry.outcome];
  return entry.outcome === 'issued' && entry.wasted ? `${word}, wasted` : word;
}

export const ownerWord = (id: string): string => id || 'unknown owner';

/** A time of day in the user's time zone. Called hundreds of times per update, for which `Intl` is too slow. */
export const timeWord = (atMs: number): string => new Date(atMs).toTimeString().slice(0, 8);

export const clockWord = (atMs: number): string => {
  const date = new Date(atMs);
  return `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, '0')}`;
};

/** A span of time in at most two units: `0.4 ms`, `850 ms`, `12.5 s`, `3 min`, `1 h 20 min`, `3 days`. */
export function spanWord(ms: number): string {
  if (ms < 1000) return `${Number(ms.toFixed(ms < 10 ? 1 : 0))} ms`;
  if (ms < 60_000) return `${Number((ms / 1000).toFixed(ms < 10_000 ? 1 : 0))} s`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${countWord(Math.round(hours / 24))} days`;
}

/** With commas between the thousands. */
export const countWord = (count: number): string => `${count}`.replace(/\B(?=(\d{3})+$)/g, ',');

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${countWord(count)} ${count === 1 ? one : many}`;

export const faultKindWord = (kind: string): string =>
  Object.hasOwn(FAULT_KINDS, kind) ? FAULT_KINDS[kind as FaultKind].word : kind;

/** A rule in short: `Error status 503`, `Latency 2 s`. */
export function faultWord(rule: FaultEffect): string {
  const { word, shown } = FAULT_KINDS[rule.kind] as { word: string; shown?: string };
  if (shown === undefined) return word;
  const value = (rule as unknown as Record<string, unknown>)[shown];
  const member = Object.fromEntries(faultMembers(rule.kind))[shown];
  const isSpan = member?.type === 'integer' && member.unit === 'ms';
  return `${word} ${isSpan ? spanWord(Number(value)) : String(value).replace('_', ' ')}`;
}

export function targetWord({ path, app, owner }: FaultTarget, kind: FaultKind): string {
  const where = path ?? FAULT_KINDS[kind].paths[0];
  const what = { token: 'token requests', echo: 'calls to /echo', all: 'everything' }[where];
  return [what, owner && `of ${owner}`, app && `by ${app}`].filter(Boolean).join(' ');
}

export function whenWord(when: FaultWhen): string {
  if ('next' in when) return `next ${countWord(when.next)}`;
  if ('over' in when) return `over ${countWord(when.over)} in ${spanWord(when.perMs)}`;
  if ('probability' in when) return `${Number((when.probability * 100).toFixed(2))} % of the time`;
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
