import { expect, it } from 'vitest';
import type { Replica, SentFrame } from '../../../src/live-view/frames.ts';
import { type Model, modelOf } from '../../../src/live-view/page/model.ts';

const NOW = 1_900_000_000_000;
const REPLICA: Replica = {
  id: 'a',
  host: 'pod-1',
  pid: 7,
  startedAtMs: NOW - 60_000,
  version: '1.0.0',
  node: 'v20',
};
const frameOf = ({ upMs = 60_000, ...replica }: Partial<Replica> & { upMs?: number } = {}): SentFrame => ({
  clock: { nowMs: NOW, upMs },
  registries: [],
  picture: { lanes: [], matching: 0, seconds: [], bands: [], completeSinceMs: NOW },
  replica: { ...REPLICA, ...replica },
  page: { accessKeys: false },
});

it('the model of the live view says that another process answers: a restart if that began after the last frame', () => {
  let model: Model | undefined;
  const news = (replica: Parameters<typeof frameOf>[0], seenAtMs: number) => {
    model = modelOf(frameOf(replica), seenAtMs, model);
    return model.news;
  };
  expect(news({}, 10_000)).toBe('');
  expect(news({ id: 'b', pid: 8, upMs: 1_999 }, 12_000)).toBe('The process has restarted.');
  // A round robin leads from one process to another, both of which run for long, and back.
  expect(news({ id: 'c', pid: 9, upMs: 2_000 }, 14_000)).toBe('Another replica answers now: pod-1, process 9.');
  expect(news({ id: 'd', host: 'pod-2', upMs: 1 }, 16_000)).toBe('Another replica answers now: pod-2, process 7.');
  expect(news({ id: 'd', host: 'pod-2', upMs: 501 }, 16_500)).toBe('Another replica answers now: pod-2, process 7.');
});

it('the model of the live view keeps its lanes where a frame leaves them out', () => {
  const [first, second] = [frameOf(), frameOf()];
  const lane = { id: 'a', name: 'a', bars: [], marks: [] };
  const before = modelOf({ ...first, picture: { ...first.picture, lanes: [lane] } }, 0, undefined);
  const { lanes: _, ...picture } = second.picture;
  expect(modelOf({ ...second, picture }, 0, before).lanes).toEqual([lane]);
  expect(modelOf({ ...second, picture }, 0, undefined).lanes).toEqual([]);
});

it('the model of the live view takes null for the end of a token that has none', () => {
  const bars = [{ id: 'token_x', fromMs: NOW, toMs: null as never, cut: false }];
  const frame = frameOf();
  const picture = { ...frame.picture, lanes: [{ id: 'a', name: 'a', bars, marks: [] }] };
  expect(modelOf({ ...frame, picture }, 0, undefined).lanes[0]?.bars[0]?.toMs).toBe(Infinity);
});
