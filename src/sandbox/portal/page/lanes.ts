/**
 * The geometry of the lanes picture: time to the right, owners downwards. Pure. Coordinates are relative to an anchor in
 * time that moves only every half window. Between two moves the whole picture is shifted, and a lane is redrawn only when
 * its data changes.
 */

import type { Band, LedgerEntry, TokenView } from '../../api-types.ts';
import { type MarkKind, markOf } from '../../state/marks.ts';
import { endOf, type Lane } from './model.ts';

/** The layout of a picture. The same object as long as no value changes. */
export interface Layout {
  /** The span of the past that is shown. */
  readonly windowMs: number;
  /** Width of the plot in CSS pixels, of which the last part is the future. */
  readonly width: number;
  readonly anchorMs: number;
  readonly pxPerMs: number;
  /** Vertical distance between lanes. */
  readonly pitch: number;
  /** Half the size of a mark. */
  readonly radius: number;
  readonly barHeight: number;
  /** The vertical centre of a bar, from the top of its lane. */
  readonly barY: number;
  /** Whether accepted calls to the echo resource are drawn too. */
  readonly calls: boolean;
}

/** The share of the width for the past; the rest shows the remaining life of tokens. */
const PAST = 0.8;

/** The target height of all lanes together, and the bounds of one lane's height. */
const TALL_PX = 700;
const MIN_PITCH = 4;
const MAX_PITCH = 44;

/** Above the first lane and below the last, so that their names fit. */
const EDGE_PX = 6;

const MAX_BAR_PX = 6;

/** Below this a lane has no room to stack marks above its bar. */
const ROOMY_PITCH = 18;

export function layoutOf(
  lanes: number,
  nowMs: number,
  { width, windowMs, calls }: { width: number; windowMs: number; calls: boolean },
): Layout {
  const pitch = Math.min(MAX_PITCH, Math.max(MIN_PITCH, Math.floor((TALL_PX / Math.max(1, lanes)) * 2) / 2));
  const roomy = pitch >= ROOMY_PITCH;
  const barHeight = roomy ? MAX_BAR_PX : Math.min(MAX_BAR_PX, Math.max(1.5, Math.round(pitch) - 2));
  return {
    windowMs,
    width,
    anchorMs: Math.floor(nowMs / (windowMs / 2)) * (windowMs / 2),
    pxPerMs: (width * PAST) / windowMs,
    pitch,
    radius: roomy ? 4 : Math.min(4, Math.max(MIN_PITCH / 2, pitch * 0.4)),
    barHeight,
    barY: roomy ? pitch - barHeight - 3 : pitch / 2,
    calls,
  };
}

/** Whether two layouts are equal. */
export const sameLayout = (a: Layout, b: Layout): boolean =>
  (Object.keys(a) as (keyof Layout)[]).every((name) => a[name] === b[name]);

/** The top of a lane. */
export const laneY = ({ pitch }: Layout, row: number): number => EDGE_PX + row * pitch;

/** The lane at a height. */
export const rowAt = ({ pitch }: Layout, y: number): number => Math.floor((y - EDGE_PX) / pitch);

export const heightOf = ({ pitch }: Layout, lanes: number): number => Math.ceil(2 * EDGE_PX + lanes * pitch);

export const nowX = ({ width }: Layout): number => width * PAST;

/** The shift of the drawing to the right that puts `nowMs` at {@link nowX}. */
export const shiftX = (layout: Layout, nowMs: number): number =>
  nowX(layout) - (nowMs - layout.anchorMs) * layout.pxPerMs;

/** The x coordinate of a time, clamped to what can become visible before the anchor moves. */
function xOf({ anchorMs, pxPerMs, windowMs }: Layout, atMs: number): number {
  const ms = Math.min(windowMs, Math.max(-windowMs * 1.1, atMs - anchorMs));
  return ms * pxPerMs;
}

const inReach = ({ anchorMs, windowMs }: Layout, atMs: number): boolean => atMs > anchorMs - windowMs * 1.1;

/** One request and its position. */
export interface Mark {
  readonly x: number;
  readonly y: number;
  readonly kind: MarkKind;
  readonly entry: LedgerEntry;
}

/**
 * The positions of a lane's requests, relative to the lane. Requests that would cover each other are stacked, the oldest at
 * the bottom; a stack that is too high is compressed.
 */
export function marksOf(lane: Lane, layout: Layout): Mark[] {
  const { radius, pxPerMs, barY, pitch } = layout;
  const columnMs = (radius * 2) / pxPerMs;
  const columns = new Map<number, LedgerEntry[]>();
  for (const entry of lane.requests) {
    if (!inReach(layout, entry.atMs) || !isDrawn(entry, layout)) continue;
    const column = Math.floor(entry.atMs / columnMs);
    const stack = columns.get(column);
    if (stack) stack.push(entry);
    else columns.set(column, [entry]);
  }
  const lowestY = pitch >= ROOMY_PITCH ? barY - layout.barHeight / 2 - radius : barY;
  const room = lowestY - radius;
  const marks: Mark[] = [];
  for (const stack of columns.values()) {
    const x = xOf(layout, stack[0]?.atMs ?? 0);
    const step = stack.length > 1 ? Math.min(radius * 2 + 0.5, room / (stack.length - 1)) : 0;
    for (const [index, entry] of stack.entries()) {
      marks.push({ x, y: lowestY - index * step, kind: markOf(entry), entry });
    }
  }
  return marks;
}

const isDrawn = (entry: LedgerEntry, { calls }: Layout): boolean =>
  calls || entry.kind !== 'echo' || (entry.outcome !== 'accepted' && entry.outcome !== 'pending');

/** The bars of a lane as one path, and a second path that marks revocations. */
export function barsOf(tokens: readonly TokenView[], layout: Layout): { bars: string; cuts: string } {
  const { barY, barHeight, pitch } = layout;
  const cutTop = round(Math.max(0, barY - Math.max(barHeight, pitch * 0.3)));
  const cutHeight = round(Math.min(pitch, 2 * Math.max(barHeight, pitch * 0.3)));
  let bars = '';
  let cuts = '';
  for (const token of tokens) {
    const endMs = endOf(token);
    if (!inReach(layout, endMs)) continue;
    const from = round(xOf(layout, token.issuedAtMs));
    const to = round(xOf(layout, endMs));
    bars += `M${from} ${round(barY)}H${Math.max(to, from + 1)}`;
    if (token.revokedAtMs !== undefined && token.revokedAtMs <= token.expiresAtMs)
      cuts += `M${to} ${cutTop}v${cutHeight}`;
  }
  return { bars, cuts };
}

/** The marks of each kind as one path. */
export function markPaths(marks: readonly Mark[], radius: number): Map<MarkKind, string> {
  const paths = new Map<MarkKind, string>();
  for (const { x, y, kind } of marks) {
    paths.set(kind, (paths.get(kind) ?? '') + shapeAt(kind, round(x), round(y), radius));
  }
  return paths;
}

/** A distinct shape for each kind, all of about the same size. */
export function shapeAt(kind: MarkKind, x: number, y: number, r: number): string {
  const s = round(r * 0.85);
  switch (kind) {
    case 'ok':
    case 'pending':
      return circle(x, y, s);
    case 'wasted':
      return circle(x, y, round(r * 0.8)) + circle(x, y, round(r * 0.25));
    case 'limited':
      return `M${x} ${round(y - r)}l${r} ${round(r * 1.8)}h${-2 * r}z`;
    case 'error':
      return `M${round(x - s)} ${round(y - s)}h${2 * s}v${2 * s}h${-2 * s}z`;
    case 'broken':
      return `M${round(x - s)} ${round(y - s)}l${2 * s} ${2 * s}m0 ${-2 * s}l${-2 * s} ${2 * s}`;
    case 'refused':
      return `M${x} ${round(y - r)}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`;
  }
}

const circle = (x: number, y: number, r: number): string =>
  `M${round(x - r)} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;

const round = (value: number): number => Math.round(value * 10) / 10;

/** The mark nearest to a point in a lane, within `reachPx`. */
export function markNear(marks: readonly Mark[], x: number, y: number, reachPx = 10): Mark | undefined {
  let nearest: Mark | undefined;
  let nearestPx = reachPx;
  for (const mark of marks) {
    const px = Math.hypot(mark.x - x, (mark.y - y) * 0.5);
    if (px <= nearestPx) [nearest, nearestPx] = [mark, px];
  }
  return nearest;
}

const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];

/** The ticks of the time axis: round times, at least one label width apart. */
export function ticksOf(layout: Layout, labelPx = 80): { x: number; atMs: number }[] {
  const { pxPerMs, anchorMs, windowMs } = layout;
  const stepMs = (TICKS_S.find((seconds) => seconds * 1000 * pxPerMs >= labelPx) ?? 86_400) * 1000;
  const ticks: { x: number; atMs: number }[] = [];
  const first = Math.ceil((anchorMs - windowMs * 1.1) / stepMs) * stepMs;
  for (let atMs = first; atMs <= anchorMs + windowMs; atMs += stepMs) {
    ticks.push({ x: round((atMs - anchorMs) * pxPerMs), atMs });
  }
  return ticks;
}

/** Shows the name of every n-th lane, so that names do not overlap. Returns n. */
export const labelEvery = (pitch: number, labelPx = 15): number => Math.max(1, Math.ceil(labelPx / pitch));

/** The horizontal span of a band: without an end it continues. Frozen time, which has no length, becomes a line. */
export function bandSpan(band: Band, layout: Layout): { x: number; width: number } | undefined {
  const toMs = band.toMs ?? (band.kind === 'frozen' ? band.fromMs : Number.POSITIVE_INFINITY);
  if (!inReach(layout, toMs)) return undefined;
  const x = round(xOf(layout, band.fromMs));
  return { x, width: Math.max(2, round(xOf(layout, toMs)) - x) };
}

/** The columns of the time rail: one per second, or per several seconds if one would be too narrow. */
export function columnsOf(
  seconds: Iterable<readonly [second: number, ...counts: number[]]>,
  layout: Layout,
): { x: number; width: number; fromMs: number; toMs: number; counts: number[] }[] {
  const stepS = Math.max(1, Math.ceil(3 / (layout.pxPerMs * 1000)));
  const columns = new Map<number, number[]>();
  for (const [second, ...own] of seconds) {
    if (!inReach(layout, second * 1000)) continue;
    const start = Math.floor(second / stepS) * stepS;
    const counts = columns.get(start) ?? own.map(() => 0);
    columns.set(
      start,
      counts.map((count, index) => count + (own[index] ?? 0)),
    );
  }
  const width = stepS * 1000 * layout.pxPerMs;
  return [...columns].map(([start, counts]) => {
    const fromMs = start * 1000;
    return {
      x: round(xOf(layout, fromMs)),
      width: Math.max(1.5, width - 1),
      fromMs,
      toMs: fromMs + stepS * 1000,
      counts,
    };
  });
}
