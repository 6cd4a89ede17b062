/**
 * The page's model of the sandbox, and its update by a frame of the event stream. Pure: each frame creates a new model that
 * shares all unchanged objects with the previous one, so that views can compare by identity.
 */

import type {
  AppView,
  Band,
  ClockView,
  FiguresView,
  LaneView,
  LedgerEntry,
  PictureView,
  ScenarioRun,
  StateView,
  TimelineSecond,
  TokenView,
  UpdateFrame,
} from '../../api-types.ts';
import type { ActiveFault } from '../../state/fault-rules.ts';
import { MARK_KINDS, markOf } from '../../state/marks.ts';
import type { Profile } from '../../state/profile.ts';
import { secondOf } from '../../state/timeline.ts';

/** One owner's part of the picture. */
export interface Lane {
  /** The owner's id; empty for requests of unknown owners. */
  readonly id: string;
  readonly name: string;
  /** By `issuedAtMs`. */
  readonly tokens: readonly TokenView[];
  /** By `id`. */
  readonly requests: readonly LedgerEntry[];
}

export interface Model {
  readonly url: string;
  /** The sandbox's time at the moment when the page's own clock showed `seenAtMs`. */
  readonly clock: ClockView & {
    readonly seenAtMs: number;
    /** By the page's own clock: when the connection was lost. What the sandbox does since then is unknown. */
    readonly lostAtMs?: number;
  };
  readonly figures: FiguresView;
  /** The last requests, by `id`. */
  readonly requests: readonly LedgerEntry[];
  readonly lanes: ReadonlyMap<string, Lane>;
  /** How many owners match the search. If they are more than the lanes, the lanes are the worst of them. */
  readonly matching: number;
  /** Token requests by second and mark, exact. */
  readonly seconds: ReadonlyMap<number, TimelineSecond>;
  readonly bands: readonly Band[];
  readonly apps: readonly AppView[];
  readonly faults: readonly ActiveFault[];
  readonly profile: Profile;
  readonly scenario: ScenarioRun | undefined;
  /** Grows when owners, keys or scenarios have changed on the server. */
  readonly ownersVersion: number;
}

const MAX_REQUESTS = 1000;
const MAX_LANE_REQUESTS = 300;
const MAX_LANE_TOKENS = 60;
const MAX_SECONDS = 4 * 3600;

/** The model that a page begins with. @param seenAtMs the page's own clock. */
export function modelOf(state: StateView, seenAtMs: number): Model {
  const { url, figures, apps, faults, profile, scenario, picture } = state;
  return {
    url,
    clock: { ...state.clock, seenAtMs },
    figures,
    requests: trimmed(state.requests, MAX_REQUESTS),
    ...partsOf(picture),
    apps,
    faults,
    profile,
    scenario,
    ownersVersion: 0,
  };
}

/** The model with another window, search or owner. */
export const withPicture = (model: Model, picture: PictureView): Model => ({
  ...model,
  ...partsOf(picture),
  ownersVersion: model.ownersVersion + 1,
});

function partsOf({
  lanes,
  matching,
  seconds,
  bands,
}: PictureView): Pick<Model, 'lanes' | 'matching' | 'seconds' | 'bands'> {
  return {
    lanes: new Map(lanes.map((lane: LaneView) => [lane.id, lane])),
    matching,
    seconds: new Map(seconds.map((second) => [second[0], second])),
    bands,
  };
}

/** The model after a frame. A `stale` frame changes only the clock here; the page then fetches the state again. */
export function changed(model: Model, frame: UpdateFrame, seenAtMs: number): Model {
  const { requests = [], tokens = [] } = frame;
  const hasNews = requests.length > 0 || tokens.length > 0;
  return {
    ...model,
    clock: { ...frame.clock, seenAtMs },
    figures: frame.figures ?? model.figures,
    requests: requests.length > 0 ? merged(model.requests, requests, MAX_REQUESTS) : model.requests,
    lanes: hasNews ? changeLanes(model.lanes, requests, tokens) : model.lanes,
    seconds: frame.seconds ? mergedSeconds(model.seconds, frame.seconds) : model.seconds,
    bands: frame.bands ?? model.bands,
    apps: frame.apps ?? model.apps,
    faults: frame.faults ?? model.faults,
    profile: frame.profile ?? model.profile,
    scenario: frame.scenario === undefined ? model.scenario : (frame.scenario ?? undefined),
    ownersVersion: model.ownersVersion + Number(frame.ownersChanged ?? frame.scenario !== undefined),
  };
}

function mergedSeconds(before: Model['seconds'], news: readonly TimelineSecond[]): Model['seconds'] {
  const after = new Map(before);
  for (const second of news) after.set(second[0], second);
  for (const second of after.keys()) {
    if (after.size <= MAX_SECONDS) break;
    after.delete(second);
  }
  return after;
}

/** Token requests of a span by mark, in the order of `MARK_KINDS`. */
export function countsBetween(seconds: Model['seconds'], fromMs: number, toMs: number): number[] {
  const counts = MARK_KINDS.map(() => 0);
  for (const [second, ...own] of seconds.values()) {
    if (second * 1000 < fromMs - 999 || second * 1000 > toMs) continue;
    for (const [index, count] of own.entries()) counts[index] = (counts[index] ?? 0) + count;
  }
  return counts;
}

/** The sandbox's time at a time of the page's own clock. */
export function timeOf({ clock }: Pick<Model, 'clock'>, pageMs: number): number {
  return clock.frozen ? clock.nowMs : clock.nowMs + Math.max(0, (clock.lostAtMs ?? pageMs) - clock.seenAtMs);
}

/** Whether the sandbox's time stands still, as far as the page knows. */
export const standsStill = ({ clock }: Pick<Model, 'clock'>): boolean => clock.frozen || clock.lostAtMs !== undefined;

/** The model from the moment on at which the connection was lost: its clock stands still. */
export function withLostConnection(model: Model, pageMs: number): Model {
  return { ...model, clock: { ...model.clock, lostAtMs: model.clock.lostAtMs ?? pageMs } };
}

/** The model once the connection is back, before anything has come over it. */
export function withConnection(model: Model): Model {
  const { lostAtMs: _, ...clock } = model.clock;
  return { ...model, clock };
}

/** The model with the token requests of one lane alone in its timeline. */
export function ofLane(model: Model, lane: Lane): Model {
  const seconds = new Map<number, number[]>();
  for (const entry of lane.requests) {
    if (entry.kind !== 'token') continue;
    const second = secondOf(entry.atMs);
    const counts = seconds.get(second) ?? MARK_KINDS.map(() => 0);
    const index = MARK_KINDS.indexOf(markOf(entry));
    seconds.set(second, counts.with(index, (counts[index] ?? 0) + 1));
  }
  return { ...model, seconds: new Map([...seconds].map(([second, counts]) => [second, [second, ...counts]])) };
}

/** When a token ends, by expiry or revocation. */
export const endOf = (token: TokenView): number => Math.min(token.expiresAtMs, token.revokedAtMs ?? Infinity);

/** The usable token that expires last, if there is one. */
export function liveToken(lane: Lane, nowMs: number): TokenView | undefined {
  let best: TokenView | undefined;
  for (const token of lane.tokens) {
    if (endOf(token) > nowMs && (!best || endOf(token) > endOf(best))) best = token;
  }
  return best;
}

const UNKNOWN: Lane = { id: '', name: '', tokens: [], requests: [] };

/** Owners without a lane here are left to the next fetch of the picture. */
function changeLanes(
  lanes: ReadonlyMap<string, Lane>,
  requests: readonly LedgerEntry[],
  tokens: readonly TokenView[],
): Map<string, Lane> {
  const after = new Map(lanes);
  for (const [id, news] of grouped(requests)) {
    const lane = after.get(id) ?? (id === '' ? UNKNOWN : undefined);
    if (!lane) continue;
    after.set(id, { ...lane, requests: merged(lane.requests, news, MAX_LANE_REQUESTS) });
  }
  for (const [id, news] of grouped(tokens)) {
    const lane = after.get(id);
    if (lane) after.set(id, { ...lane, tokens: mergedTokens(lane.tokens, news) });
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

/** Merges new and changed requests into a list by `id`. */
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

/** Keeps `most` requests. Drops the oldest accepted calls to /echo first, because they matter least. */
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
