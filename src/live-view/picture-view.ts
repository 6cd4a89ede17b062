/** The picture of a registry's token requests, from what was recorded and what is known of its owners. Pure. */

import { type Band, type Bar, hasFailed, type Lane, type Mark, kindOf as markKindOf } from '../page-engine/data.ts';
import type { OwnerReport } from '../registry/reports.ts';
import type { PictureView, RequestView } from './frames.ts';
import { visibleWord } from './labels.ts';
import { KEPT_MS, kindOf, markOf, type Recorder } from './recorder.ts';

const MAX_LANES = 250;
const MAX_LANE_MARKS = 300;
const MAX_LANE_BARS = 60;

/** The part of the picture that a page shows. */
export interface View {
  readonly registry?: string | undefined;
  readonly windowMs: number;
  /** Absent: the window ends now. */
  readonly untilMs?: number | undefined;
  /** The id of a request to describe. */
  readonly request?: number | undefined;
}

/** From the address of a stream, which may say anything. */
export function viewOf(query: URLSearchParams): View {
  const [windowMs, untilMs, request] = ['windowMs', 'untilMs', 'request'].map((name) => Number(query.get(name)) || 0);
  const registry = query.get('registry');
  return {
    windowMs: Math.min(KEPT_MS, Math.max(1000, windowMs || 60_000)),
    ...(registry && { registry }),
    ...(untilMs && { untilMs }),
    ...(request && { request }),
  };
}

/** An owner, with what puts its lane before others. */
interface Candidate {
  readonly owner: string;
  readonly report?: OwnerReport | undefined;
  readonly marks: Mark[];
}

interface Sources {
  readonly recorder: Pick<Recorder, 'requests' | 'outages' | 'timelines' | 'completeSinceMs'>;
  readonly registry: string;
  /** Owners that fail, and that were used last: their tokens may be older than what was recorded. */
  readonly owners: readonly OwnerReport[];
}

/** A window of time. */
interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

const spanOf = ({ windowMs, untilMs }: View, nowMs: number): Span => {
  return { fromMs: (untilMs ?? nowMs) - windowMs, untilMs: untilMs ?? nowMs };
};

/** The owners with the most trouble. */
export function pictureView(sources: Sources, view: View, nowMs: number): PictureView {
  const { recorder, registry } = sources;
  const span = spanOf(view, nowMs);
  const candidates = candidatesOf(sources, span);
  const seconds = recorder.timelines.get(registry)?.since(span.fromMs) ?? [];
  const request = recorder.requests.find(({ id }) => id === view.request);
  return {
    lanes: lanesOf(worstOf(candidates), sources, span),
    matching: candidates.length,
    seconds: seconds.filter(([second]) => second * 1000 <= span.untilMs),
    bands: bandsOf(sources),
    completeSinceMs: recorder.completeSinceMs,
    ...(request && { request }),
  };
}

/** The lanes of the given owners alone, however well they do. */
export function lanesOfOwners(sources: Sources, view: View, nowMs: number): Lane[] {
  const span = spanOf(view, nowMs);
  const given = candidatesOf(sources, span).filter(({ report }) => report !== undefined);
  return lanesOf(given, sources, span);
}

/** The given owners, and all others with a request in the window. */
function candidatesOf({ recorder, registry, owners }: Sources, { fromMs, untilMs }: Span): Candidate[] {
  const byOwner = new Map<string, Candidate>();
  for (const report of owners) byOwner.set(report.owner, { owner: report.owner, report, marks: [] });
  const { requests } = recorder;
  // From the newest one back, because most are older than the window.
  for (let index = requests.length - 1; index >= 0; index--) {
    const request = requests[index] as RequestView;
    if (request.atMs < fromMs) break;
    if (request.registry !== registry || request.atMs > untilMs) continue;
    const candidate = byOwner.get(request.owner) ?? { owner: request.owner, marks: [] };
    byOwner.set(request.owner, candidate);
    candidate.marks.push([request.id, request.atMs, kindOf(request), ...wasted(request)]);
  }
  return [...byOwner.values()];
}

/** The lanes of these owners, in their order, with their tokens. */
function lanesOf(owners: readonly Candidate[], { recorder, registry }: Sources, { fromMs, untilMs }: Span): Lane[] {
  const bars = new Map<string, Bar[]>();
  for (const { owner, report } of owners) bars.set(owner, oldBar(report, recorder.completeSinceMs));
  for (const request of recorder.requests)
    if (request.registry === registry && request.token !== undefined) bars.get(request.owner)?.push(barOf(request));
  return owners.map(({ owner, marks }) => {
    const shown = bars.get(owner)?.filter((bar) => bar.toMs >= fromMs && bar.fromMs <= untilMs) ?? [];
    return {
      id: owner,
      name: visibleWord(owner),
      bars: shown.slice(-MAX_LANE_BARS),
      marks: marks.slice(0, MAX_LANE_MARKS).reverse(),
    };
  });
}

function bandsOf({ recorder: { outages, completeSinceMs }, registry }: Sources): Band[] {
  const faults = outages.filter((outage) => outage.registry === registry);
  return [
    { id: 0, look: 'unseen', word: 'not recorded', fromMs: 0, toMs: completeSinceMs },
    ...faults.map(({ id, scope, fromMs, toMs }): Band => {
      const word = scope === 'client' ? 'Client refused' : 'Endpoint fails';
      return { id, look: 'fault', word, fromMs, ...(toMs !== undefined && { toMs }) };
    }),
  ];
}

/** Nobody waited for it any more. */
const wasted = (request: RequestView): [] | [1] => (markOf(request) === 'wasted' ? [1] : []);

function barOf({ atMs, tookMs = 0, token = '', expiresAtMs, rejectedAtMs }: RequestView): Bar {
  const toMs = rejectedAtMs ?? expiresAtMs ?? Number.POSITIVE_INFINITY;
  return { id: token, fromMs: atMs + tookMs, toMs, cut: rejectedAtMs !== undefined };
}

/** A token that was issued before the recording, unless it has ended. */
function oldBar(report: OwnerReport | undefined, recordedSinceMs: number): Bar[] {
  const { owner, issuedAtMs = Number.POSITIVE_INFINITY, expiresAtMs } = report ?? {};
  if (owner === undefined || issuedAtMs >= recordedSinceMs || expiresAtMs === undefined) return [];
  return [{ id: owner, fromMs: issuedAtMs, toMs: expiresAtMs, cut: false }];
}

const isFailing = ({ failure, withoutService }: OwnerReport): boolean =>
  failure !== undefined && !withoutService?.hasLapsed;

/** At most so many lanes as fit: those that fail now first, then those with the most failures, then by name. */
function worstOf(candidates: readonly Candidate[]): Candidate[] {
  const weighed = candidates.map((candidate) => {
    const failed = candidate.marks.map((mark) => hasFailed(markKindOf(mark)));
    const fails = candidate.report ? isFailing(candidate.report) : (failed[0] ?? false);
    return { candidate, weight: failed.filter(Boolean).length + (fails ? 1e6 : 0) };
  });
  weighed.sort((a, b) => b.weight - a.weight || (a.candidate.owner < b.candidate.owner ? -1 : 1));
  // Only of these, because it is slow.
  const { compare } = new Intl.Collator('en', { numeric: true });
  const worst = weighed.slice(0, MAX_LANES);
  worst.sort((a, b) => b.weight - a.weight || compare(a.candidate.owner, b.candidate.owner));
  return worst.map(({ candidate }) => candidate);
}
