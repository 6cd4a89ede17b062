/**
 * The JSON of the control plane, each shape stated once: the types of answers and events, and the schemas of
 * `/openapi.json`, which a test compares with real answers. Only {@link CredentialsView} holds secrets. Times named
 * `…AtMs` are epoch milliseconds of the sandbox's clock.
 */

import * as v from 'valibot';
import type { Mark, Second } from '../../page-engine/data.ts';
import type { Fact as FactType } from '../state/facts.ts';
import { ACTIVE_FAULT, FAULT_RULE, FAULT_WHEN } from '../state/fault-rules.ts';
import type { Band as BandType } from '../state/history.ts';
import {
  KINDS,
  type LedgerEntry as LedgerEntryType,
  type LedgerSummary as LedgerSummaryType,
  OUTCOMES,
} from '../state/ledger-entry.ts';
import { PROFILE, PROFILE_CHANGES, SETTINGS } from '../state/profile.ts';
import { SCENARIOS, type ScenarioView as ScenarioText } from '../state/scenarios.ts';
import { boolean, count, maybe, number, object, oneOf, type Schema, string } from '../state/schema.ts';
import type { ScenarioRun as ScenarioRunType, ScenarioVerdict as ScenarioVerdictType } from '../state/world.ts';

export type { Outcome } from '../state/ledger-entry.ts';

const listOf = v.array;

export const Health = object({ status: string });

/** The body of every error of the control plane, with a 4xx or 5xx status. */
export const ControlError = object({
  /** `bad_request`, `not_found`, `forbidden`, `unauthorized`, `unsupported_media_type`, `method_not_allowed`, … */
  error: string,
  message: string,
});
export type ControlError = v.InferOutput<typeof ControlError>;

export const ClockView = object({ nowMs: number, frozen: boolean });
export type ClockView = v.InferOutput<typeof ClockView>;

/** Counts over all requests since the start or the last clearing of the ledger: exact. */
export const FiguresView = object({
  /** Requests of every kind. */
  total: count,
  tokenRequests: count,
  /** Token requests for owners that already had a good token, however they ended. */
  wasted: count,
  /** Token requests in flight. */
  inFlight: count,
  owners: count,
  /** Owners that a token was requested for. */
  ownersAsked: count,
  /** Owners with a usable token now. */
  ownersCovered: count,
});
export type FiguresView = v.InferOutput<typeof FiguresView>;

export type LedgerEntry = LedgerEntryType;
export const LedgerEntry: Schema<LedgerEntry> = object({
  id: count,
  kind: oneOf(KINDS),
  atMs: number,
  durationMs: maybe(number),
  method: string,
  owner: maybe(string),
  accessKey: maybe(string),
  token: maybe(string),
  tokenExpiresAtMs: maybe(number),
  outcome: oneOf(OUTCOMES),
  status: maybe(count),
  error: maybe(string),
  description: maybe(string),
  field: maybe(string),
  retryAfterSeconds: maybe(count),
  fault: maybe(string),
  faultKind: maybe(string),
  wasted: boolean,
});

export const LedgerSummary: Schema<LedgerSummaryType> = object({
  total: count,
  wasted: count,
  ownersServed: count,
  byOutcome: v.record(string, count),
});

/** A token as a bar in its owner's lane. */
export const TokenView = object({
  fingerprint: string,
  owner: string,
  issuedAtMs: number,
  expiresAtMs: number,
  /** When it was revoked; the bar ends there. */
  revokedAtMs: maybe(number),
});
export type TokenView = v.InferOutput<typeof TokenView>;

export const LaneView = object({
  /** The owner's id; empty for requests of unknown owners. */
  id: string,
  name: string,
  /** Tokens of the window, oldest first, at most 60. */
  tokens: listOf(TokenView),
  /**
   * Token requests and failed calls of the window, oldest first, at most 300: id, time, index of its kind (200, wasted,
   * 429, 5xx, no usable answer, refused, in flight), and 1 if it was wasted.
   */
  marks: listOf(v.array(number)) as unknown as Schema<Mark[]>,
});
export type LaneView = v.InferOutput<typeof LaneView>;

export type Band = BandType;
export const Band: Schema<Band> = object({
  id: count,
  kind: oneOf(['fault', 'scenario', 'frozen', 'jump']),
  name: maybe(string),
  fromMs: number,
  toMs: maybe(number),
});

export type TimelineSecond = Second;
export const TimelineSecond = listOf(count) as unknown as Schema<TimelineSecond>;

/** Lanes and time rail of a window that ends now or at `untilMs`. */
export const PictureView = object({
  windowMs: number,
  /** In the directory's order; the worst first where `matching` exceeds the limit. */
  lanes: listOf(LaneView),
  /** How many owners match the search. */
  matching: count,
  seconds: listOf(TimelineSecond),
  bands: listOf(Band),
  /** Where `untilMs` is given: the requests of the window, oldest first, at most 500; or those named by `requests`. */
  requests: maybe(listOf(LedgerEntry)),
});
export type PictureView = v.InferOutput<typeof PictureView>;

/** The integration's client. */
export const ClientView = object({
  clientId: string,
  enabled: boolean,
  /** Fingerprints. The first is the current one; older ones are valid until `goodUntilMs`. */
  secrets: listOf(object({ fingerprint: string, goodUntilMs: maybe(number) })),
});
export type ClientView = v.InferOutput<typeof ClientView>;

export const AccessKeyView = object({
  id: string,
  fingerprint: string,
  enabled: boolean,
  revoked: boolean,
});
export type AccessKeyView = v.InferOutput<typeof AccessKeyView>;

export const OwnerView = object({
  id: string,
  name: string,
  enabled: boolean,
  accessKeys: listOf(AccessKeyView),
  /** Token requests since the start or the last clearing of the ledger. */
  tokenRequests: count,
  /** When its newest usable token expires; absent without one. */
  coveredUntilMs: maybe(number),
});
export type OwnerView = v.InferOutput<typeof OwnerView>;

/** `GET /api/credentials?owner=…`: secrets, for the `.env` block and "copy as curl". */
export const CredentialsView = object({
  baseUrl: string,
  clientId: string,
  clientSecret: string,
  owner: string,
  accessKey: string,
  /** The text of an `.env` file with these settings, and all access keys up to 100. */
  env: string,
});
export type CredentialsView = v.InferOutput<typeof CredentialsView>;

/** `POST /api/try`: one token request that the sandbox sent to itself, and one to `/echo` with the token. */
export const TryView = object({
  /** Absent: the connection failed, as `socketError` says. */
  status: maybe(count),
  socketError: maybe(string),
  /** The answer with the token masked, cut at 2,000 characters. */
  body: string,
  echoStatus: maybe(count),
  echoOwner: maybe(string),
});
export type TryView = v.InferOutput<typeof TryView>;

export const Fact: Schema<FactType> = object({
  basis: oneOf(['documented', 'assumed']),
  statement: string,
  setting: maybe(v.keyof(object(SETTINGS))),
});

export type ScenarioRun = ScenarioRunType;
export const ScenarioRun: Schema<ScenarioRun> = object({
  name: string,
  startedAtMs: number,
  endsAtMs: maybe(number),
  verdictAtMs: number,
  owner: maybe(string),
});

export type ScenarioVerdict = ScenarioVerdictType;
export const ScenarioVerdict: Schema<ScenarioVerdict> = object({
  verdict: oneOf(['passed', 'failed', 'not tested']),
  passed: boolean,
  reason: maybe(string),
  conditions: listOf(object({ condition: string, observed: string, met: boolean })),
  findings: listOf(
    object({
      expectation: string,
      observed: string,
      passed: boolean,
      requests: maybe(listOf(count)),
      fromMs: maybe(number),
      toMs: maybe(number),
    }),
  ),
  startedAtMs: number,
  endedAtMs: number,
});

/** A scenario with the verdict of its last run. */
export type ScenarioView = ScenarioText & { verdict?: ScenarioVerdict };
export const ScenarioView: Schema<ScenarioView> = object({
  name: v.picklist(SCENARIOS.map((scenario) => scenario.name)),
  title: string,
  description: string,
  consequence: string,
  requires: string,
  durationMs: number,
  owners: count,
  verdict: maybe(ScenarioVerdict),
});

/** `GET /api/state`, and each `event: update` of `GET /api/events`. */
export const StateView = object({
  /** Base URL of the token plane. */
  url: string,
  /** The text of the `.env` file of {@link CredentialsView}, with dots for the secrets. */
  env: string,
  clock: ClockView,
  figures: FiguresView,
  /** The last requests, oldest first. Calls to /echo do not displace token requests. */
  requests: listOf(LedgerEntry),
  picture: PictureView,
  /** Token requests of the last minute or the present window. */
  recent: listOf(TimelineSecond),
  /** Grows when owners, keys or scenarios have changed: fetch the shown ones again. */
  ownersVersion: count,
  faults: listOf(ACTIVE_FAULT),
  profile: PROFILE,
  client: ClientView,
  scenario: maybe(ScenarioRun),
});
export type StateView = v.InferOutput<typeof StateView>;

/** What `/openapi.json` refers to by name. */
export const SHAPES = {
  Health,
  ControlError,
  ClockView,
  FiguresView,
  LedgerEntry,
  LedgerSummary,
  TokenView,
  LaneView,
  Band,
  TimelineSecond,
  PictureView,
  ClientView,
  AccessKeyView,
  OwnerView,
  CredentialsView,
  TryView,
  Fact,
  ScenarioRun,
  ScenarioVerdict,
  ScenarioView,
  StateView,
  FaultRule: FAULT_RULE,
  FaultWhen: FAULT_WHEN,
  ActiveFault: ACTIVE_FAULT,
  Profile: PROFILE,
  ProfileChanges: PROFILE_CHANGES,
};
