import { describe, expect, it } from 'vitest';
import type { Band, LedgerEntry, TokenView } from '../../../../src/sandbox/api-types.ts';
import {
  bandSpan,
  barsOf,
  heightOf,
  type Layout,
  labelEvery,
  layoutOf,
  markNear,
  markPaths,
  marksOf,
  nowX,
  sameLayout,
  shapeAt,
  shiftX,
  ticksOf,
} from '../../../../src/sandbox/portal/page/lanes.ts';
import { MARK_KINDS } from '../../../../src/sandbox/state/marks.ts';

const NOW_MS = 1_700_000_040_000;
const layout = (lanes = 5, changes: Partial<Layout> = {}): Layout => ({
  ...layoutOf(lanes, NOW_MS, { width: 1000, windowMs: 60_000, calls: false }),
  ...changes,
});

const request = (id: number, agoMs: number, changes: Partial<LedgerEntry> = {}): LedgerEntry => ({
  id,
  kind: 'token',
  atMs: NOW_MS - agoMs,
  method: 'POST',
  outcome: 'issued',
  wasted: false,
  ...changes,
});

const lane = (...requests: LedgerEntry[]) => ({ id: 'a', name: 'a', tokens: [], requests });
/** Where something is on screen. */
const seen = (x: number, by: Layout, nowMs = NOW_MS) => x + shiftX(by, nowMs);

describe('the layout', () => {
  it('gives few owners room and lets 200 fit a screen', () => {
    expect(layout(1).pitch).toBe(44);
    expect(heightOf(layout(200), 200)).toBeLessThan(850);
    expect(layout(10_000).pitch).toBeGreaterThan(3);
  });

  it('stays the same as time goes on, until half a window has passed', () => {
    const at = (nowMs: number) => layoutOf(5, nowMs, { width: 1000, windowMs: 60_000, calls: false });
    const begin = layout().anchorMs;
    expect(sameLayout(at(begin), at(begin + 29_999))).toBe(true);
    expect(sameLayout(at(begin), at(begin + 30_000))).toBe(false);
  });

  it('puts now where now is, whatever the anchor', () => {
    for (const aheadMs of [0, 7000, 29_999]) {
      const nowMs = layout().anchorMs + aheadMs;
      const [mark] = marksOf(lane(request(1, NOW_MS - nowMs)), layout());
      expect(seen(mark?.x ?? 0, layout(), nowMs)).toBeCloseTo(nowX(layout()));
    }
  });
});

describe('marks', () => {
  it('are where their time is: one window ago is at the left edge', () => {
    const [old, middle] = marksOf(lane(request(1, 60_000), request(2, 30_000)), layout());
    expect(seen(old?.x ?? 0, layout())).toBeCloseTo(0);
    expect(seen(middle?.x ?? 0, layout())).toBeCloseTo(400);
  });

  it('are stacked where they would cover each other: a stampede is a column', () => {
    const marks = marksOf(lane(request(1, 5000), request(2, 4999), request(3, 4998)), layout());
    expect(new Set(marks.map(({ x }) => x)).size).toBe(1);
    const [first, second, third] = marks.map(({ y }) => y) as [number, number, number];
    expect(first - second).toBeGreaterThanOrEqual(layout().radius * 2);
    expect(second - third).toBeCloseTo(first - second);
  });

  it.each([1, 5, 40, 60, 200, 250])('of %d lanes stay in their lane, and a stack moves closer', (lanes) => {
    const many = Array.from({ length: 40 }, (_, n) => request(n + 1, 5000));
    const { radius, pitch } = layout(lanes);
    for (const { y } of marksOf(lane(...many), layout(lanes))) {
      expect(y - radius).toBeGreaterThanOrEqual(0);
      expect(y + radius).toBeLessThanOrEqual(pitch);
    }
  });

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

  it('are left out where nobody sees them: long past, or accepted calls when these are not wanted', () => {
    const call = request(3, 100, { kind: 'echo', outcome: 'accepted' });
    const refused = request(4, 20_000, { kind: 'echo', outcome: 'rejected' });
    const all = lane(request(1, 200_000), request(2, 10_000), call, refused);
    expect(marksOf(all, layout()).map(({ entry }) => entry.id)).toEqual([2, 4]);
    expect(marksOf(all, layout(5, { calls: true })).map(({ entry }) => entry.id)).toEqual([2, 3, 4]);
  });

  it('have a shape of their own for each kind', () => {
    const shapes = MARK_KINDS.filter((kind) => kind !== 'pending').map((kind) => shapeAt(kind, 0, 0, 4));
    expect(new Set(shapes).size).toBe(shapes.length);
    for (const shape of shapes) expect(shape).not.toMatch(/NaN|undefined/);
  });

  it('come as one path for each kind', () => {
    const wasted = request(2, 20_000, { wasted: true });
    const paths = markPaths(marksOf(lane(request(1, 30_000), wasted, request(3, 100)), layout()), 4);
    expect([...paths.keys()]).toEqual(['ok', 'wasted']);
    expect(paths.get('ok')?.match(/M/g)).toHaveLength(2);
  });

  it('are found from near, and not from afar', () => {
    const marks = marksOf(lane(request(1, 30_000), request(2, 10_000)), layout());
    const [mark] = marks;
    expect(markNear(marks, (mark?.x ?? 0) + 5, mark?.y ?? 0)?.entry.id).toBe(1);
    expect(markNear(marks, (mark?.x ?? 0) + 50, mark?.y ?? 0)).toBeUndefined();
  });
});

describe('bars', () => {
  const token = (fromMs: number, toMs: number, revokedAtMs?: number): TokenView => ({
    fingerprint: 't',
    owner: 'a',
    app: 'app-1',
    issuedAtMs: NOW_MS + fromMs,
    expiresAtMs: NOW_MS + toMs,
    ...(revokedAtMs !== undefined && { revokedAtMs: NOW_MS + revokedAtMs }),
  });
  const spansOf = (path: string) =>
    [...path.matchAll(/M(-?[\d.]+) -?[\d.]+H(-?[\d.]+)/g)].map(([, from, to]) => [
      Math.round(seen(Number(from), layout())),
      Math.round(seen(Number(to), layout())),
    ]);

  it('last as long as the token does', () => {
    expect(spansOf(barsOf([token(-30_000, 5000)], layout()).bars)).toEqual([[400, 867]]);
  });

  it('end where the token was revoked, with a cut', () => {
    const { bars, cuts } = barsOf([token(-30_000, 60_000, -15_000)], layout());
    expect(spansOf(bars)).toEqual([[400, 600]]);
    expect(cuts).toMatch(/^M/);
    expect(barsOf([token(-30_000, 60_000)], layout()).cuts).toBe('');
  });

  it('of ten years are no longer than the eye follows', () => {
    const [[from = 0, to = 0] = []] = spansOf(barsOf([token(-1000, 3e11)], layout()).bars);
    expect(to - from).toBeLessThan(2000);
    expect(to).toBeGreaterThan(1000);
  });

  it('of the past are left out', () => {
    expect(barsOf([token(-300_000, -200_000)], layout()).bars).toBe('');
  });
});

describe('a band', () => {
  const spanOf = (changes: Partial<Band>) => {
    const span = bandSpan({ id: 1, kind: 'fault', fromMs: NOW_MS - 30_000, ...changes }, layout());
    return span && [Math.round(seen(span.x, layout())), Math.round(span.width)];
  };

  it('lasts as long as what it shows, into the future too', () => {
    expect(spanOf({ toMs: NOW_MS - 15_000 })).toEqual([400, 200]);
    expect(spanOf({ toMs: NOW_MS + 7500 })).toEqual([400, 500]);
    expect(spanOf({ fromMs: NOW_MS - 400_000, toMs: NOW_MS - 300_000 })).toBeUndefined();
  });

  it('without an end continues; of frozen time it is a line', () => {
    const [x = 0, width = 0] = spanOf({}) ?? [];
    expect(x + width).toBeGreaterThan(1000);
    expect(spanOf({ kind: 'frozen' })).toEqual([400, 2]);
  });
});

describe('the axis', () => {
  it('has round times, apart by at least a label, over all that can come into sight', () => {
    const ticks = ticksOf(layout());
    expect(ticks.every(({ atMs }) => atMs % 10_000 === 0)).toBe(true);
    for (const [index, { x }] of ticks.entries()) {
      if (index > 0) expect(x - (ticks[index - 1]?.x ?? 0)).toBeGreaterThanOrEqual(80);
    }
    const latest = layout().anchorMs + 29_999;
    expect(seen(ticks[0]?.x ?? 0, layout(), latest)).toBeLessThan(80);
    expect(seen(ticks.at(-1)?.x ?? 0, layout(), latest)).toBeGreaterThan(1000);
  });

  it('leaves out names that would cover each other', () => {
    expect(labelEvery(44)).toBe(1);
    expect(labelEvery(3.5)).toBe(5);
  });
});
