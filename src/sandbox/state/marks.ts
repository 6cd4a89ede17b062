import type { LedgerEntry, Outcome } from './ledger-entry.ts';

/** How a request is drawn and counted. Each mark has a shape of its own in the portal. */
export const MARK_KINDS = ['ok', 'wasted', 'limited', 'error', 'broken', 'refused', 'pending'] as const;

export type MarkKind = (typeof MARK_KINDS)[number];

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

export function markOf({ outcome, wasted }: Pick<LedgerEntry, 'outcome' | 'wasted'>): MarkKind {
  return outcome === 'issued' && wasted ? 'wasted' : MARK_OF_OUTCOME[outcome];
}

/** Whether the client got what it asked for. */
export const succeeded = ({ outcome }: Pick<LedgerEntry, 'outcome'>): boolean =>
  outcome === 'issued' || outcome === 'accepted';

/** Whether the request has ended without that. */
export const failed = (entry: Pick<LedgerEntry, 'outcome'>): boolean =>
  entry.outcome !== 'pending' && !succeeded(entry);
