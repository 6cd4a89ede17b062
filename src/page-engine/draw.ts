/** Draws lanes and time rail on a canvas. Its colours are those of the style sheet, read at each drawing. */

import { type Band, kindOf, type Lane, MARK_KINDS, type Mark, type MarkKind, type Seconds } from './data.ts';
import { bandSpan, columnsOf, type Layout, laneY, nowX, placeMarks, shapeAt, spansOf, ticksOf, xOf } from './layout.ts';
import { timeWord } from './words.ts';

/** The custom properties of the style sheet that the picture is drawn with. */
export const TONES = [
  ...MARK_KINDS,
  ...(['ground', 'ink', 'soft', 'line', 'edge', 'bar', 'jump', 'band-fault', 'band-jump', 'band-unseen'] as const),
] as const;

export type Palette = Readonly<Record<(typeof TONES)[number], string>>;

/** What is drawn on. Lengths are CSS pixels. */
export interface Surface {
  readonly context: CanvasRenderingContext2D;
  readonly palette: Palette;
  readonly width: number;
  readonly height: number;
  /** Device pixels of a CSS pixel. */
  readonly scale: number;
}

/** The width of a mark's line, as a share of its radius. */
const STROKE = 0.375;

/** Drawn as an outline; the others are filled. */
const OUTLINED: readonly MarkKind[] = ['wasted', 'broken', 'pending'];

const FONT = '11px system-ui, sans-serif';

/** Empties a canvas and makes it as large as it is shown. */
export function surfaceOf(canvas: HTMLCanvasElement, tones: Element, width: number, height: number): Surface {
  const scale = devicePixelRatio || 1;
  const [deviceWidth, deviceHeight] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== deviceWidth) canvas.width = deviceWidth;
  if (canvas.height !== deviceHeight) canvas.height = deviceHeight;
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  const palette = Object.fromEntries(
    TONES.map((tone, index) => [tone, getComputedStyle(tones.children[index] as Element).color]),
  ) as Palette;
  return { context, palette, width, height, scale };
}

export interface LanesDrawing {
  readonly lanes: readonly Lane[];
  readonly bands: readonly Band[];
  readonly layout: Layout;
  readonly selected: number | undefined;
  /** The rows in view. */
  readonly from: number;
  readonly to: number;
}

export function drawLanes(surface: Surface, { lanes, bands, layout, selected, from, to }: LanesDrawing): void {
  const { context, palette, height } = surface;
  drawBands(surface, bands, layout, 0);
  context.fillStyle = palette.line;
  for (const atMs of ticksOf(layout)) context.fillRect(Math.round(xOf(layout, atMs)), 0, 1, height);
  const sprites = spritesOf(surface, layout.radius);
  for (let row = from; row < Math.min(to, lanes.length); row++) {
    const lane = lanes[row];
    if (lane) drawLane(surface, lane, laneY(layout, row), layout, sprites, selected);
  }
  drawNow(surface, layout, 0);
}

function drawLane(
  surface: Surface,
  lane: Lane,
  top: number,
  layout: Layout,
  sprites: ReadonlyMap<MarkKind, HTMLCanvasElement>,
  selected: number | undefined,
): void {
  const { context, palette, scale } = surface;
  const { barHeight, barY, pitch, radius } = layout;
  context.fillStyle = palette.bar;
  for (const { from, to } of spansOf(lane.bars, layout)) {
    context.fillRect(from, top + barY - barHeight / 2, to - from, barHeight);
  }
  context.fillStyle = palette.refused;
  const cut = Math.min(pitch / 2, Math.max(barHeight, pitch * 0.3));
  for (const bar of lane.bars) if (bar.cut) context.fillRect(xOf(layout, bar.toMs), top + barY - cut, 1.5, 2 * cut);
  const seen = new Set<number>();
  const deviceOf = (length: number) => Math.round(length * scale);
  const side = spriteSide(radius, scale);
  const draw = (mark: Mark, x: number, y: number) => {
    const [left, up] = [deviceOf(x) - side / 2, deviceOf(top + y) - side / 2];
    // Marks of one kind at one place are drawn once, however many there are.
    const place = (left * 4096 + up) * 8 + mark[2];
    const sprite = seen.has(place) ? undefined : sprites.get(kindOf(mark));
    if (sprite) context.drawImage(sprite, left / scale, up / scale, side / scale, side / scale);
    seen.add(place);
    if (mark[0] === selected) ring(surface, x, top + y, radius + 4);
  };
  // A narrow lane has no room to stack marks: a success must not hide a failure.
  const failures: Parameters<typeof draw>[] = [];
  placeMarks(lane.marks, layout, (mark, x, y) => {
    if (kindOf(mark) === 'ok') draw(mark, x, y);
    else failures.push([mark, x, y]);
  });
  for (const failure of failures) draw(...failure);
}

function ring({ context, palette }: Surface, x: number, y: number, radius: number): void {
  context.strokeStyle = palette.ink;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
}

/** In device pixels, even. */
const spriteSide = (radius: number, scale: number): number => 2 * Math.ceil((radius + 1.5) * scale);

/** Each mark once, to be copied: thousands of paths would take many times as long. */
function spritesOf({ palette, scale }: Surface, radius: number): ReadonlyMap<MarkKind, HTMLCanvasElement> {
  const side = spriteSide(radius, scale);
  const sprites = new Map<MarkKind, HTMLCanvasElement>();
  for (const kind of MARK_KINDS) {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [side, side];
    const context = canvas.getContext('2d') as CanvasRenderingContext2D;
    context.setTransform(scale, 0, 0, scale, side / 2, side / 2);
    context.fillStyle = palette[kind];
    context.strokeStyle = palette[kind];
    context.lineWidth = Math.max(1, radius * STROKE);
    const path = new Path2D(shapeAt(kind, 0, 0, radius));
    if (OUTLINED.includes(kind)) context.stroke(path);
    else context.fill(path);
    sprites.set(kind, canvas);
  }
  return sprites;
}

/** The parts of the rail from top to bottom: times, strips, columns. */
export const AXIS_PX = 18;
export const STRIP_PX = 15;
const PLOT_PX = 44;
export const RAIL_PX = AXIS_PX + STRIP_PX + PLOT_PX;

/** Draws the rail. Returns the greatest number of requests of a column, and the span of one. */
export function drawRail(surface: Surface, seconds: Seconds, bands: readonly Band[], layout: Layout) {
  const { context, palette } = surface;
  drawBands(surface, bands, layout, AXIS_PX);
  context.textAlign = 'center';
  for (const atMs of ticksOf(layout)) {
    const x = Math.round(xOf(layout, atMs));
    context.fillStyle = palette.line;
    context.fillRect(x, AXIS_PX - 4, 1, RAIL_PX);
    context.fillStyle = palette.soft;
    context.fillText(timeWord(atMs), x, 11);
  }
  const columns = columnsOf(seconds, layout);
  const sumOf = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const peak = columns.reduce((most, { counts }) => Math.max(most, sumOf(counts)), 1);
  const textures = texturesOf(surface);
  for (const { fromMs, toMs, counts } of columns) {
    const x = Math.round(xOf(layout, fromMs));
    const width = Math.max(1.5, Math.round(xOf(layout, toMs)) - x - 1);
    let y = RAIL_PX;
    for (const [index, count] of counts.entries()) {
      const height = (count / peak) * PLOT_PX;
      y -= height;
      context.fillStyle = textures[index] ?? palette.ink;
      if (count > 0) context.fillRect(x, y, width, height);
    }
  }
  drawBandNames(surface, bands, layout);
  drawNow(surface, layout, AXIS_PX);
  const [column] = columns;
  return column && { peak, spanMs: column.toMs - column.fromMs };
}

/** The fill of each kind in the rail: the two ambers are striped, one along and one across, so that no two look alike. */
function texturesOf({ context, palette }: Surface): (string | CanvasPattern)[] {
  return MARK_KINDS.map((kind) => {
    if (kind === 'pending') return palette.line;
    if (kind !== 'wasted' && kind !== 'limited') return palette[kind];
    const tile = document.createElement('canvas');
    [tile.width, tile.height] = [4, 4];
    const drawing = tile.getContext('2d') as CanvasRenderingContext2D;
    drawing.fillStyle = palette[kind];
    drawing.fillRect(0, 0, 4, 4);
    drawing.fillStyle = palette.ground;
    if (kind === 'limited') drawing.fillRect(0, 0, 4, 1);
    else for (let step = 0; step < 4; step++) drawing.fillRect(step, 3 - step, 1, 1);
    return context.createPattern(tile, 'repeat') ?? palette[kind];
  });
}

function drawBands({ context, palette, height }: Surface, bands: readonly Band[], layout: Layout, top: number): void {
  for (const band of bands) {
    const span = bandSpan(band, layout);
    if (!span || band.look === 'strip') continue;
    context.fillStyle =
      palette[({ fault: 'band-fault', jump: 'band-jump', unseen: 'band-unseen', line: 'jump' } as const)[band.look]];
    context.fillRect(span.x, top, span.width, height - top);
  }
}

/** Strips have a row of their own; all other names stand above the columns, each where there is room for it. */
function drawBandNames({ context, palette }: Surface, bands: readonly Band[], layout: Layout): void {
  const takenTo = { strip: 0, other: 0 };
  context.textAlign = 'left';
  for (const band of bands) {
    const span = bandSpan(band, layout);
    if (!span) continue;
    const row = band.look === 'strip' ? 'strip' : 'other';
    context.fillStyle = palette.bar;
    if (row === 'strip') context.fillRect(span.x, AXIS_PX, span.width - 1, STRIP_PX);
    const x = Math.max(0, span.x) + 5;
    const endX = x + context.measureText(band.word).width;
    if (x < takenTo[row] || endX > span.x + span.width) continue;
    takenTo[row] = endX;
    context.fillStyle = row === 'strip' ? palette.ink : palette.soft;
    context.fillText(band.word, x, AXIS_PX + (row === 'strip' ? 11 : STRIP_PX + 11));
  }
}

/** The line of now, and a veil over what is to come. */
function drawNow({ context, palette, width, height }: Surface, layout: Layout, top: number): void {
  const x = nowX(layout);
  context.globalAlpha = 0.55;
  context.fillStyle = palette.ground;
  context.fillRect(x, top, width - x, height - top);
  context.globalAlpha = 1;
  context.fillStyle = palette.edge;
  context.fillRect(Math.round(x), top, 1, height - top);
}
