/**
 * What the page knows of the sandbox, and how a frame of the event stream changes it. Pure: a frame gives a new model,
 * in which everything that the frame did not touch is the same object as before, so that a view may compare by identity.
 */

import type {
  AppView,
  ClockView,
  LedgerEntry,
  LedgerSummary,
  OwnerView,
  ScenarioRun,
  StateView,
  TokenView,
  UpdateFrame,
} from '../../api-types.ts';
import type { ActiveFault } from '../../state/fault-rules.ts';
import type { Profile } from '../../state/profile.ts';

/** One owner's part of the picture. */
export interface Lane {
  /** The owner's id; empty for requests that name no known owner. */
  readonly id: string;
  /** By `issuedAtMs`. */
  readonly tokens: readonly TokenView[];
  /** By `id`. */
  readonly requests: readonly LedgerEntry[];
}

/** How many requests there had been at a time of the page's own clock. */
export interface Sample {
  readonly atMs: number;
  readonly total: number;
}

export interface Model {
  readonly url: string;
  /** The sandbox's time as it was when the page's own clock showed `seenAtMs`. */
  readonly clock: ClockView & { readonly seenAtMs: number };
  readonly summary: LedgerSummary;
  readonly samples: readonly Sample[];
  /** The last ones, by `id`. */
  readonly requests: readonly LedgerEntry[];
  readonly lanes: ReadonlyMap<string, Lane>;
  readonly owners: readonly OwnerView[];
  readonly apps: readonly AppView[];
  readonly faults: readonly ActiveFault[];
  readonly profile: Profile;
  readonly scenario: ScenarioRun | undefined;
}

export const RATE_WINDOW_MS = 10_000;

const MAX_REQUESTS = 1000;
const MAX_LANE_REQUESTS = 300;
const MAX_LANE_TOKENS = 60;

/** The model that a page begins with. @param seenAtMs the page's own clock. */
export function modelOf(state: StateView, seenAtMs: number): Model {
  const { url, summary, owners, apps, faults, profile, scenario } = state;
  const lanes = changeLanes(lanesOf(owners, new Map()), state.requests, state.tokens);
  return {
    url,
    clock: { ...state.clock, seenAtMs },
    summary,
    samples: [{ atMs: seenAtMs, total: summary.total }],
    requests: trimmed(state.requests, MAX_REQUESTS),
    lanes,
    owners,
    apps,
    faults,
    profile,
    scenario,
  };
}

/** The model after a frame. A frame that is `stale` asks for a new beginning, and changes only the clock here. */
export function changed(model: Model, frame: UpdateFrame, seenAtMs: number): Model {
  const { requests = [], tokens = [] } = frame;
  const owners = frame.owners ?? model.owners;
  let lanes = owners === model.owners ? model.lanes : lanesOf(owners, model.lanes);
  if (requests.length > 0 || tokens.length > 0) lanes = changeLanes(lanes, requests, tokens);
  return {
    ...model,
    clock: { ...frame.clock, seenAtMs },
    summary: frame.summary ?? model.summary,
    samples: frame.summary ? addSample(model.samples, { atMs: seenAtMs, total: frame.summary.total }) : model.samples,
    requests: requests.length > 0 ? merged(model.requests, requests, MAX_REQUESTS) : model.requests,
    lanes,
    owners,
    apps: frame.apps ?? model.apps,
    faults: frame.faults ?? model.faults,
    profile: frame.profile ?? model.profile,
    scenario: frame.scenario === undefined ? model.scenario : (frame.scenario ?? undefined),
  };
}

/** The sandbox's time when the page's own clock shows `pageMs`. */
export function timeOf({ clock }: Pick<Model, 'clock'>, pageMs: number): number {
  return clock.frozen ? clock.nowMs : clock.nowMs + Math.max(0, pageMs - clock.seenAtMs);
}

/** A token's end, by time or by revocation. */
export const endOf = (token: TokenView): number => Math.min(token.expiresAtMs, token.revokedAtMs ?? Infinity);

/** The token that is good now and for longest, if there is one. */
export function liveToken(lane: Lane, nowMs: number): TokenView | undefined {
  let best: TokenView | undefined;
  for (const token of lane.tokens) {
    if (endOf(token) > nowMs && (!best || endOf(token) > endOf(best))) best = token;
  }
  return best;
}

/** Requests a second, over the last ten seconds or as long as the page has looked on. */
export function rateOf(samples: readonly Sample[], pageMs: number): number {
  const fromMs = pageMs - RATE_WINDOW_MS;
  const base = samples.findLast(({ atMs }) => atMs <= fromMs) ?? samples[0];
  const last = samples.at(-1);
  if (!base || !last) return 0;
  const seconds = Math.max(1, (pageMs - Math.max(base.atMs, fromMs)) / 1000);
  return Math.max(0, last.total - base.total) / seconds;
}

/** The lanes of these owners, in their order; the lane of no known owner stays, at the end. */
function lanesOf(owners: readonly OwnerView[], before: ReadonlyMap<string, Lane>): Map<string, Lane> {
  const lanes = new Map<string, Lane>();
  for (const { id } of owners) lanes.set(id, before.get(id) ?? emptyLane(id));
  const unknown = before.get('');
  if (unknown) lanes.set('', unknown);
  return lanes;
}

const emptyLane = (id: string): Lane => ({ id, tokens: [], requests: [] });

function changeLanes(
  lanes: ReadonlyMap<string, Lane>,
  requests: readonly LedgerEntry[],
  tokens: readonly TokenView[],
): Map<string, Lane> {
  const after = new Map(lanes);
  for (const [id, news] of grouped(requests)) {
    const lane = after.get(id) ?? emptyLane(id);
    after.set(id, { ...lane, requests: merged(lane.requests, news, MAX_LANE_REQUESTS) });
  }
  for (const [id, news] of grouped(tokens)) {
    const lane = after.get(id) ?? emptyLane(id);
    after.set(id, { ...lane, tokens: mergedTokens(lane.tokens, news) });
  }
  return after;
}

function grouped<T extends { owner?: string }>(items: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(item.owner ?? '');
    if (group) group.push(item);
    else groups.set(item.owner ?? '', [item]);
  }
  return groups;
}

/** A list with new and changed requests in their places, by `id`; of too many the oldest go. */
function merged(list: readonly LedgerEntry[], news: readonly LedgerEntry[], most: number): LedgerEntry[] {
  const after = [...list];
  for (const entry of news) {
    let index = after.length;
    while (index > 0 && (after[index - 1] as LedgerEntry).id > entry.id) index--;
    const known = after[index - 1]?.id === entry.id;
    if (known) after[index - 1] = entry;
    else after.splice(index, 0, entry);
  }
  return trimmed(after, most);
}

/** Of too many requests, the oldest ones that tell least go first: calls that were accepted. */
function trimmed(list: LedgerEntry[], most: number): LedgerEntry[] {
  let excess = list.length - most;
  if (excess <= 0) return list;
  const recent = list.length - most / 4;
  const kept = list.filter(({ kind, outcome }, index) => {
    const goes = excess > 0 && index < recent && kind === 'echo' && outcome === 'accepted';
    if (goes) excess--;
    return !goes;
  });
  return kept.slice(-most);
}

function mergedTokens(list: readonly TokenView[], news: readonly TokenView[]): TokenView[] {
  const after = [...list];
  for (const token of news) {
    const index = after.findLastIndex(({ fingerprint }) => fingerprint === token.fingerprint);
    if (index >= 0) after[index] = token;
    else after.push(token);
  }
  return after.slice(-MAX_LANE_TOKENS);
}

/** Keeps what the rate is worked out from: the samples in its window and the last one before it. */
function addSample(samples: readonly Sample[], sample: Sample): Sample[] {
  const first = samples.findLastIndex(({ atMs }) => atMs <= sample.atMs - RATE_WINDOW_MS);
  return [...samples.slice(Math.max(0, first)), sample];
}
