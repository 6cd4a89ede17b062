/**
 * The situations that every integration meets sooner or later: what each does to the sandbox, what must come about for a
 * verdict, and what it expects of an integration. `scenario-run.ts` runs them.
 */

import { currentKey, revokeAccessKey, rotateSecret } from '../world/actions.ts';
import type { FaultRule } from '../world/fault-rules.ts';
import { NotFound } from '../world/problems.ts';
import type { World } from '../world/world.ts';
import * as expect from './expectations.ts';
import type { ConditionCheck, Expectation } from './verdict.ts';

/**
 * The names of all scenarios.
 *
 * @example
 * ```ts
 * const name: ScenarioName = 'owner-revoked';
 * sandbox.runScenario(name);
 * ```
 */
export type ScenarioName =
  | 'cold-start'
  | 'mass-expiry'
  | 'outage'
  | 'partial-outage'
  | 'rate-limit-storm'
  | 'owner-revoked'
  | 'black-hole'
  | 'wrong-owner-token'
  | 'secret-rotated';

/**
 * A scenario in words.
 *
 * @example
 * ```ts
 * const titleOf = ({ name, title }: ScenarioView) => `${title} (--scenario ${name})`;
 * console.log(SCENARIOS.map(titleOf)[2]); // → Outage of 30 seconds (--scenario outage)
 * ```
 */
export interface ScenarioView {
  /** Its name in the API and on the command line. */
  readonly name: ScenarioName;
  /** A short title. */
  readonly title: string;
  /** What happens, and what a good integration does then. */
  readonly description: string;
  /** What starting it changes in the sandbox for good or for a while: shown beside the button. */
  readonly consequence: string;
  /** What the integration must do, so that there is a verdict. */
  readonly requires: string;
  /** How long it lasts, on the sandbox's clock. */
  readonly durationMs: number;
  /** How many owners it needs. Missing ones are created, and removed at its end. */
  readonly owners: number;
}

export interface Scenario extends Omit<ScenarioView, 'durationMs'> {
  /** How long its fault lasts. */
  readonly faultMs?: number;
  /** How long the integration is observed after that. */
  readonly observeMs: number;
  /** A fault during that observation. */
  readonly recovery?: FaultRule;
  /** Whether it concerns one owner: the given one, else the first. */
  readonly ofOneOwner?: true;
  /** Causes the situation. `covered`: owners that had a usable token. */
  readonly start: (world: World, owner: string, covered: number) => { fault?: FaultRule; undo?: () => void };
  readonly conditions: readonly ConditionCheck[];
  readonly expectations: readonly Expectation[];
}

const COLD_OWNERS = 200;

/** Longer than a sensible integration pauses between two attempts: 30 s, and what its last request took. */
const OBSERVED_RECOVERY_MS = 60_000;

/** A limit on requests in flight that leaves room for any sensible one. */
const FEW = 32;

/** A limit on requests in flight that an integration with many owners may set; the default `concurrency` of this package. */
const LIMITED = 100;

/** Makes requests last long enough to be seen in flight together. */
const SLOW: FaultRule = { kind: 'latency', ms: 200 };

/** Of an integration whose requests fail. */
const RETRIES_SPARINGLY = [expect.spacesAttempts, expect.growsWaits, expect.boundsAttempts];

const NEEDS_TOKENS =
  'Tokens are revoked at the start, so that new ones are needed. An integration notices that when it calls /echo; one ' +
  'that does not call it needs a token lifetime of 20 s (--lifetime 20).';

export const SCENARIO_TABLE: readonly Scenario[] = [
  {
    name: 'cold-start',
    title: `Cold start of ${COLD_OWNERS} owners`,
    description:
      `There are ${COLD_OWNERS} owners, and every token is revoked. ` +
      'A good integration sends one request for each owner that it acts for, a few at a time.',
    consequence:
      `Revokes every token, and delays answers by 200 ms, for 30 s. Adds owners until there are ${COLD_OWNERS}, and ` +
      'removes them at the end.',
    requires: `Requests tokens for at least ${COLD_OWNERS / 2} owners: start the sandbox with --owners ${COLD_OWNERS}.`,
    faultMs: 30_000,
    observeMs: 0,
    owners: COLD_OWNERS,
    start: (world) => {
      revokeAllTokens(world);
      return { fault: SLOW };
    },
    conditions: [expect.ownersRequest(COLD_OWNERS / 2)],
    expectations: [expect.noWaste, expect.singleFlight, expect.noStampede],
  },
  {
    name: 'mass-expiry',
    title: 'Mass expiry',
    description:
      'Time advances by the lifetime of a token, so that all of them expire together. ' +
      'A good integration sends one request for each owner when it needs a token, not one for each call.',
    consequence: 'Advances the sandbox’s clock by the lifetime of a token, and delays answers by 200 ms, for 30 s.',
    requires: 'Has tokens for at least 5 owners, and calls /echo with them or obeys the sandbox’s clock.',
    faultMs: 30_000,
    observeMs: 0,
    owners: 5,
    start: (world) => {
      world.clock.advance(world.profile.lifetimeSeconds * 1000);
      return { fault: SLOW };
    },
    conditions: [expect.ownersHadTokens(5), expect.ownersRequest(5)],
    expectations: [expect.noWaste, expect.singleFlight, expect.noStampede],
  },
  {
    name: 'outage',
    title: 'Outage of 30 seconds',
    description:
      'For 30 seconds every token request is answered with 503. A good integration retries less and less often, for ' +
      'each owner, and does not return as a stampede.',
    consequence:
      'Revokes every token, and answers token requests with 503 for 30 s; then observes the recovery for 60 s, with ' +
      'answers delayed by 200 ms.',
    requires: `Requests tokens during the outage. ${NEEDS_TOKENS}`,
    faultMs: 30_000,
    observeMs: OBSERVED_RECOVERY_MS,
    recovery: SLOW,
    owners: 1,
    start: (world) => {
      revokeAllTokens(world);
      return { fault: { kind: 'status', status: 503 } };
    },
    conditions: [expect.faultMet],
    expectations: [
      ...RETRIES_SPARINGLY,
      expect.recovers,
      expect.calmRecovery(LIMITED),
      expect.singleFlight,
      expect.noWaste,
    ],
  },
  {
    name: 'partial-outage',
    title: 'Part of the service fails',
    description:
      'For 30 seconds token requests for every fifth owner are answered with 503. A good integration fails for these ' +
      'owners alone, and retries less and less often.',
    consequence:
      'Revokes every token, and answers token requests for every fifth owner with 503 for 30 s; then observes the ' +
      'recovery for 60 s.',
    requires: `Requests tokens for at least five owners. ${NEEDS_TOKENS}`,
    faultMs: 30_000,
    observeMs: OBSERVED_RECOVERY_MS,
    owners: 5,
    start: (world) => {
      revokeAllTokens(world);
      return { fault: { kind: 'status', status: 503, target: { share: 0.2 } } };
    },
    conditions: [expect.faultMet, expect.ownersRequest(5)],
    expectations: [...RETRIES_SPARINGLY, expect.servesOthers, expect.recovers, expect.singleFlight, expect.noWaste],
  },
  {
    name: 'rate-limit-storm',
    title: 'Rate-limit storm',
    description:
      'For 40 seconds the service answers only one request for every four owners in each 10 seconds; the others get ' +
      '429 with Retry-After. A good integration waits that long with each owner.',
    consequence: 'Revokes every token, and limits token requests for 40 s; then observes the recovery for 30 s.',
    requires: `Requests tokens for at least four owners. ${NEEDS_TOKENS}`,
    faultMs: 40_000,
    observeMs: 30_000,
    owners: 4,
    start: (world, _owner, covered) => {
      revokeAllTokens(world);
      const over = Math.max(1, Math.floor((covered || world.directory.owners.size) / 4));
      return { fault: { kind: 'status', status: 429, when: { over, perMs: 10_000 } } };
    },
    conditions: [expect.faultMet],
    expectations: [expect.obeysRetryAfter, expect.servesLimitedOwners, expect.noWaste, expect.singleFlight],
  },
  {
    name: 'owner-revoked',
    title: 'One owner revoked',
    description:
      'One access key is revoked together with its tokens. A good integration fails for this owner alone, and retries ' +
      'less and less often.',
    consequence: 'Revokes the access key of one owner for 60 s.',
    requires:
      'Acts for this owner and for others. It notices the end of a token when it calls /echo, or by its lifetime.',
    observeMs: 60_000,
    owners: 2,
    ofOneOwner: true,
    start: (world, owner) => {
      const key = currentKey(world, owner);
      if (!key) throw new NotFound('this owner has no access key');
      const wasRevoked = key.revoked;
      revokeAccessKey(world, key);
      world.tokens.revokeWhere(({ accessKey }) => accessKey === key, world.clock.now());
      const undo = () => {
        key.revoked = wasRevoked;
        world.changed('owners');
      };
      return { undo };
    },
    conditions: [expect.ownerRequests, expect.othersActive],
    expectations: [expect.backsOff(10), expect.othersUnaffected, expect.noWaste],
  },
  {
    name: 'black-hole',
    title: 'Black hole',
    description:
      'For 30 seconds token requests are read and never answered. A good integration gives up in time, and keeps ' +
      'few connections waiting.',
    consequence:
      'Revokes every token, and leaves token requests unanswered for 30 s; then observes the recovery for 60 s.',
    requires: `Requests tokens during the black hole. ${NEEDS_TOKENS}`,
    faultMs: 30_000,
    observeMs: OBSERVED_RECOVERY_MS,
    owners: 1,
    start: (world) => {
      revokeAllTokens(world);
      return { fault: { kind: 'silence' } };
    },
    conditions: [expect.faultMet],
    expectations: [
      expect.givesUpWithin(30_000),
      expect.fewAtOnce(FEW),
      expect.boundsAttempts,
      expect.recovers,
      expect.singleFlight,
      expect.noWaste,
    ],
  },
  {
    name: 'wrong-owner-token',
    title: "Another owner's token",
    description:
      "The next five answers for one owner carry another owner's token. The token itself does not show it; /echo does, " +
      'if the caller names the owner it expects. A good integration then drops the token.',
    consequence:
      "Revokes the tokens of one owner, and gives it another owner's token up to five times; observes for 60 s.",
    requires: 'Acts for this owner, and calls /echo with the header x-expected-owner: the id of the owner it acts for.',
    observeMs: 60_000,
    owners: 2,
    ofOneOwner: true,
    start: (world, owner) => {
      world.tokens.revokeWhere(({ accessKey }) => accessKey.ownerId === owner, world.clock.now());
      return { fault: { kind: 'wrong_owner_token', target: { owner }, when: { next: 5 } } };
    },
    conditions: [expect.ownerRequests, expect.wrongTokenFlagged],
    expectations: [expect.dropsWrongToken, expect.noWaste],
  },
  {
    name: 'secret-rotated',
    title: 'Secret rotated',
    description:
      'The client secret is replaced, and the old one is refused at once. A good integration stops requesting for all ' +
      'owners after the first refusals, and carries on with the new secret once it has it.',
    consequence: 'Replaces the client secret for good, and revokes every token; observes for 90 s.',
    requires:
      'Reads the new secret within a minute: from the file that OTR_CLIENT_SECRET_FILE names, from GET ' +
      `/api/credentials, or from sandbox.clientSecret. ${NEEDS_TOKENS}`,
    observeMs: 90_000,
    owners: 1,
    start: (world) => {
      revokeAllTokens(world);
      rotateSecret(world);
      return {};
    },
    conditions: [expect.requestsSinceRotation],
    expectations: [expect.stopsAfterRefusal(FEW), expect.usesNewSecret, expect.noWaste],
  },
];

function revokeAllTokens(world: World): void {
  world.tokens.revokeWhere(() => true, world.clock.now());
}

/**
 * All scenarios, in words.
 *
 * @example
 * ```ts
 * console.log(SCENARIOS.map(({ name }) => name)); // → […'cold-start',…
 * ```
 */
export const SCENARIOS: readonly ScenarioView[] = Object.freeze(
  SCENARIO_TABLE.map(({ name, title, description, consequence, requires, owners, faultMs = 0, observeMs }) =>
    Object.freeze({
      name,
      title,
      description,
      consequence,
      requires,
      owners,
      durationMs: faultMs + observeMs,
    }),
  ),
);

export function findScenario(name: string): Scenario {
  const scenario = SCENARIO_TABLE.find((candidate) => candidate.name === name);
  if (scenario) return scenario;
  throw new NotFound(`there is no such scenario; there are ${SCENARIOS.map((one) => one.name).join(', ')}`);
}
