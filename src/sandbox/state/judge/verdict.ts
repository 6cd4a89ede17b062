/** The verdict of a scenario: whether its situation came about, and how the integration handled it. */

import type { LedgerEntry } from '../ledger/ledger-entry.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Something that must have happened for a verdict, and what did.
 *
 * @example
 * ```ts
 * const line = ({ condition, observed, met }: Condition) => `${met ? '✓' : '–'} ${condition}: ${observed}`;
 * ```
 */
export interface Condition {
  /** What must have happened, in a sentence. */
  readonly condition: string;
  /** What did, in a few words: `214 requests of 40 owners`. */
  readonly observed: string;
  /** Whether it did. */
  readonly met: boolean;
}

/**
 * One expectation, and what the integration did.
 *
 * @example
 * ```ts
 * const line = ({ expectation, observed, passed }: Finding) => `${passed ? '✓' : '✗'} ${expectation}: ${observed}`;
 * ```
 */
export interface Finding {
  /** What a good integration does, in a sentence. */
  readonly expectation: string;
  /** What this one did, in a few words. */
  readonly observed: string;
  /** Whether it did. */
  readonly passed: boolean;
  /** Ids of requests in the ledger that show it, oldest first, at most 100. Absent: there are none. */
  readonly requests?: number[];
  /** When the first of them began: epoch ms of the sandbox's clock. */
  readonly fromMs?: number;
  /** When the last of them began. */
  readonly toMs?: number;
}

/**
 * The judgement of a run. A run is `not tested` if its situation did not come about, because it proves nothing then.
 *
 * @example
 * ```ts
 * const exitCode = ({ verdict }: Verdict) => ({ passed: 0, failed: 1, 'not tested': 3 })[verdict];
 * ```
 */
export interface Verdict {
  /** `passed`: every finding passed. `failed`: at least one did not. `not tested`: see `reason`. */
  readonly verdict: 'passed' | 'failed' | 'not tested';
  /** Whether `verdict` is `passed`. */
  readonly passed: boolean;
  /** Why it was not tested, and what to do about it. */
  readonly reason?: string;
  /** What must have happened for a verdict. */
  readonly conditions: Condition[];
  /** One per expectation; none if it was not tested. */
  readonly findings: Finding[];
}

/** Whether a situation came about. `otherwise`: what to say if not, with the next step. */
export type ConditionCheck = (record: RunRecord) => Condition & { readonly otherwise: string };

/** Judges one expectation. */
export type Expectation = (record: RunRecord) => Finding;

/** The verdict of a run. `interrupted`: why it ended before its time. */
export function verdictOf(
  record: RunRecord,
  checks: readonly ConditionCheck[],
  expectations: readonly Expectation[],
  interrupted: string | undefined,
): Verdict {
  const checked = checks.map((check) => check(record));
  const conditions = checked.map(({ condition, observed, met }) => ({ condition, observed, met }));
  const unmet = checked.filter(({ met }) => !met).map(({ otherwise }) => otherwise);
  const reasons = interrupted === undefined ? unmet : [`The run ended early: ${interrupted}.`];
  if (reasons.length > 0) {
    return { verdict: 'not tested', passed: false, reason: reasons.join(' '), conditions, findings: [] };
  }
  const findings = expectations.map((expectation) => expectation(record));
  const passed = findings.every((finding) => finding.passed);
  return { verdict: passed ? 'passed' : 'failed', passed, conditions, findings };
}

const MAX_SHOWN = 100;

/** A finding, with the requests that show it. */
export function finding(
  expectation: string,
  observed: string,
  passed: boolean,
  shownBy: readonly Readonly<LedgerEntry>[] = [],
): Finding {
  const shown = shownBy.slice(0, MAX_SHOWN);
  const [first, last] = [shown[0], shown.at(-1)];
  const at = first && last && { requests: shown.map(({ id }) => id), fromMs: first.atMs, toMs: last.atMs };
  return { expectation, observed, passed, ...at };
}

/** `1 request`, `no requests`, `5 further calls`: a count with its noun, the last word. */
export const countOf = (count: number, noun: string): string =>
  count === 1 ? `1 ${noun}` : `${count === 0 ? 'no' : count.toLocaleString('en-US')} ${noun}s`;
