/** Judges how an integration handled a scenario, by expectations over what the ledger recorded. */

import type { RunRecord } from './run-record.ts';

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
}

/**
 * The judgement of a run.
 *
 * @example
 * ```ts
 * const exitCode = ({ passed }: Verdict) => (passed ? 0 : 1);
 * ```
 */
export interface Verdict {
  /** Whether every finding passed. A run without a token request has not passed. */
  readonly passed: boolean;
  /** One per expectation. */
  readonly findings: Finding[];
}

/** Judges one expectation. `owner`: the one that the scenario concerns. */
export type Expectation = (record: RunRecord, owner: string | undefined) => Finding;

/** The verdict of a run. `interrupted`: why it ended before its time. */
export function verdictOf(
  record: RunRecord,
  expectations: readonly Expectation[],
  owner: string | undefined,
  interrupted: string | undefined,
): Verdict {
  const sent = { expectation: 'Sends token requests during the run', observed: countOf(record.sent, 'request') };
  const findings: Finding[] = [{ ...sent, passed: record.sent > 0 }];
  if (interrupted !== undefined) {
    findings.push({ expectation: 'The run lasts to its end', observed: interrupted, passed: false });
  }
  // Without a request every other expectation would hold by default.
  if (record.sent > 0) findings.push(...expectations.map((expectation) => expectation(record, owner)));
  return { passed: findings.every(({ passed }) => passed), findings };
}

export const noWaste: Expectation = (record) =>
  none(
    'Does not request a token for an owner that already has a valid one',
    record.count(({ wasted }) => wasted),
    'wasted request',
  );

export const singleFlight: Expectation = ({ duplicates }) =>
  none('Has at most one token request in flight for each owner', duplicates, 'duplicate');

/** Half of the owners at once is a stampede, unless there are few of them. */
export const noStampede: Expectation = (record) => {
  const most = Math.max(16, Math.ceil(record.owners() / 2));
  return atMost(`Has at most ${most} token requests in flight at once, half of the owners`, record.peak, most);
};

export const fewAtOnce =
  (most: number): Expectation =>
  ({ peak }) =>
    atMost(`Has at most ${most} token requests in flight at once`, peak, most);

export const calmRecovery =
  (most: number): Expectation =>
  ({ peakAfterRecovery }) =>
    atMost(`Has at most ${most} token requests in flight at once after the recovery`, peakAfterRecovery, most);

export const recovers: Expectation = (record) => {
  const afterMs = record.recoveredAfterMs();
  const observed = afterMs === undefined ? 'no token issued since' : `after ${(afterMs / 1000).toFixed(1)} s`;
  return { expectation: 'Gets a token again once the service is back', observed, passed: afterMs !== undefined };
};

export const obeysRetryAfter: Expectation = ({ early }) =>
  none('Sends nothing before Retry-After has passed', early, 'early request');

export const givesUpWithin =
  (mostMs: number): Expectation =>
  (record) => {
    const longestMs = record.longestMs();
    const observed = `${(longestMs / 1000).toFixed(1)} s at most`;
    return { expectation: `Gives up on a request within ${mostMs / 1000} s`, observed, passed: longestMs <= mostMs };
  };

export const backsOff =
  (most: number): Expectation =>
  (record, owner) => {
    const refused = record.count((entry) => entry.outcome === 'refused' && entry.owner === owner);
    return atMost(`Repeats the refused request at most ${most} times a minute`, refused, most);
  };

export const othersUnaffected: Expectation = (record, owner) => {
  const others = record.count(
    (entry) => entry.owner !== owner && entry.outcome !== 'issued' && entry.outcome !== 'pending',
  );
  return none('Gets tokens for all other owners', others, 'failure');
};

export const stopsAfterRefusal =
  (most: number): Expectation =>
  (record) =>
    atMost(
      `Sends at most ${most} requests with the old secret`,
      record.count(({ error }) => error === 'invalid_client'),
      most,
    );

export const asksForOwner: Expectation = (record, owner) => {
  const asked = record.count((entry) => entry.owner === owner);
  return { expectation: `Requests a token for ${owner}`, observed: countOf(asked, 'request'), passed: asked > 0 };
};

export const dropsWrongToken: Expectation = ({ wrongTokenReuses }) =>
  none('Drops a token that a resource flagged as of another owner', wrongTokenReuses, 'further call with one');

const atMost = (expectation: string, count: number, most: number): Finding => ({
  expectation,
  observed: `${count}`,
  passed: count <= most,
});

const none = (expectation: string, count: number, what: string): Finding => ({
  expectation,
  observed: countOf(count, what),
  passed: count === 0,
});

const countOf = (count: number, what: string): string =>
  count === 1 ? `1 ${what}` : `${count === 0 ? 'no' : count} ${what.replace(/^(\S+ call|\S+ request|\w+)/, '$1s')}`;
