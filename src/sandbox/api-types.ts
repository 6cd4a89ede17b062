/**
 * What the control plane tells: the JSON of its REST answers and of its event stream. Nothing here is a secret but what
 * {@link CredentialsView} holds.
 */

import type { ActiveFault } from './state/fault-rules.ts';
import type { LedgerEntry, LedgerSummary } from './state/ledger-entry.ts';
import type { Profile } from './state/profile.ts';
import type { ScenarioRun } from './state/world.ts';

export type { LedgerEntry, LedgerSummary, Outcome } from './state/ledger-entry.ts';
export type { ScenarioView } from './state/scenarios.ts';
export type { ScenarioRun } from './state/world.ts';

/** `GET /api/state`: all that a page needs to begin with; the event stream says what changes from `lastEventId` on. */
export interface StateView {
  /** Base URL of the token plane. */
  url: string;
  lastEventId: string;
  clock: ClockView;
  summary: LedgerSummary;
  /** The last 1,000 requests, oldest first. */
  requests: LedgerEntry[];
  /** Tokens whose time is not over, oldest first, the last 2,000. */
  tokens: TokenView[];
  faults: ActiveFault[];
  profile: Profile;
  apps: AppView[];
  owners: OwnerView[];
  /** The scenario that is running, by name. */
  scenario?: ScenarioRun;
}

/** All times called `…AtMs` are epoch milliseconds by the sandbox's own clock. */
export interface ClockView {
  nowMs: number;
  frozen: boolean;
}

/** A token as a bar in its owner's lane. */
export interface TokenView {
  fingerprint: string;
  owner: string;
  app: string;
  issuedAtMs: number;
  expiresAtMs: number;
  /** Set when it was revoked; a bar ends here then. */
  revokedAtMs?: number;
}

export interface AppView {
  id: string;
  name: string;
  enabled: boolean;
  clientId: string;
  /** Fingerprints. The first is the current one; older ones are good until `goodUntilMs`. */
  secrets: { fingerprint: string; goodUntilMs?: number }[];
}

export interface OwnerView {
  id: string;
  name: string;
  enabled: boolean;
  accessKeys: AccessKeyView[];
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
}

/** `POST /api/try`: one real token request that the sandbox sent to itself, and one to `/echo` with the token. */
export interface TryView {
  /** Undefined: the socket failed, as `socketError` says. */
  status?: number;
  socketError?: string;
  /** The answer with the token masked, cut at 2,000 characters. */
  body: string;
  echoStatus?: number;
  echoOwner?: string;
}

/**
 * The one kind of event, `event: update`: what changed since the frame before, at most ten times a second. A member that
 * is absent has not changed.
 */
export interface UpdateFrame {
  clock: ClockView;
  summary?: LedgerSummary;
  /** New and changed requests by `id`: a later one replaces an earlier one. At most 500; the newest where there are more. */
  requests?: LedgerEntry[];
  /** How many requests were left out of `requests`. */
  requestsLeftOut?: number;
  /** New and changed tokens by `fingerprint`. At most 500. */
  tokens?: TokenView[];
  faults?: ActiveFault[];
  profile?: Profile;
  apps?: AppView[];
  owners?: OwnerView[];
  /** `null`: it is over. */
  scenario?: ScenarioRun | null;
  /** Everything may have changed (a reset, or frames that are no longer kept): ask for `/api/state` again. */
  stale?: true;
}

/** The body of every error of the control plane, with a 4xx status. */
export interface ControlError {
  /** A word: `bad_request`, `not_found`, `forbidden`, `unauthorized`, `unsupported_media_type`, `method_not_allowed`. */
  error: string;
  message: string;
}
