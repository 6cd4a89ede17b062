/**
 * The JSON of the control plane: its REST answers and its event stream. Only {@link CredentialsView} holds secrets. Times
 * named `…AtMs` are epoch milliseconds of the sandbox's clock.
 */

import type { Mark } from '../picture/data.ts';
import type { ActiveFault } from './state/fault-rules.ts';
import type { Band } from './state/history.ts';
import type { LedgerEntry } from './state/ledger-entry.ts';
import type { Profile } from './state/profile.ts';
import type { ScenarioView as ScenarioText } from './state/scenarios.ts';
import type { TimelineSecond } from './state/timeline.ts';
import type { ScenarioRun, ScenarioVerdict } from './state/world.ts';

export type { Band } from './state/history.ts';
export type { LedgerEntry, LedgerSummary, Outcome } from './state/ledger-entry.ts';
export type { TimelineSecond } from './state/timeline.ts';
export type { ScenarioRun, ScenarioVerdict } from './state/world.ts';

/** `GET /api/state`: the initial state of a page. The event stream reports what changes after `lastEventId`. */
export interface StateView {
  /** Base URL of the token plane. */
  url: string;
  lastEventId: string;
  clock: ClockView;
  figures: FiguresView;
  /** The last requests, oldest first. Calls to /echo do not displace token requests. */
  requests: LedgerEntry[];
  picture: PictureView;
  faults: ActiveFault[];
  profile: Profile;
  apps: AppView[];
  scenario?: ScenarioRun;
}

export interface ClockView {
  nowMs: number;
  frozen: boolean;
}

/** Counts over all requests since the start or the last clearing of the ledger: exact. */
export interface FiguresView {
  /** Requests of every kind. */
  total: number;
  tokenRequests: number;
  /** Token requests for owners that already had a good token, however they ended. */
  wasted: number;
  /** Token requests in flight. */
  inFlight: number;
  owners: number;
  /** Owners that a token was requested for. */
  ownersAsked: number;
  /** Owners with a usable token now. */
  ownersCovered: number;
}

/** `GET /api/picture`: lanes and time rail of a window that ends now or at `untilMs`. */
export interface PictureView {
  windowMs: number;
  /** In the directory's order; the worst first where `matching` exceeds the limit. */
  lanes: LaneView[];
  /** How many owners match the search. */
  matching: number;
  seconds: TimelineSecond[];
  bands: Band[];
  /** Where `untilMs` is given: the requests of the window, oldest first, at most 500; or those named by `requests`. */
  requests?: LedgerEntry[];
}

export interface LaneView {
  /** The owner's id; empty for requests of unknown owners. */
  id: string;
  name: string;
  /** Tokens of the window, oldest first, at most 60. */
  tokens: TokenView[];
  /**
   * Token requests and failed calls of the window, oldest first, at most 300: id, time, index of its kind (200, wasted,
   * 429, 5xx, no usable answer, refused, in flight), and 1 if it was wasted.
   */
  marks: Mark[];
}

/** A token as a bar in its owner's lane. */
export interface TokenView {
  fingerprint: string;
  owner: string;
  app: string;
  issuedAtMs: number;
  expiresAtMs: number;
  /** When it was revoked; the bar ends there. */
  revokedAtMs?: number;
}

export interface AppView {
  id: string;
  name: string;
  enabled: boolean;
  clientId: string;
  /** Fingerprints. The first is the current one; older ones are valid until `goodUntilMs`. */
  secrets: { fingerprint: string; goodUntilMs?: number }[];
}

export interface OwnerView {
  id: string;
  name: string;
  enabled: boolean;
  accessKeys: AccessKeyView[];
  /** Token requests since the start or the last clearing of the ledger. */
  tokenRequests: number;
  /** When its newest usable token expires; absent without one. */
  coveredUntilMs?: number;
}

export interface AccessKeyView {
  id: string;
  app: string;
  fingerprint: string;
  enabled: boolean;
  revoked: boolean;
}

/** `GET /api/credentials?owner=…`: secrets, for the `.env` block and "copy as curl". */
export interface CredentialsView {
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  owner: string;
  accessKey: string;
  /** The text of an `.env` file with these settings, and all access keys of the app up to 100. */
  env: string;
}

/** `POST /api/try`: one token request that the sandbox sent to itself, and one to `/echo` with the token. */
export interface TryView {
  /** Absent: the connection failed, as `socketError` says. */
  status?: number;
  socketError?: string;
  /** The answer with the token masked, cut at 2,000 characters. */
  body: string;
  echoStatus?: number;
  echoOwner?: string;
}

/** `POST /api/preview`: the answer that a token request would get, without sending one. */
export interface PreviewView {
  /** Absent: the client gets no complete answer. */
  status?: number;
  headers: Record<string, string>;
  body: string;
  /** What the client sees besides the answer, or instead of it. */
  note?: string;
}

/** A scenario with the verdict of its last run. */
export interface ScenarioView extends ScenarioText {
  verdict?: ScenarioVerdict;
}

/** The only kind of event, `event: update`, at most ten a second. An absent member has not changed. */
export interface UpdateFrame {
  clock: ClockView;
  figures?: FiguresView;
  /** New and changed requests; a later one replaces an earlier one with the same `id`. The newest 250 at most. */
  requests?: LedgerEntry[];
  /** How many requests were left out of `requests`. */
  requestsLeftOut?: number;
  /** New and changed tokens by `fingerprint`, the newest 250 at most. */
  tokens?: TokenView[];
  /** Changed seconds of the timeline. */
  seconds?: TimelineSecond[];
  bands?: Band[];
  faults?: ActiveFault[];
  profile?: Profile;
  apps?: AppView[];
  /** Owners or access keys have changed: fetch the shown ones again. */
  ownersChanged?: true;
  /** `null`: no scenario is running any more. */
  scenario?: ScenarioRun | null;
  /** Everything may have changed (a reset, or missed events that are no longer kept): fetch `/api/state` again. */
  stale?: true;
}

/** The body of every error of the control plane, with a 4xx or 5xx status. */
export interface ControlError {
  /** `bad_request`, `not_found`, `forbidden`, `unauthorized`, `unsupported_media_type`, `method_not_allowed`, … */
  error: string;
  message: string;
}
