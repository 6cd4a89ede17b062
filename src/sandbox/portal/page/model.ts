/**
 * The page's model of the sandbox, and its update by a frame of the event stream. Pure: each frame creates a new model that
 * shares all unchanged objects with the previous one.
 */

import {
  type Band,
  type Bar,
  type Lane,
  MARK_KINDS,
  type Mark,
  type Second,
  type Seconds,
} from '../../../picture/data.ts';
import { sentence } from '../../../picture/words.ts';
import type {
  AppView,
  ClockView,
  FiguresView,
  LaneView,
  LedgerEntry,
  PictureView,
  ScenarioRun,
  Band as ServerBand,
  StateView,
  TokenView,
  UpdateFrame,
} from '../../control/shapes.ts';
import type { ActiveFault } from '../../state/fault-rules.ts';
import { groupedBy } from '../../state/grouped-by.ts';
import { hasSucceeded, pictureMark } from '../../state/marks.ts';
import type { Profile } from '../../state/profile.ts';
import { secondOf } from '../../state/timeline.ts';
import { faultKindWord, ownerWord } from './words.ts';

export interface Picture {
  /** By owner. The id is empty for requests of unknown owners. */
  readonly lanes: ReadonlyMap<string, Lane>;
  /** How many owners match the search. If they are more than the lanes, the lanes are the worst of them. */
  readonly matching: number;
  /** Token requests by second and mark, exact. */
  readonly seconds: Seconds;
  readonly bands: readonly Band[];
  /** The last requests, or those of a window of the past, by `id`. */
  readonly requests: readonly LedgerEntry[];
}

export interface Model extends Picture {
  readonly url: string;
  readonly env: string;
  /** The sandbox's time at the moment when the page's own clock showed `seenAtMs`. */
  readonly clock: ClockView & {
    readonly seenAtMs: number;
    /** By the page's own clock: when the connection was lost. What the sandbox does since then is unknown. */
    readonly lostAtMs?: number;
  };
  readonly figures: FiguresView;
  /** A window of the past, which no frame changes. */
  readonly past: Picture | undefined;
  readonly apps: readonly AppView[];
  readonly faults: readonly ActiveFault[];
  readonly profile: Profile;
  readonly scenario: ScenarioRun | undefined;
  /** Grows when owners, keys or scenarios have changed on the server. */
  readonly ownersVersion: number;
}

const MAX_REQUESTS = 500;
export const MAX_LANE_MARKS = 300;
const MAX_LANE_BARS = 60;
const MAX_SECONDS = 4 * 3600;

/** The model with a state. `seenAtMs`: the page's own clock. `before`: the model until now. */
export function modelOf(state: StateView, seenAtMs: number, before?: Model): Model {
  const { url, env, figures, apps, faults, profile, scenario, picture } = state;
  return {
    url,
    env,
    clock: { ...state.clock, seenAtMs },
    figures,
    ...pictureOf(picture, trimmed(state.requests, MAX_REQUESTS)),
    past: undefined,
    apps,
    faults,
    profile,
    scenario,
    ownersVersion: (before?.ownersVersion ?? 0) + 1,
  };
}

/** The model with another window, search or owner. A picture of the past leaves the present as it is. */
export function withPicture(model: Model, picture: PictureView): Model {
  if (picture.requests) return { ...model, past: pictureOf(picture, picture.requests) };
  return { ...model, ...pictureOf(picture, model.requests), past: undefined };
}

const pictureOf = ({ lanes, matching, seconds, bands }: PictureView, requests: readonly LedgerEntry[]): Picture => ({
  lanes: new Map(lanes.map((lane) => [lane.id, laneOf(lane)])),
  matching,
  seconds: new Map(seconds.map((second) => [second[0], second])),
  bands: bands.map(bandOf),
  requests,
});

const laneOf = ({ id, name, tokens, marks }: LaneView): Lane => {
  return { id, name: name || ownerWord(id), bars: tokens.map(barOf), marks };
};

const barOf = ({ fingerprint, issuedAtMs, expiresAtMs, revokedAtMs = Infinity }: TokenView): Bar => ({
  id: fingerprint,
  fromMs: issuedAtMs,
  toMs: Math.min(expiresAtMs, revokedAtMs),
  cut: revokedAtMs <= expiresAtMs,
});

function bandOf({ id, kind, name = '', fromMs, toMs }: ServerBand): Band {
  const [look, word] = (
    {
      fault: ['fault', faultKindWord(name)],
      scenario: ['strip', sentence(name.replaceAll('-', ' '))],
      frozen: ['line', 'Time frozen'],
      jump: ['jump', 'Clock jump'],
    } as const
  )[kind];
  return { id, look, word, fromMs, ...(toMs !== undefined && { toMs }) };
}

/** Several frames as one. A state replaces all before it. */
export function combined(all: readonly UpdateFrame[]): UpdateFrame {
  const frames = all.slice(
    Math.max(
      0,
      all.findLastIndex(({ state }) => state !== undefined),
    ),
  );
  const [requests, tokens, seconds] = (['requests', 'tokens', 'seconds'] as const).map((name) =>
    frames.flatMap((frame): unknown[] => frame[name] ?? []),
  );
  return Object.assign({}, ...frames, { requests, tokens, seconds });
}

/** The model after a frame of changes. */
export function changed(model: Model, frame: UpdateFrame, seenAtMs: number): Model {
  const { requests = [], tokens = [] } = frame;
  const hasNews = requests.length > 0 || tokens.length > 0;
  return {
    ...model,
    clock: { ...frame.clock, seenAtMs },
    figures: frame.figures ?? model.figures,
    requests: requests.length > 0 ? trimmed(merged(model.requests, requests, idOf), MAX_REQUESTS) : model.requests,
    lanes: hasNews ? changeLanes(model.lanes, requests, tokens) : model.lanes,
    seconds: frame.seconds ? mergedSeconds(model.seconds, frame.seconds) : model.seconds,
    bands: frame.bands?.map(bandOf) ?? model.bands,
    apps: frame.apps ?? model.apps,
    faults: frame.faults ?? model.faults,
    profile: frame.profile ?? model.profile,
    scenario: frame.scenario === undefined ? model.scenario : (frame.scenario ?? undefined),
    ownersVersion: model.ownersVersion + Number(frame.ownersChanged ?? frame.scenario !== undefined),
  };
}

function mergedSeconds(before: Seconds, news: readonly Second[]): Seconds {
  const after = new Map(before);
  for (const second of news) after.set(second[0], second);
  for (const second of after.keys()) {
    if (after.size <= MAX_SECONDS) break;
    after.delete(second);
  }
  return after;
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

/** The token requests of one lane by second. */
export function secondsOf(lane: Lane): Seconds {
  const seconds = new Map<number, [number, ...number[]]>();
  for (const [, atMs, kind] of lane.marks) {
    const second = secondOf(atMs);
    const counts = seconds.get(second) ?? [second, ...MARK_KINDS.map(() => 0)];
    counts[kind + 1] = (counts[kind + 1] ?? 0) + 1;
    seconds.set(second, counts);
  }
  return seconds;
}

const UNKNOWN: LaneView = { id: '', name: '', tokens: [], marks: [] };

/** Owners without a lane here are left to the next fetch of the picture. */
function changeLanes(
  lanes: ReadonlyMap<string, Lane>,
  requests: readonly LedgerEntry[],
  tokens: readonly TokenView[],
): Map<string, Lane> {
  const after = new Map(lanes);
  for (const [id, news] of groupedBy(requests, ownerOf)) {
    const lane = after.get(id) ?? (id === '' ? laneOf(UNKNOWN) : undefined);
    const marks = news.filter(isDrawn).map(pictureMark);
    if (lane) after.set(id, { ...lane, marks: merged(lane.marks, marks, markId).slice(-MAX_LANE_MARKS) });
  }
  for (const [id, news] of groupedBy(tokens, ownerOf)) {
    const lane = after.get(id);
    if (lane) after.set(id, { ...lane, bars: mergedBars(lane.bars, news.map(barOf)) });
  }
  return after;
}

/** Token requests, and calls to /echo that have failed. */
const isDrawn = ({ kind, outcome }: LedgerEntry): boolean =>
  kind !== 'echo' || (outcome !== 'accepted' && outcome !== 'pending');

const ownerOf = ({ owner = '' }: { owner?: string }): string => owner;
const idOf = ({ id }: LedgerEntry): number => id;
const markId = ([id]: Mark): number => id;

/** Merges new and changed items into a list by id. */
export function merged<T>(list: readonly T[], news: readonly T[], id: (item: T) => number): T[] {
  const after = [...list];
  for (const item of news) {
    let index = after.length;
    while (index > 0 && id(after[index - 1] as T) > id(item)) index--;
    const known = index > 0 && id(after[index - 1] as T) === id(item);
    after.splice(known ? index - 1 : index, Number(known), item);
  }
  return after;
}

/** Keeps `most` requests. Drops the oldest that succeeded first, because failed and wasted ones matter most. */
function trimmed(list: LedgerEntry[], most: number): LedgerEntry[] {
  let excess = list.length - most;
  if (excess <= 0) return list;
  const recent = list.length - most / 4;
  const kept = list.filter((entry, index) => {
    const goes = excess > 0 && index < recent && hasSucceeded(entry) && !(entry.wasted && entry.kind === 'token');
    if (goes) excess--;
    return !goes;
  });
  return kept.slice(-most);
}

function mergedBars(list: readonly Bar[], news: readonly Bar[]): Bar[] {
  const after = [...list];
  for (const bar of news) {
    const index = after.findLastIndex(({ id }) => id === bar.id);
    if (index >= 0) after[index] = bar;
    else after.push(bar);
  }
  return after.slice(-MAX_LANE_BARS);
}
