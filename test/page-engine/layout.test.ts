import { describe, expect, it } from 'vitest';
import { type Band, type Bar, MARK_KINDS, type Mark, type Second } from '../../src/page-engine/data.ts';
import {
  bandSpan,
  columnAt,
  columnsOf,
  heightOf,
  type Layout,
  labelEvery,
  laneY,
  layoutOf,
  markNear,
  nowX,
  placeMarks,
  rowAt,
  shapeAt,
  spansOf,
  ticksOf,
  timeAt,
  xOf,
} from '../../src/page-engine/layout.ts';

const NOW_MS = 1_700_000_040_000;
const layout = (lanes = 5): Layout => layoutOf(lanes, { width: 1000, windowMs: 60_000, nowMs: NOW_MS });

const mark = (id: number, agoMs: number): Mark => [id, NOW_MS - agoMs, 0];

/** Where marks are placed. */
function placed(marks: readonly Mark[], by = layout()): { id: number; x: number; y: number }[] {
  const places: { id: number; x: number; y: number }[] = [];
  placeMarks(marks, by, ([id], x, y) => places.push({ id, x, y }));
  return places;
}

describe('the layout', () => {
  it('gives few owners much room, and fits 200 on a screen', () => {
    expect(layout(1).pitch).toBe(44);
    expect(heightOf(layout(200), 200)).toBeLessThan(850);
    expect(layout(10_000).pitch).toBeGreaterThan(3);
  });

  it('puts one window ago at the left edge and now at the end of the past, and maps a position back to its time', () => {
    expect([xOf(layout(), NOW_MS), xOf(layout(), NOW_MS - 60_000)]).toEqual([nowX(layout()), 0]);
    expect(timeAt(layout(), xOf(layout(), NOW_MS - 12_345))).toBeCloseTo(NOW_MS - 12_345);
  });

  it('finds the lane at a height', () => {
    expect([0, 3, 4].map((row) => rowAt(layout(), laneY(layout(), row) + 1))).toEqual([0, 3, 4]);
  });
});

describe('marks', () => {
  it('are drawn at their time', () => {
    expect(placed([mark(1, 60_000), mark(2, 30_000)]).map(({ x }) => x)).toEqual([0, 400]);
  });

  it('that would overlap are stacked, so that a stampede is a column', () => {
    const marks = placed([mark(1, 5000), mark(2, 4999), mark(3, 4998)]);
    expect(new Set(marks.map(({ x }) => x)).size).toBe(1);
    const [first, second, third] = marks.map(({ y }) => y) as [number, number, number];
    expect(first - second).toBeGreaterThanOrEqual(layout().radius * 2);
    expect(second - third).toBeCloseTo(first - second);
  });

  it('keep their positions relative to each other as time passes', () => {
    const marks = [mark(1, 5000), mark(2, 4990), mark(3, 4700)];
    const later = layoutOf(5, { width: 1000, windowMs: 60_000, nowMs: NOW_MS + 777 });
    const movedBy = placed(marks, later).map(({ x, y }, index) => {
      const before = placed(marks)[index];
      return [Math.round((x - (before?.x ?? 0)) * 1000), y - (before?.y ?? 0)];
    });
    expect(new Set(movedBy.map(String)).size).toBe(1);
  });

  it.each([1, 5, 40, 60, 200, 250])(
    'stay in their lane with %d lanes, because stacks move closer together',
    (lanes) => {
      const many = Array.from({ length: 40 }, (_, n) => mark(n + 1, 5000));
      const { radius, pitch } = layout(lanes);
      for (const { y } of placed(many, layout(lanes))) {
        expect(y - radius).toBeGreaterThanOrEqual(0);
        expect(y + radius).toBeLessThanOrEqual(pitch);
      }
    },
  );

  it('outside the visible range are not drawn', () => {
    expect(placed([mark(1, 200_000), mark(2, 10_000), mark(3, -200_000)]).map(({ id }) => id)).toEqual([2]);
  });

  it('are found near the pointer, and not far from it', () => {
    const marks = [mark(1, 30_000), mark(2, 10_000)];
    const [first] = placed(marks);
    expect(markNear(marks, layout(), (first?.x ?? 0) + 5, first?.y ?? 0)?.mark[0]).toBe(1);
    expect(markNear(marks, layout(), (first?.x ?? 0) + 50, first?.y ?? 0)).toBeUndefined();
  });
});

describe('shapes', () => {
  it.each(MARK_KINDS)('of the kind %s are no larger than their radius', (kind) => {
    // A path of relative lines and arcs: where it goes, arcs by their ends.
    let [x, y] = [0, 0];
    const numbers = (text: string) => [...text.matchAll(/-?[\d.]+/g)].map(Number);
    for (const [, command, rest = ''] of shapeAt(kind, 0, 0, 4).matchAll(/([Mmlhvaz])([^Mmlhvaz]*)/g)) {
      const given = numbers(rest);
      if (command === 'M') [x = 0, y = 0] = given;
      if (command === 'h') x += given[0] ?? 0;
      if (command === 'v') y += given[0] ?? 0;
      if (command === 'm' || command === 'l') [x, y] = [x + (given[0] ?? 0), y + (given[1] ?? 0)];
      if (command === 'a') expect(given[0]).toBeLessThanOrEqual(4);
      expect(Math.max(Math.abs(x), Math.abs(y))).toBeLessThanOrEqual(4.01);
    }
  });

  it('differ for each kind of mark', () => {
    const shapes = MARK_KINDS.filter((kind) => kind !== 'pending').map((kind) => shapeAt(kind, 0, 0, 4));
    expect(new Set(shapes).size).toBe(shapes.length);
    for (const shape of shapes) expect(shape).not.toMatch(/NaN|undefined/);
  });
});

describe('bars', () => {
  const bar = (fromMs: number, toMs: number): Bar => {
    return { id: 't', fromMs: NOW_MS + fromMs, toMs: NOW_MS + toMs, cut: false };
  };
  const spans = (...bars: Bar[]) =>
    spansOf(bars, layout()).map(({ from, to }) => [Math.round(from), Math.round(to)] as const);

  it('last as long as their token, up to the edge', () => {
    expect(spans(bar(-30_000, 5000))).toEqual([[400, 867]]);
    expect(spans(bar(-30_000, 3e11))).toEqual([[400, 1000]]);
  });

  it('that ended before the visible range are not drawn', () => {
    expect(spans(bar(-300_000, -200_000))).toEqual([]);
  });

  it('that overlap are drawn once: the later one from the end of the earlier one', () => {
    expect(spans(bar(-30_000, -15_000), bar(-29_000, -20_000), bar(-22_500, 0))).toEqual([
      [400, 600],
      [600, 800],
    ]);
  });
});

describe('a band', () => {
  const spanOf = (changes: Partial<Band>) => {
    const span = bandSpan({ id: 1, look: 'fault', word: '', fromMs: NOW_MS - 30_000, ...changes }, layout());
    return span && [Math.round(span.x), Math.round(span.width)];
  };

  it('lasts as long as what it shows, into the future too', () => {
    expect(spanOf({ toMs: NOW_MS - 15_000 })).toEqual([400, 200]);
    expect(spanOf({ toMs: NOW_MS + 7500 })).toEqual([400, 500]);
    expect(spanOf({ fromMs: NOW_MS - 400_000, toMs: NOW_MS - 300_000 })).toBeUndefined();
  });

  it('without an end continues; a line does not', () => {
    const [x = 0, width = 0] = spanOf({}) ?? [];
    expect(x + width).toBeGreaterThan(1000);
    expect(spanOf({ look: 'line' })).toEqual([400, 2]);
  });
});

describe('the rail', () => {
  it('has ticks at round times from edge to edge, at least a label apart', () => {
    const ticks = ticksOf(layout());
    expect(ticks.every((atMs) => atMs % 10_000 === 0)).toBe(true);
    for (const [index, atMs] of ticks.entries()) {
      if (index > 0) expect(xOf(layout(), atMs) - xOf(layout(), ticks[index - 1] ?? 0)).toBeGreaterThanOrEqual(80);
    }
    expect(xOf(layout(), ticks[0] ?? 0)).toBeLessThanOrEqual(0);
    expect(xOf(layout(), ticks.at(-1) ?? 0)).toBeGreaterThanOrEqual(1000);
  });

  it('has a column per second, or per several seconds if one would be too narrow, and loses no request', () => {
    const now = Math.floor(NOW_MS / 1000);
    const seconds = new Map(Array.from({ length: 600 }, (_, n): [number, Second] => [now - n, [now - n, 1, 2]]));
    const minute = columnsOf(seconds, layout());
    expect(minute.at(0)).toEqual({ fromMs: now * 1000, toMs: now * 1000 + 1000, counts: [1, 2] });
    const hour = columnsOf(seconds, layoutOf(5, { width: 1000, windowMs: 3_600_000, nowMs: NOW_MS }));
    expect(hour.length).toBeLessThan(60);
    expect(hour.reduce((sum, { counts }) => sum + (counts[1] ?? 0), 0)).toBe(1200);
    expect(seconds.get(now)).toEqual([now, 1, 2]);
  });

  it.each([60_000, 3_600_000])(
    'has each moment in the column that is drawn there, in a window of %i ms',
    (windowMs) => {
      const shown = layoutOf(5, { width: 1000, windowMs, nowMs: NOW_MS });
      const now = Math.floor(NOW_MS / 1000);
      const seconds = new Map(Array.from({ length: 60 }, (_, n): [number, Second] => [now - n, [now - n, 1]]));
      for (const { fromMs, toMs } of columnsOf(seconds, shown)) {
        for (const atMs of [fromMs, (fromMs + toMs) / 2, toMs - 1])
          expect(columnAt(shown, atMs)).toEqual({ fromMs, toMs });
      }
    },
  );

  it('leaves out names that would overlap', () => {
    expect(labelEvery(44)).toBe(1);
    expect(labelEvery(3.5)).toBe(5);
  });
});
