import { MARK_KINDS, type Mark, type MarkKind } from '../../../page-engine/data.ts';
import type { LedgerEntry, Outcome } from './ledger-entry.ts';

const MARK_OF_OUTCOME: Readonly<Record<Outcome, MarkKind>> = {
  issued: 'ok',
  accepted: 'ok',
  refused: 'refused',
  rejected: 'refused',
  wrong_owner: 'refused',
  rate_limited: 'limited',
  server_error: 'error',
  bad_answer: 'broken',
  socket_fault: 'broken',
  aborted: 'broken',
  not_found: 'refused',
  pending: 'pending',
};

/** How a request is counted by second. */
export function markOf({ outcome, wasted }: Pick<LedgerEntry, 'outcome' | 'wasted'>): MarkKind {
  return outcome === 'issued' && wasted ? 'wasted' : MARK_OF_OUTCOME[outcome];
}

/** How a request is drawn. */
export function pictureMark(entry: Pick<LedgerEntry, 'id' | 'atMs' | 'outcome' | 'wasted'>): Mark {
  const kind = MARK_KINDS.indexOf(markOf(entry));
  return entry.wasted ? [entry.id, entry.atMs, kind, 1] : [entry.id, entry.atMs, kind];
}

/** Whether the client got what it asked for. */
const hasSucceeded = ({ outcome }: Pick<LedgerEntry, 'outcome'>): boolean =>
  outcome === 'issued' || outcome === 'accepted';

/** Whether the request has ended without that. */
export const hasFailed = (entry: Pick<LedgerEntry, 'outcome'>): boolean =>
  entry.outcome !== 'pending' && !hasSucceeded(entry);
