import { useRef, useState } from 'preact/hooks';
import { Canvas } from './canvas.tsx';
import { type Band, countsBetween, type Seconds } from './data.ts';
import { AXIS_PX, drawRail, RAIL_PX, type Surface } from './draw.ts';
import { columnAt, type Layout, nowX, timeAt, xOf } from './layout.ts';
import { countWord, marksWord, spanWord, timeWord } from './words.ts';

/** A span of time that was chosen. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface RailProps {
  readonly seconds: Seconds;
  readonly bands: readonly Band[];
  /** The layout now. */
  readonly layout: () => Layout;
  readonly still: boolean;
  /** `undefined`: back to the present. */
  readonly onZoom: (span: Span | undefined) => void;
}

/** The shortest span to zoom to. */
const MIN_SPAN_MS = 1000;

/** A pointer that has moved less than this has clicked. */
const DRAG_PX = 4;

const KEYS =
  'Left and Right Arrow move in time; Home and End go to the start of the window and to now. With Shift they select a span, and Enter zooms to it. Plus and Minus zoom. Escape clears the selection, or returns to now.';

/** A point of the rail, by its distance from now, and where a selection began. */
interface Cursor {
  readonly agoMs: number;
  readonly anchorMs?: number;
}

/**
 * The time axis with requests over time and bands. A span is chosen by dragging with mouse or finger, or by Shift and the
 * arrow keys and then Enter; + and − zoom, Escape returns to the present.
 */
export function TimeRail({ seconds, bands, layout, still, onZoom }: RailProps) {
  const [cursor, setCursor] = useState<Cursor | undefined>();
  const scale = useRef<HTMLParagraphElement>(null);
  const now = layout();
  const atMs = now.nowMs - (cursor?.agoMs ?? 0);
  const selection = cursor && spanOf(cursor, now);
  const word = cursor && (selection ? spanText(selection, seconds) : momentText(atMs, now, seconds, bands));
  const draw = (surface: Surface) => {
    const at = layout();
    const shown = drawRail(surface, seconds, bands, at);
    if (scale.current) scale.current.textContent = shown ? `${countWord(shown.peak)} in ${spanWord(shown.spanMs)}` : '';
    if (cursor) drawCursor(surface, cursor, at);
  };
  const agoAt = (event: PointerEvent) => {
    const x = event.clientX - (event.currentTarget as Element).getBoundingClientRect().left;
    return Math.min(now.windowMs, Math.max(0, now.nowMs - timeAt(now, x)));
  };
  const choose = (event: PointerEvent) => {
    const span = spanOf({ ...cursor, agoMs: agoAt(event) }, now);
    setCursor(undefined);
    if (span && (span.toMs - span.fromMs) * now.pxPerMs >= DRAG_PX) onZoom(wideEnough(span));
  };
  const press = (event: KeyboardEvent) => {
    const done = pressed(event, cursor ?? { agoMs: 0 }, now);
    if (!done) return;
    event.preventDefault();
    setCursor('cursor' in done ? done.cursor : { agoMs: 0 });
    if ('zoom' in done) onZoom(done.zoom && wideEnough(done.zoom));
  };
  return (
    <div class="rail">
      <p class="rail-scale" ref={scale} aria-hidden="true" />
      <div
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label="Token requests over time"
        aria-description={KEYS}
        aria-valuemin={-now.windowMs / 1000}
        aria-valuemax={0}
        aria-valuenow={-(cursor?.agoMs ?? 0) / 1000}
        aria-valuetext={word ?? 'now'}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          const agoMs = agoAt(event);
          setCursor({ agoMs, anchorMs: now.nowMs - agoMs });
        }}
        onPointerMove={(event) => setCursor({ ...cursor, agoMs: agoAt(event) })}
        onPointerUp={choose}
        onPointerCancel={() => setCursor(undefined)}
        onPointerLeave={() => setCursor(undefined)}
        onKeyDown={press}
        onFocus={() => setCursor((before) => before ?? { agoMs: 0 })}
        onBlur={() => setCursor(undefined)}
      >
        <Canvas class="rail-canvas" width={now.width} height={RAIL_PX} still={still} draw={draw} />
        {word && (
          <p class="readout" aria-hidden="true">
            {word}
          </p>
        )}
      </div>
    </div>
  );
}

type Pressed = { cursor: Cursor } | { zoom: Span | undefined };

/** What a key does. */
function pressed({ key, shiftKey }: KeyboardEvent, cursor: Cursor, { nowMs, windowMs }: Layout): Pressed | undefined {
  const step = windowMs / 60;
  const agoMs = { ArrowLeft: cursor.agoMs + step, ArrowRight: cursor.agoMs - step, Home: windowMs, End: 0 }[key];
  if (agoMs !== undefined) {
    const anchor = shiftKey && { anchorMs: cursor.anchorMs ?? nowMs - cursor.agoMs };
    return { cursor: { agoMs: Math.min(windowMs, Math.max(0, agoMs)), ...anchor } };
  }
  const span = spanOf(cursor, { nowMs });
  if (key === 'Enter' && span) return { zoom: span };
  if (key === 'Escape') return span ? { cursor: { agoMs: cursor.agoMs } } : { zoom: undefined };
  const half = { '+': windowMs / 4, '-': windowMs }[key];
  if (half === undefined) return undefined;
  const middleMs = nowMs - cursor.agoMs;
  const toMs = Math.min(nowMs + (key === '-' ? windowMs / 2 : 0), middleMs + half);
  return { zoom: { fromMs: toMs - 2 * half, toMs } };
}

/** The selected span, up to now at most; undefined without one. */
function spanOf({ agoMs, anchorMs }: Cursor, { nowMs }: Pick<Layout, 'nowMs'>): Span | undefined {
  if (anchorMs === undefined) return undefined;
  const atMs = nowMs - agoMs;
  return { fromMs: Math.min(anchorMs, atMs), toMs: Math.max(anchorMs, atMs) };
}

const wideEnough = ({ fromMs, toMs }: Span): Span => ({ fromMs: Math.min(fromMs, toMs - MIN_SPAN_MS), toMs });

function drawCursor({ context, palette }: Surface, cursor: Cursor, layout: Layout): void {
  const span = spanOf(cursor, layout);
  const x = nowX(layout) - cursor.agoMs * layout.pxPerMs;
  context.fillStyle = palette.ink;
  context.globalAlpha = 0.15;
  if (span) context.fillRect(xOf(layout, span.fromMs), AXIS_PX, (span.toMs - span.fromMs) * layout.pxPerMs, RAIL_PX);
  context.globalAlpha = 1;
  for (let y = AXIS_PX; y < RAIL_PX; y += 4) context.fillRect(x, y, 1, 2);
}

const NONE = 'no token requests';

function spanText(span: Span, seconds: Seconds): string {
  const requests = marksWord(countsBetween(seconds, span.fromMs, span.toMs), NONE);
  return `${timeWord(span.fromMs)} to ${timeWord(span.toMs)} · ${requests} · Enter zooms`;
}

/** The column at a moment and the bands behind it, in words. */
function momentText(atMs: number, layout: Layout, seconds: Seconds, bands: readonly Band[]): string {
  const { fromMs, toMs } = columnAt(layout, atMs);
  const requests = marksWord(countsBetween(seconds, fromMs, toMs), NONE);
  const behind = bands.filter((band) => band.fromMs < toMs && (band.toMs ?? Infinity) >= fromMs);
  return [timeWord(atMs), requests, ...new Set(behind.map(({ word }) => word))].join(' · ');
}
