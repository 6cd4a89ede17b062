/** What the page knows: the last frame, and the requests of all frames since the replica was first seen. */

import {
  type Band,
  type Bar,
  hasFailed,
  kindOf as kindOfMark,
  type Lane,
  MARK_KINDS,
  type Mark,
  type MarkKind,
  type Second,
} from '../../picture/data.ts';
import type { OwnerReport } from '../../registry/reports.ts';
import type { Frame, OutageView, PageOptions, RegistryView, Replica, RequestView } from '../frames.ts';
import { visibleWord } from './labels.ts';

const MAX_REQUESTS = 5_000;
const MAX_SECONDS = 900;
const MAX_LANES = 250;
export const MAX_LANE_MARKS = 300;
/** Rates are taken over this many frames. */
const RATE_FRAMES = 20;

export class Model {
  replica: Replica | undefined;
  registries: readonly RegistryView[] = [];
  outages: readonly OutageView[] = [];
  page: PageOptions | undefined;
  /** What happened to the connection, in words. */
  news = '';
  /** By id. */
  readonly requests = new Map<number, RequestView>();
  #owners: NonNullable<Frame['owners']> = {};
  readonly #seconds = new Map<string, Map<number, [number, ...number[]]>>();
  #past: Pick<Frame, 'nowMs' | 'registries'>[] = [];
  #nowMs = 0;
  #seenAtMs = 0;

  /** @param seenAtMs the page's own clock. */
  take(frame: Frame, seenAtMs: number): void {
    if (frame.replica) this.#meet(frame.replica, seenAtMs);
    [this.#nowMs, this.#seenAtMs] = [frame.nowMs, seenAtMs];
    this.registries = frame.registries;
    this.outages = frame.outages;
    this.#owners = frame.owners ?? this.#owners;
    this.page = frame.page ?? this.page;
    this.#past = [...this.#past.slice(1 - RATE_FRAMES), frame];
    for (const request of frame.requests) this.#note(request);
    for (const id of this.requests.keys()) {
      if (this.requests.size <= MAX_REQUESTS) break;
      this.requests.delete(id);
    }
  }

  /** The time of the registries. */
  nowMs(pageMs: number): number {
    return this.#nowMs + Math.max(0, pageMs - this.#seenAtMs);
  }

  /** A new connection. Another process, or another replica, knows nothing of the requests seen so far. */
  #meet(replica: Replica, seenAtMs: number): void {
    const before = this.replica;
    this.replica = replica;
    this.#forgetPending();
    if (!before || before.id === replica.id) return;
    // One that ran already while the page still heard of the other is another replica.
    const isRestart = replica.host === before.host && replica.upMs < seenAtMs - this.#seenAtMs;
    const { host, pid } = replica;
    this.news = isRestart ? 'The process has restarted.' : `Another replica answers now: ${host}, process ${pid}.`;
    this.requests.clear();
    this.#seconds.clear();
    this.#past = [];
  }

  /** Nobody has seen how they ended, unless they are still in flight, and in the frame. */
  #forgetPending(): void {
    for (const [id, { registry, atMs, tookMs }] of this.requests) {
      if (tookMs !== undefined) continue;
      this.requests.delete(id);
      this.#count(registry, atMs, PENDING, -1);
    }
  }

  #note(request: RequestView): void {
    const before = this.requests.get(request.id);
    this.requests.set(request.id, request);
    if (before) this.#count(before.registry, before.atMs, kindOf(before), -1);
    this.#count(request.registry, request.atMs, kindOf(request), 1);
  }

  /** Counts requests of a second by kind. */
  #count(registry: string, atMs: number, kind: number, count: number): void {
    const seconds = this.#seconds.get(registry) ?? new Map<number, [number, ...number[]]>();
    this.#seconds.set(registry, seconds);
    const second = Math.floor(atMs / 1000);
    const counts = seconds.get(second) ?? [second, ...MARK_KINDS.map(() => 0)];
    seconds.set(second, counts);
    counts[kind + 1] = (counts[kind + 1] ?? 0) + count;
    for (const oldest of seconds.keys()) {
      if (seconds.size <= MAX_SECONDS) break;
      seconds.delete(oldest);
    }
  }

  /** The picture of a registry. @param wanted part of an owner's name. */
  picture(registry: RegistryView, wanted: string): { lanes: Lane[]; matching: number; bands: Band[] } {
    const lanes = new Map<string, { bars: Bar[]; marks: Mark[] }>();
    const laneOf = (owner: string) => {
      const lane = lanes.get(owner) ?? { bars: [], marks: [] };
      lanes.set(owner, lane);
      return lane;
    };
    for (const report of this.#owners[registry.name] ?? []) laneOf(report.owner).bars.push(...oldBar(report));
    for (const request of this.requests.values()) {
      if (request.registry !== registry.name) continue;
      const { bars, marks } = laneOf(request.owner);
      marks.push([request.id, request.atMs, kindOf(request), ...wasted(request)]);
      bars.push(...barOf(request));
    }
    const text = wanted.trim().toLowerCase();
    const matching = [...lanes].filter(([owner]) => owner.toLowerCase().includes(text));
    const shown = worstOf(
      matching.map(([owner, { bars, marks }]) => ({ id: owner, name: visibleWord(owner), bars, marks })),
    );
    return { lanes: shown, matching: matching.length, bands: this.#bands(registry.name) };
  }

  seconds(registry: string): ReadonlyMap<number, Second> {
    return this.#seconds.get(registry) ?? new Map();
  }

  #bands(registry: string): Band[] {
    const { recordedSinceMs } = this.page ?? {};
    const unseen: Band[] =
      recordedSinceMs === undefined
        ? []
        : [{ id: 0, look: 'unseen', word: 'not recorded', fromMs: 0, toMs: recordedSinceMs }];
    const outages = this.outages.filter((outage) => outage.registry === registry);
    return [
      ...unseen,
      ...outages.map(({ id, scope, fromMs, toMs }): Band => {
        const word = scope === 'client' ? 'Client refused' : 'Endpoint fails';
        return { id, look: 'fault', word, fromMs, ...(toMs !== undefined && { toMs }) };
      }),
    ];
  }

  /** Per second: calls, those that were refused, that the queue failed and that were late, and token requests. */
  rates(name: string): Rates | undefined {
    const [first, last] = [this.#past[0], this.#past.at(-1)];
    const [then, now] = [first, last].map((frame) => frame?.registries.find((each) => each.name === name)?.stats);
    if (!first || !last || !then || !now || last.nowMs <= first.nowMs) return undefined;
    const rate = (count: (stats: Stats) => number) => ((count(now) - count(then)) * 1000) / (last.nowMs - first.nowMs);
    const calls = rate(callsOf);
    return {
      calls,
      refused: rate(refusedOf),
      timedOut: rate(({ queueFull, queueTimeouts }) => queueFull + queueTimeouts),
      late: rate(({ late }) => late),
      requests: rate(({ requests }) => requests),
      fromCache: calls > 0 ? rate(({ hits }) => hits) / calls : 1,
    };
  }
}

const PENDING = MARK_KINDS.indexOf('pending');

type Stats = RegistryView['stats'];

type Rates = Readonly<Record<'calls' | 'refused' | 'timedOut' | 'late' | 'requests' | 'fromCache', number>>;

const refusedOf = ({ refused: { owner, client, endpoint } }: Stats): number => owner + client + endpoint;

/** Requests that no call waits for are refreshes and canaries. */
const callsOf = (stats: Stats): number =>
  stats.hits + stats.joined + refusedOf(stats) + stats.requests - stats.refreshes;

function kindOf({ tookMs, code, status = 0, token }: RequestView): number {
  const kind = (): MarkKind => {
    if (tookMs === undefined) return 'pending';
    if (code === undefined) return token === undefined ? 'wasted' : 'ok';
    if (code === 'rate_limited' || status === 429) return 'limited';
    if (status >= 500) return 'error';
    return /_refused$|_rejected$/.test(code) ? 'refused' : 'broken';
  };
  return MARK_KINDS.indexOf(kind());
}

/** Nobody waited for it any more. */
const wasted = (request: RequestView): [] | [1] => (MARK_KINDS[kindOf(request)] === 'wasted' ? [1] : []);

function barOf({ atMs, tookMs = 0, token, expiresAtMs, rejectedAtMs }: RequestView): Bar[] {
  if (token === undefined) return [];
  const toMs = rejectedAtMs ?? expiresAtMs ?? Number.POSITIVE_INFINITY;
  return [{ id: token, fromMs: atMs + tookMs, toMs, cut: rejectedAtMs !== undefined }];
}

/** A token that was issued before the page was opened, unless it has ended. The end of one that has none is null in JSON. */
function oldBar({ owner, issuedAtMs, expiresAtMs }: OwnerReport): Bar[] {
  if (issuedAtMs === undefined || expiresAtMs === undefined) return [];
  return [{ id: owner, fromMs: issuedAtMs, toMs: expiresAtMs ?? Number.POSITIVE_INFINITY, cut: false }];
}

/** At most so many lanes as fit: those whose last request failed first, then those with the most failures, then by name. */
function worstOf(lanes: Lane[]): Lane[] {
  const { compare } = new Intl.Collator('en', { numeric: true });
  const weighed = lanes.map((lane) => {
    const marks = lane.marks.slice(-MAX_LANE_MARKS);
    const failed = marks.map((mark) => hasFailed(kindOfMark(mark)));
    return { lane: { ...lane, marks }, failures: failed.filter(Boolean).length, fails: Number(failed.at(-1) ?? false) };
  });
  weighed.sort((a, b) => b.fails - a.fails || b.failures - a.failures || compare(a.lane.name, b.lane.name));
  return weighed.slice(0, MAX_LANES).map(({ lane }) => lane);
}
