/**
 * The JSON that the control plane answers with, as types. Only {@link CredentialsView} holds secrets. Times named `…AtMs`
 * are epoch milliseconds of the sandbox's clock.
 */

import type { Mark, Second } from '../../page-engine/data.ts';
import type { ScenarioView as ScenarioText } from '../state/judge/scenarios.ts';
import type { Band } from '../state/ledger/history.ts';
import type { LedgerEntry } from '../state/ledger/ledger-entry.ts';
import type { ActiveFault } from '../state/world/fault-rules.ts';
import type { Profile } from '../state/world/profile.ts';
import type { ScenarioRun, ScenarioVerdict } from '../state/world/world.ts';

export type { Outcome } from '../state/ledger/ledger-entry.ts';
export type { Band, LedgerEntry, ScenarioRun, ScenarioVerdict };

/** The body of every error of the control plane, with a 4xx or 5xx status. */
export interface ControlError {
  /** `bad_request`, `not_found`, `forbidden`, `unauthorized`, `unsupported_media_type`, `method_not_allowed`, … */
  error: string;
  message: string;
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

/** A token as a bar in its owner's lane. */
export interface TokenView {
  fingerprint: string;
  owner: string;
  issuedAtMs: number;
  expiresAtMs: number;
  /** When it was revoked; the bar ends there. */
  revokedAtMs?: number;
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

/** Lanes and time rail of a window that ends now or at `untilMs`. */
export interface PictureView {
  windowMs: number;
  /** In the directory's order; the worst first where `matching` exceeds the limit. */
  lanes: LaneView[];
  /** How many owners match the search. */
  matching: number;
  seconds: Second[];
  bands: Band[];
  /** Where `untilMs` is given: the requests of the window, oldest first, at most 500; or those named by `requests`. */
  requests?: LedgerEntry[];
}

/** The integration's client. */
export interface ClientView {
  clientId: string;
  enabled: boolean;
  /** Fingerprints. The first is the current one; older ones are valid until `validUntilMs`. */
  secrets: { fingerprint: string; validUntilMs?: number }[];
}

export interface AccessKeyView {
  id: string;
  fingerprint: string;
  enabled: boolean;
  revoked: boolean;
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

/** `GET /api/credentials?owner=…`: secrets, for the `.env` block and "copy as curl". */
export interface CredentialsView {
  baseUrl: string;
  clientId: string;
  clientSecret: string;
  owner: string;
  accessKey: string;
  /** The text of an `.env` file with these settings, and all access keys up to 100. */
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

/** A scenario with the verdict of its last run. */
export type ScenarioView = ScenarioText & { verdict?: ScenarioVerdict };

/** `GET /api/state`, and each `event: update` of `GET /api/events`. */
export interface StateView {
  /** Base URL of the token plane. */
  url: string;
  /** The text of the `.env` file of {@link CredentialsView}, with dots for the secrets. */
  env: string;
  clock: ClockView;
  figures: FiguresView;
  /** The last requests, oldest first. Calls to /echo do not displace token requests. */
  requests: LedgerEntry[];
  picture: PictureView;
  /** Token requests of the last minute or the present window. */
  recent: Second[];
  /** Grows when owners, keys or scenarios have changed: fetch the shown ones again. */
  ownersVersion: number;
  faults: ActiveFault[];
  profile: Profile;
  client: ClientView;
  scenario?: ScenarioRun;
}
