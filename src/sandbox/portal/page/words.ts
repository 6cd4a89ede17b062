/** How things are called on screen: the same words in picture, list and table. */

import type { LedgerEntry, Outcome } from '../../api-types.ts';
import { FAULT_KINDS, type FaultEffect, type FaultKind, faultMembers } from '../../state/fault-kinds.ts';
import type { ActiveFault, FaultTarget, FaultWhen } from '../../state/fault-rules.ts';

/** What a request looks like in the picture: each has a shape of its own. */
export type MarkKind = 'ok' | 'wasted' | 'limited' | 'error' | 'broken' | 'refused' | 'pending';

export const MARK_KINDS: readonly MarkKind[] = ['ok', 'wasted', 'limited', 'error', 'broken', 'refused', 'pending'];

export const MARK_WORDS: Readonly<Record<MarkKind, string>> = {
  ok: '200',
  wasted: 'wasted',
  limited: '429',
  error: '5xx',
  broken: 'socket fault',
  refused: 'refused or revoked',
  pending: 'under way',
};

const OUTCOMES: Readonly<Record<Outcome, { mark: MarkKind; word: string }>> = {
  issued: { mark: 'ok', word: 'token issued' },
  accepted: { mark: 'ok', word: 'call accepted' },
  refused: { mark: 'refused', word: 'refused' },
  rejected: { mark: 'refused', word: 'token rejected' },
  wrong_owner: { mark: 'refused', word: 'wrong owner' },
  rate_limited: { mark: 'limited', word: 'rate limited' },
  server_error: { mark: 'error', word: 'server error' },
  bad_answer: { mark: 'broken', word: 'unusable answer' },
  socket_fault: { mark: 'broken', word: 'socket fault' },
  aborted: { mark: 'broken', word: 'caller left' },
  not_found: { mark: 'refused', word: 'no such path' },
  pending: { mark: 'pending', word: 'under way' },
};

export function markOf(entry: Pick<LedgerEntry, 'outcome' | 'wasted'>): MarkKind {
  return entry.outcome === 'issued' && entry.wasted ? 'wasted' : OUTCOMES[entry.outcome].mark;
}

export function outcomeWord(entry: Pick<LedgerEntry, 'outcome' | 'wasted'>): string {
  const { word } = OUTCOMES[entry.outcome];
  return entry.outcome === 'issued' && entry.wasted ? `${word}, wasted` : word;
}

/** Whether a request went as its caller wished. */
export const isGood = ({ outcome }: Pick<LedgerEntry, 'outcome'>): boolean =>
  outcome === 'issued' || outcome === 'accepted';

export const ownerWord = (id: string): string => id || 'no known owner';

/** A time of day, in the user's own time zone. Written hundreds of times an update: `Intl` would be what costs most. */
export const timeWord = (atMs: number): string => new Date(atMs).toTimeString().slice(0, 8);

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
  const what = { token: 'token requests', echo: 'calls of /echo', all: 'everything' }[where];
  return [what, owner && `of ${owner}`, app && `by ${app}`].filter(Boolean).join(' ');
}

export function whenWord(when: FaultWhen): string {
  if ('next' in when) return `next ${countWord(when.next)}`;
  if ('over' in when) return `over ${countWord(when.over)} in ${spanWord(when.perMs)}`;
  if ('probability' in when) return `${Number((when.probability * 100).toFixed(2))} % of the time`;
  if ('schedule' in when) {
    const spans = when.schedule.map(([fromMs, toMs]) => `${spanWord(fromMs)} to ${spanWord(toMs)}`).join(', ');
    return when.everyMs === undefined ? spans : `${spans}, every ${spanWord(when.everyMs)}`;
  }
  return 'always';
}

/** What is left of a rule, by the sandbox's time. */
export function leftWord(rule: ActiveFault, nowMs: number): string {
  const { when, left, addedAtMs } = rule;
  if ('schedule' in when && when.everyMs === undefined) {
    const leftMs = addedAtMs + (when.schedule.at(-1)?.[1] ?? 0) - nowMs;
    return leftMs > 0 ? `${spanWord(Math.ceil(leftMs / 1000) * 1000)} left` : 'over';
  }
  if (left && 'requests' in left) return left.requests > 0 ? `${countWord(left.requests)} left` : 'used up';
  return 'until removed';
}

/** Whether a rule can still strike. */
export const isActive = (rule: ActiveFault, nowMs: number): boolean => {
  const word = leftWord(rule, nowMs);
  return word !== 'over' && word !== 'used up';
};
