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
import type { Frame, OutageView, RegistryView, Replica, RequestView } from '../frames.ts';

const MAX_REQUESTS = 5_000;
const MAX_SECONDS = 900;
const MAX_LANES = 250;
export const MAX_LANE_MARKS = 300;
/** Rates are taken over this time, latencies over a minute. */
const RATE_FRAMES = 20;
const LATENCY_MS = 60_000;

export class Model {
  replica: Replica | undefined;
  registries: readonly RegistryView[] = [];
  outages: readonly OutageView[] = [];
  accessKeys = false;
  /** What happened to the connection, in words. */
  news = '';
  /** By id. */
  readonly requests = new Map<number, RequestView>();
  #working: NonNullable<Frame['working']> = {};
  readonly #seconds = new Map<string, Map<number, [number, ...number[]]>>();
  #past: Pick<Frame, 'nowMs' | 'registries'>[] = [];
  #nowMs = 0;
  #seenAtMs = 0;

  /** @param seenAtMs the page's own clock. */
  take(frame: Frame, seenAtMs: number): void {
    if (frame.replica) this.#meet(frame.replica);
    [this.#nowMs, this.#seenAtMs] = [frame.nowMs, seenAtMs];
    this.registries = frame.registries;
    this.outages = frame.outages;
    this.#working = frame.working ?? this.#working;
    this.accessKeys = frame.accessKeys ?? this.accessKeys;
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
  #meet(replica: Replica): void {
    const before = this.replica;
    this.replica = replica;
    this.#forgetPending();
    if (!before || before.id === replica.id) return;
    const isRestart = replica.host === before.host && replica.startedAtMs > before.startedAtMs;
    this.news = isRestart ? 'The process has restarted.' : 'The connection leads to another replica now.';
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
    for (const { owner } of registry.failing) laneOf(owner);
    for (const report of this.#working[registry.name] ?? []) laneOf(report.owner).bars.push(...oldBar(report));
    for (const request of this.requests.values()) {
      if (request.registry !== registry.name) continue;
      const { bars, marks } = laneOf(request.owner);
      marks.push([request.id, request.atMs, kindOf(request), ...wasted(request)]);
      bars.push(...barOf(request));
    }
    const text = wanted.trim().toLowerCase();
    const matching = [...lanes].filter(([owner]) => owner.toLowerCase().includes(text));
    const shown = worstOf(matching.map(([owner, { bars, marks }]) => ({ id: owner, name: owner, bars, marks })));
    return { lanes: shown, matching: matching.length, bands: this.#bands(registry.name) };
  }

  seconds(registry: string): ReadonlyMap<number, Second> {
    return this.#seconds.get(registry) ?? new Map();
  }

  #bands(registry: string): Band[] {
    return this.outages
      .filter((outage) => outage.registry === registry)
      .map(({ id, scope, fromMs, toMs }) => {
        const word = scope === 'client' ? 'Client refused' : 'Endpoint fails';
        return { id, look: 'fault', word, fromMs, ...(toMs !== undefined && { toMs }) };
      });
  }

  /** Calls and token requests per second, and the share of calls that needed none. */
  rates(name: string): { calls: number; requests: number; fromCache: number } | undefined {
    const [first, last] = [this.#past[0], this.#past.at(-1)];
    const [then, now] = [first, last].map((frame) => frame?.registries.find((each) => each.name === name)?.stats);
    if (!first || !last || !then || !now || last.nowMs <= first.nowMs) return undefined;
    const perSecond = (count: number) => (count * 1000) / (last.nowMs - first.nowMs);
    const calls = callsOf(now) - callsOf(then);
    const fromCache = calls > 0 ? (now.hits - then.hits) / calls : 1;
    return { calls: perSecond(calls), requests: perSecond(now.requests - then.requests), fromCache };
  }

  /** Percentiles of the requests that ended in the last minute. */
  latency(name: string): { p50: number; p95: number } | undefined {
    const took: number[] = [];
    for (const { registry, atMs, tookMs } of this.requests.values()) {
      if (registry === name && tookMs !== undefined && atMs >= this.#nowMs - LATENCY_MS) took.push(tookMs);
    }
    took.sort((a, b) => a - b);
    const at = (share: number) => took[Math.floor((took.length - 1) * share)] ?? 0;
    return took.length > 0 ? { p50: at(0.5), p95: at(0.95) } : undefined;
  }
}

const PENDING = MARK_KINDS.indexOf('pending');

type Stats = RegistryView['stats'];

/** Requests that no call waits for are refreshes and canaries. */
const callsOf = ({ hits, joined, refused, requests, refreshes }: Stats): number =>
  hits + joined + refused.owner + refused.client + refused.endpoint + requests - refreshes;

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

/** A token that was issued before the page was opened. */
function oldBar({ owner, issuedAtMs, expiresAtMs }: OwnerReport): Bar[] {
  if (issuedAtMs === undefined) return [];
  return [{ id: owner, fromMs: issuedAtMs, toMs: expiresAtMs ?? Number.POSITIVE_INFINITY, cut: false }];
}

/** At most so many lanes as fit, those with the most failures; in the order of their names. */
function worstOf(lanes: Lane[]): Lane[] {
  const failures = ({ marks }: Lane) => marks.filter((mark) => hasFailed(kindOfMark(mark))).length;
  const weighed = lanes.map((lane) => ({
    lane: { ...lane, marks: lane.marks.slice(-MAX_LANE_MARKS) },
    weight: failures(lane),
  }));
  if (weighed.length > MAX_LANES)
    weighed.sort((a, b) => b.weight - a.weight || b.lane.marks.length - a.lane.marks.length);
  const { compare } = new Intl.Collator('en', { numeric: true });
  return weighed
    .slice(0, MAX_LANES)
    .map(({ lane }) => lane)
    .sort((a, b) => compare(a.name, b.name));
}
