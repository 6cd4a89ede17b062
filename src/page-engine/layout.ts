/** The geometry of the picture: time to the right, owners downwards. Pure. */

import { type Band, type Bar, kindOf, type Mark, type MarkKind, type Seconds } from './data.ts';

export interface Layout {
  /** The span of the past that is shown. */
  readonly windowMs: number;
  /** The width of the plot in CSS pixels. The part right of {@link nowX} is the future. */
  readonly width: number;
  /** The time at {@link nowX}. */
  readonly nowMs: number;
  readonly pxPerMs: number;
  /** The vertical distance between lanes. */
  readonly pitch: number;
  /** Half the size of a mark. */
  readonly radius: number;
  readonly barHeight: number;
  /** The vertical centre of a bar, from the top of its lane. */
  readonly barY: number;
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

export function layoutOf(lanes: number, size: { width: number; windowMs: number; nowMs: number }): Layout {
  const pitch = Math.min(MAX_PITCH, Math.max(MIN_PITCH, Math.floor((TALL_PX / Math.max(1, lanes)) * 2) / 2));
  const roomy = pitch >= ROOMY_PITCH;
  const barHeight = roomy ? MAX_BAR_PX : Math.min(MAX_BAR_PX, Math.max(1.5, Math.round(pitch) - 2));
  return {
    ...size,
    pxPerMs: (size.width * PAST) / size.windowMs,
    pitch,
    radius: roomy ? 4 : Math.min(4, Math.max(MIN_PITCH / 2, pitch * 0.4)),
    barHeight,
    barY: roomy ? pitch - barHeight - 3 : pitch / 2,
  };
}

/** The top of a lane. */
export const laneY = ({ pitch }: Layout, row: number): number => EDGE_PX + row * pitch;

/** The lane at a height. */
export const rowAt = ({ pitch }: Layout, y: number): number => Math.floor((y - EDGE_PX) / pitch);

export const heightOf = ({ pitch }: Layout, lanes: number): number => Math.ceil(2 * EDGE_PX + lanes * pitch);

export const nowX = ({ width }: Layout): number => width * PAST;

export const xOf = (layout: Layout, atMs: number): number => nowX(layout) - (layout.nowMs - atMs) * layout.pxPerMs;

export const timeAt = (layout: Layout, x: number): number => layout.nowMs - (nowX(layout) - x) / layout.pxPerMs;

/**
 * Places a lane's requests, relative to the lane. Requests that would cover each other are stacked, the oldest at the
 * bottom; a stack that is too high is compressed.
 */
export function placeMarks(marks: readonly Mark[], layout: Layout, place: (mark: Mark, x: number, y: number) => void) {
  const { radius, pxPerMs, barY, barHeight, pitch, width } = layout;
  const columnMs = (radius * 2) / pxPerMs;
  const first = Math.floor(timeAt(layout, -radius) / columnMs);
  const columns = Math.ceil((width + 2 * radius) / (radius * 2)) + 1;
  const sizes = new Uint16Array(columns);
  for (const [, atMs] of marks) {
    const column = Math.floor(atMs / columnMs) - first;
    if (column >= 0 && column < columns) sizes[column] = (sizes[column] ?? 0) + 1;
  }
  const lowestY = pitch >= ROOMY_PITCH ? barY - barHeight / 2 - radius : barY;
  const placed = new Uint16Array(columns);
  const xs = new Float64Array(columns);
  for (const mark of marks) {
    const column = Math.floor(mark[1] / columnMs) - first;
    const size = sizes[column];
    if (!size) continue;
    const index = placed[column] ?? 0;
    placed[column] = index + 1;
    if (index === 0) xs[column] = xOf(layout, mark[1]);
    const step = size > 1 ? Math.min(radius * 2 + 0.5, (lowestY - radius) / (size - 1)) : 0;
    place(mark, xs[column] ?? 0, lowestY - index * step);
  }
}

/** The mark nearest to a point in a lane, within `reachPx`. */
export function markNear(marks: readonly Mark[], layout: Layout, x: number, y: number, reachPx = 10) {
  let nearest: { mark: Mark; x: number; y: number } | undefined;
  let nearestPx = reachPx;
  placeMarks(marks, layout, (mark, atX, atY) => {
    const px = Math.hypot(atX - x, (atY - y) * 0.5);
    if (px > nearestPx || (px === nearestPx && kindOf(mark) === 'ok')) return;
    nearestPx = px;
    nearest = { mark, x: atX, y: atY };
  });
  return nearest;
}

/** The spans of a lane's bars in pixels, each from where those before it end. */
export function spansOf(bars: readonly Bar[], layout: Layout): { from: number; to: number }[] {
  const spans: { from: number; to: number }[] = [];
  let drawnTo = 0;
  for (const { fromMs, toMs } of bars) {
    const from = Math.max(drawnTo, xOf(layout, fromMs));
    const to = Math.min(layout.width, Math.max(xOf(layout, toMs), xOf(layout, fromMs) + 1));
    if (to <= from) continue;
    spans.push({ from, to });
    drawnTo = to;
  }
  return spans;
}

/** A distinct shape for each kind, all of about the same size, as an SVG path. */
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

const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];

/** The ticks of the time axis: round times, at least one label width apart. */
export function ticksOf(layout: Layout, labelPx = 80): number[] {
  const stepMs = (TICKS_S.find((seconds) => seconds * 1000 * layout.pxPerMs >= labelPx) ?? 86_400) * 1000;
  const first = Math.floor(timeAt(layout, 0) / stepMs) * stepMs;
  const ticks: number[] = [];
  for (let atMs = first; atMs <= timeAt(layout, layout.width) + stepMs; atMs += stepMs) ticks.push(atMs);
  return ticks;
}

/** Shows the name of every n-th lane, so that names do not overlap. Returns n. */
export const labelEvery = (pitch: number, labelPx = 15): number => Math.max(1, Math.ceil(labelPx / pitch));

/** The horizontal span of a band; undefined where it cannot be seen. Without an end it continues, except a line. */
export function bandSpan(band: Band, layout: Layout): { x: number; width: number } | undefined {
  const toMs = band.toMs ?? (band.look === 'line' ? band.fromMs : Number.POSITIVE_INFINITY);
  const from = Math.max(-10, xOf(layout, band.fromMs));
  const to = Math.min(layout.width + 10, Math.max(from + 2, xOf(layout, toMs)));
  return xOf(layout, toMs) < 0 || from > layout.width ? undefined : { x: from, width: to - from };
}

/** The seconds that a column of the time rail counts: one, or several if it would be too narrow. */
const columnSeconds = ({ pxPerMs }: Layout): number => Math.max(1, Math.ceil(3 / (pxPerMs * 1000)));

/** The span of the column at a time. */
export function columnAt(layout: Layout, atMs: number): { fromMs: number; toMs: number } {
  const stepMs = columnSeconds(layout) * 1000;
  const fromMs = Math.floor(atMs / stepMs) * stepMs;
  return { fromMs, toMs: fromMs + stepMs };
}

/** The columns of the time rail. */
export function columnsOf(seconds: Seconds, layout: Layout): { fromMs: number; toMs: number; counts: number[] }[] {
  const stepS = columnSeconds(layout);
  const columns = new Map<number, number[]>();
  const first = timeAt(layout, 0) / 1000 - stepS;
  for (const [second, ...own] of seconds.values()) {
    if (second < first || second * 1000 > layout.nowMs) continue;
    const start = Math.floor(second / stepS) * stepS;
    const counts = columns.get(start);
    if (counts) for (const [index, count] of own.entries()) counts[index] = (counts[index] ?? 0) + count;
    else columns.set(start, own);
  }
  return [...columns].map(([start, counts]) => ({ fromMs: start * 1000, toMs: (start + stepS) * 1000, counts }));
}
