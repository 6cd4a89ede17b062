/** What scenarios require for a verdict, and what they expect of an integration, over the record of a run. */

import { groupedBy } from '../ledger/grouped-by.ts';
import type { LedgerEntry } from '../ledger/ledger-entry.ts';
import { hasFailed } from '../ledger/marks.ts';
import { ownersOf, type RecordedRequest, type RunRecord } from './run-record.ts';
import { type Condition, type ConditionCheck, countOf, type Expectation, finding } from './verdict.ts';

type Entries = readonly Readonly<LedgerEntry>[];

/** What to do where the integration held its tokens throughout. */
const NEEDS_TOKENS =
  'Its tokens were revoked, which it notices when it calls /echo with them; otherwise start the sandbox with ' +
  '--lifetime 20, so that they end during the run.';

const condition = (text: string, observed: string, met: boolean, otherwise: string) =>
  ({ condition: text, observed, met, otherwise }) satisfies Condition & { otherwise: string };

const requestsAndOwners = (entries: Entries): string =>
  `${countOf(entries.length, 'request')} of ${countOf(ownersOf(entries).size, 'owner')}`;

/** The fault met token requests. */
export const faultMet: ConditionCheck = (record) => {
  const met = record.faulted();
  const otherwise = `The fault met no token request. ${NEEDS_TOKENS}`;
  return condition('The fault meets token requests', requestsAndOwners(met), met.length > 0, otherwise);
};

/** Enough owners requested a token to tell a stampede from a few requests. */
export const ownersRequest =
  (least: number): ConditionCheck =>
  (record) => {
    const entries = record.entries(({ owner }) => owner !== undefined);
    const otherwise =
      `Token requests for ${countOf(ownersOf(entries).size, 'owner')} arrived, and the verdict needs ${least}. ` +
      'Let the integration act for all owners of the sandbox while the scenario runs.';
    const met = ownersOf(entries).size >= least;
    return condition(`Requests tokens for at least ${least} owners`, requestsAndOwners(entries), met, otherwise);
  };

/** Enough owners had a token that the scenario could end. */
export const ownersHadTokens =
  (least: number): ConditionCheck =>
  ({ start: { ownersCovered } }) => {
    const otherwise =
      `${countOf(ownersCovered, 'owner')} had a token when the scenario started, and the verdict needs ${least}. ` +
      'Start it once the integration has tokens.';
    return condition(
      `At least ${least} owners have a token at the start`,
      countOf(ownersCovered, 'owner'),
      ownersCovered >= least,
      otherwise,
    );
  };

/** A token was requested for the owner that the scenario concerns. */
export const ownerRequests: ConditionCheck = (record) => {
  const { owner } = record.start;
  const own = record.entries((entry) => entry.owner === owner);
  const otherwise = `No token was requested for ${owner}: let the integration act for it. ${NEEDS_TOKENS}`;
  return condition(`Requests a token for ${owner}`, countOf(own.length, 'request'), own.length > 0, otherwise);
};

/**
 * Passes if another owner's request failed, or if in the second half of the run another owner made a request or had a valid
 * token. An integration that stops for all owners sends nothing.
 */
export const othersActive: ConditionCheck = (record) => {
  const { owner, startedAtMs, endsAtMs } = record.start;
  const calls = record.calls.map(({ entry }) => entry).filter(({ outcome }) => outcome === 'accepted');
  const others = [...record.entries(() => true), ...calls].filter((entry) => entry.owner !== owner);
  const halfMs = (startedAtMs + endsAtMs) / 2;
  const met = others.some((entry) => hasFailed(entry) || (entry.tokenExpiresAtMs ?? entry.atMs) >= halfMs);
  const otherwise =
    'In the second half of the run no other owner had a valid token, and none was requested or used: either the integration ' +
    'stops for all owners when one is refused, or it stopped acting for the others before the end.';
  return condition('Acts for other owners throughout', requestsAndOwners(others), met, otherwise);
};

/** A token was requested after the secret had changed. */
export const requestsSinceRotation: ConditionCheck = (record) => {
  const sent = record.entries(() => true);
  const otherwise = `No token was requested after the rotation. ${NEEDS_TOKENS}`;
  return condition('Requests tokens after the rotation', requestsAndOwners(sent), sent.length > 0, otherwise);
};

/** The echo resource flagged a token that the fault had mixed up, because the caller named the owner it expected. */
export const wrongTokenFlagged: ConditionCheck = (record) => {
  const strays = record.strayTokens();
  const flagged = flaggedCalls(record).filter(({ token }) => strays.has(token));
  const otherwise =
    "Nothing called /echo with another owner's token and named the owner it expected. Let the integration call /echo " +
    'with each token, and send the id of its owner in the header x-expected-owner.';
  return condition(
    "/echo flags another owner's token",
    countOf(flagged.length, 'flagged call'),
    flagged.length > 0,
    otherwise,
  );
};

const flaggedCalls = (record: RunRecord): Readonly<LedgerEntry>[] =>
  record.calls.map(({ entry }) => entry).filter(({ outcome }) => outcome === 'wrong_owner');

export const noWaste: Expectation = (record) =>
  hardlyAny(
    'Does not request a token for an owner that already has a valid one',
    'wasted request',
    record.entries(({ wasted }) => wasted),
    record,
  );

export const singleFlight: Expectation = (record) =>
  hardlyAny(
    'Has at most one token request in flight for each owner',
    'duplicate',
    where(record.requests, 'isDuplicate'),
    record,
  );

export const obeysRetryAfter: Expectation = ({ requests }) =>
  none('Sends nothing for an owner before its Retry-After has passed', 'early request', where(requests, 'isEarly'));

/** In every verdict. Tokens that the fault mixed up are not the integration's doing. */
export const ownTokensOnly: Expectation = (record) => {
  const strays = record.strayTokens();
  const mixedUp = flaggedCalls(record).filter(({ token }) => !strays.has(token));
  return none("Calls /echo with an owner's token for that owner only", 'mixed-up call', mixedUp);
};

/** Requests in flight for more than three quarters of all owners are a stampede, unless there are few owners. */
const stampedeOf = (record: RunRecord, few: number): number =>
  Math.max(few, Math.ceil(ownersOf(record.entries(() => true)).size * 0.75));

export const noStampede: Expectation = (record) => {
  const most = stampedeOf(record, 16);
  const expectation = `Has at most ${most} token requests in flight at once, three quarters of the owners`;
  return fewInFlight(expectation, record.requests, most);
};

export const fewAtOnce =
  (most: number): Expectation =>
  ({ requests }) =>
    fewInFlight(`Has at most ${most} token requests in flight at once`, requests, most);

export const calmRecovery =
  (few: number): Expectation =>
  (record) => {
    const most = stampedeOf(record, few);
    const after = record.requests.filter(({ entry }) => entry.atMs >= record.start.recoveryAtMs);
    return fewInFlight(`Has at most ${most} token requests in flight at once after the recovery`, after, most);
  };

function fewInFlight(expectation: string, requests: readonly RecordedRequest[], most: number) {
  const peak = requests.reduce((highest, { inFlight }) => Math.max(highest, inFlight), 0);
  const beyond = requests.filter(({ inFlight }) => inFlight > most).map(({ entry }) => entry);
  return finding(expectation, `${peak} at most`, peak <= most, beyond);
}

/** Of the owners that the fault met, at least half get a token after it. */
export const recovers: Expectation = (record) => {
  const { recoveryAtMs } = record.start;
  const hit = ownersOf(record.faulted());
  const issued = record.entries(({ outcome, atMs }) => outcome === 'issued' && atMs >= recoveryAtMs);
  const served = ownersOf(issued);
  const recovered = [...hit].filter((owner) => served.has(owner)).length;
  const [first] = issued;
  const since = first ? `, the first token after ${((first.atMs - recoveryAtMs) / 1000).toFixed(1)} s` : '';
  const expectation = 'Gets tokens again once the fault is over, for at least half of the owners that it met';
  return atLeastHalf(expectation, recovered, hit.size, since, issued, record.faulted());
};

/** An integration that stops for all owners has no tokens for the others when the fault ends. */
export const servesOthers: Expectation = (record) => {
  const { recoveryAtMs } = record.start;
  const hit = ownersOf(record.faulted());
  const others = record.entries(({ owner = '' }) => !hit.has(owner));
  const lasting = others.filter(
    ({ atMs, tokenExpiresAtMs = 0 }) => atMs < recoveryAtMs && tokenExpiresAtMs >= recoveryAtMs,
  );
  const expectation = 'Has tokens when the fault ends, for at least half of the owners that it did not meet';
  return atLeastHalf(expectation, ownersOf(lasting).size, ownersOf(others).size, '', lasting, others);
};

export const givesUpWithin =
  (mostMs: number): Expectation =>
  (record) => {
    const longestMs = record.requests.reduce((most, { entry }) => Math.max(most, record.durationOf(entry)), 0);
    const beyond = record.entries((entry) => record.durationOf(entry) > mostMs);
    const observed = `${(longestMs / 1000).toFixed(1)} s at most`;
    return finding(`Gives up on a request within ${mostMs / 1000} s`, observed, longestMs <= mostMs, beyond);
  };

/** A quick retry or two are fine; a client in a loop is not. */
const MOST_IN_A_SECOND = 5;

/** Doubling from 100 ms sends nine attempts in 30 s, doubling from a second five. A fixed second sends thirty. */
const MOST_IN_AN_OUTAGE = 12;

const attemptsAtMost =
  (most: number, when: string, scoreOf: (attempts: Entries) => number): Expectation =>
  (record) => {
    const { score, attempts } = worstOf(record, scoreOf);
    const observed = `${score} at most, ${countOf(record.faulted().length, 'attempt')} in all`;
    return atMost(`Sends at most ${most} attempts for one owner ${when}`, observed, score, most, attempts);
  };

export const spacesAttempts = attemptsAtMost(MOST_IN_A_SECOND, 'within a second', (all) => mostWithin(all, 1000));
export const boundsAttempts = attemptsAtMost(MOST_IN_AN_OUTAGE, 'in the 30 s', ({ length }) => length);

/**
 * Fewer attempts in 30 s are far enough apart without growing waits. Their spacing may also come from the callers' demand, or
 * from owners that take turns at testing the service.
 */
const ENOUGH_TO_GROW = 8;
const LEAST_GROWTH = 1.5;

/** Compares the later half of the waits between an owner's attempts with the earlier half, over all owners. */
export const growsWaits: Expectation = (record) => {
  const expectation = `Waits longer after each attempt: the later waits are at least ${LEAST_GROWTH} times the earlier`;
  const many = attemptsOf(record).filter(({ length }) => length >= ENOUGH_TO_GROW);
  if (many.length === 0) return finding(expectation, `fewer than ${ENOUGH_TO_GROW} attempts for each owner`, true);
  let [earlierMs, laterMs] = [0, 0];
  for (const attempts of many) {
    const waitsMs = attempts.slice(1).map(({ atMs }, index) => atMs - (attempts[index]?.atMs ?? atMs));
    const half = Math.floor(waitsMs.length / 2);
    earlierMs += mean(waitsMs.slice(0, half));
    laterMs += mean(waitsMs.slice(-half));
  }
  const growth = laterMs / Math.max(1, earlierMs);
  return finding(expectation, `${growth.toFixed(1)} times`, growth >= LEAST_GROWTH, many[0]);
};

/** The attempts of each owner that the fault met. */
const attemptsOf = (record: RunRecord): Entries[] => [...groupedBy(record.faulted(), ({ owner }) => owner).values()];

function worstOf(record: RunRecord, scoreOf: (attempts: Entries) => number): { score: number; attempts: Entries } {
  let worst: { score: number; attempts: Entries } = { score: 0, attempts: [] };
  for (const attempts of attemptsOf(record)) {
    const score = scoreOf(attempts);
    if (score > worst.score) worst = { score, attempts };
  }
  return worst;
}

/** The most requests that began within a span. */
function mostWithin(entries: Entries, spanMs: number): number {
  let [most, from] = [0, 0];
  for (const [index, { atMs }] of entries.entries()) {
    while ((entries[from]?.atMs ?? atMs) <= atMs - spanMs) from++;
    most = Math.max(most, index - from + 1);
  }
  return most;
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

/** A rate-limited owner gets its token once the service has room. */
export const servesLimitedOwners: Expectation = (record) => {
  const limited = record.entries(({ outcome }) => outcome === 'rate_limited');
  const firstAtMs = new Map(limited.toReversed().map(({ owner, atMs }) => [owner, atMs]));
  const issued = record.entries(
    ({ owner, outcome, atMs }) => outcome === 'issued' && atMs > (firstAtMs.get(owner) ?? atMs),
  );
  const expectation = 'Gets tokens later for at least half of the owners that it was told to wait for';
  return atLeastHalf(expectation, ownersOf(issued).size, firstAtMs.size, '', issued, limited);
};

export const backsOff =
  (most: number): Expectation =>
  (record) => {
    const { owner } = record.start;
    const own = record.entries((entry) => entry.owner === owner);
    const expectation = `Requests a token for ${owner} at most ${most} times in the minute`;
    return atMost(expectation, countOf(own.length, 'request'), own.length, most, own);
  };

export const othersUnaffected: Expectation = (record) =>
  none(
    'Gets tokens for all other owners',
    'failure',
    record.entries(
      ({ owner, outcome }) => owner !== record.start.owner && outcome !== 'issued' && outcome !== 'pending',
    ),
  );

export const stopsAfterRefusal =
  (most: number): Expectation =>
  (record) => {
    const refused = record.entries(isOldSecret);
    const expectation = `Sends at most ${most} requests with the old secret`;
    return atMost(expectation, countOf(refused.length, 'request'), refused.length, most, refused);
  };

/** How long before the end of the run an integration must have changed over. */
const SETTLED_MS = 30_000;

export const usesNewSecret: Expectation = (record) => {
  const issued = record.entries(({ outcome }) => outcome === 'issued').length;
  const settledAtMs = record.start.endsAtMs - SETTLED_MS;
  const late = record.entries((entry) => isOldSecret(entry) && entry.atMs >= settledAtMs);
  return finding(
    'Carries on with the new secret, and with it alone for the last 30 s',
    `${countOf(issued, 'token')} issued, ${countOf(late.length, 'late request')} with the old one`,
    issued > 0 && late.length === 0,
    issued > 0 ? late : record.entries(isOldSecret),
  );
};

const isOldSecret = ({ error }: Readonly<LedgerEntry>): boolean => error === 'invalid_client';

export const dropsWrongToken: Expectation = (record) => {
  const strays = record.strayTokens();
  const further = record.calls.filter(({ entry, usesFlagged }) => usesFlagged && strays.has(entry.token));
  const entries = further.map(({ entry }) => entry);
  return none('Drops a token that /echo flagged as of another owner', 'further call', entries);
};

const where = (requests: readonly RecordedRequest[], flag: 'isDuplicate' | 'isEarly'): Entries =>
  requests.filter((request) => request[flag]).map(({ entry }) => entry);

const atMost = (expectation: string, observed: string, count: number, most: number, entries: Entries) =>
  finding(expectation, observed, count <= most, count <= most ? [] : entries);

function atLeastHalf(expectation: string, some: number, all: number, more: string, shown: Entries, otherwise: Entries) {
  const passed = some > 0 && some >= all / 2;
  return finding(expectation, `${some} of ${countOf(all, 'owner')}${more}`, passed, passed ? shown : otherwise);
}

/** A client may ask for an owner that works, now and then, to see whether the service does: one request in a hundred, or two. */
const hardlyAny = (expectation: string, noun: string, entries: Entries, { requests }: RunRecord) =>
  atMost(expectation, countOf(entries.length, noun), entries.length, Math.max(2, requests.length / 100), entries);

const none = (expectation: string, noun: string, entries: Entries) =>
  finding(expectation, countOf(entries.length, noun), entries.length === 0, entries);
