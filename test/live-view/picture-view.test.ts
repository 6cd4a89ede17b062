import { describe, expect, it } from 'vitest';
import type { OutageView, RequestView } from '../../src/live-view/frames.ts';
import { lanesOfOwners, pictureView, type View, viewOf } from '../../src/live-view/picture-view.ts';
import { markOf } from '../../src/live-view/recorder.ts';
import type { OwnerReport } from '../../src/registry/reports.ts';

const NOW = 1_900_000_000_000;
const request = (id: number, changes: Partial<RequestView> = {}): RequestView => {
  return { id, registry: 'crm', owner: `owner ${id}`, reason: 'absent', atMs: NOW, ...changes };
};
const sourcesOf = (requests: readonly RequestView[], outages: OutageView[], owners: OwnerReport[]) => {
  const recorder = { requests: [...requests], outages, timelines: new Map(), completeSinceMs: NOW - 5 };
  return { recorder, registry: 'crm', owners };
};
const pictureOf = (
  requests: readonly RequestView[],
  { outages = [], owners = [], ...view }: { outages?: OutageView[]; owners?: OwnerReport[] } & Partial<View> = {},
) => {
  return pictureView(sourcesOf(requests, outages, owners), { windowMs: 60_000, ...view }, NOW);
};

it.each<[string, Partial<RequestView>, string]>([
  ['in flight', {}, 'pending'],
  ['with a token', { tookMs: 5, token: 'token_x' }, 'ok'],
  ['that nobody waited for', { tookMs: 5 }, 'wasted'],
  ['that was limited', { tookMs: 5, code: 'endpoint_unavailable', status: 429 }, 'limited'],
  ['that met a failing service', { tookMs: 5, code: 'endpoint_unavailable', status: 503 }, 'error'],
  ['without an answer', { tookMs: 5, code: 'endpoint_unavailable' }, 'broken'],
  ['that was refused', { tookMs: 5, code: 'owner_refused', status: 400 }, 'refused'],
])('the live view draws and counts a request %s', (_, changes, kind) => {
  expect(markOf(request(1, changes))).toBe(kind);
});

describe('the picture of the live view', () => {
  it('draws a token from its issue to its end, or to its rejection', () => {
    const issued = { tookMs: 10, token: 'token_x', expiresAtMs: NOW + 60_000 };
    const requests = [request(1, issued), request(2, { ...issued, token: 'token_y', rejectedAtMs: NOW + 500 })];
    const old = { owner: 'owner 3', phase: 'fresh', issuedAtMs: NOW - 9, expiresAtMs: NOW + 9 } as const;
    const ended = { owner: 'owner 4', phase: 'empty', issuedAtMs: NOW - 9 } as const;
    const { lanes } = pictureOf(requests, { owners: [old, ended], untilMs: NOW + 100 });
    expect(lanes.flatMap((lane) => lane.bars)).toEqual([
      { id: 'token_x', fromMs: NOW + 10, toMs: NOW + 60_000, cut: false },
      { id: 'token_y', fromMs: NOW + 10, toMs: NOW + 500, cut: true },
      { id: 'owner 3', fromMs: NOW - 9, toMs: NOW + 9, cut: false },
    ]);
  });

  it('does not draw a token twice whose request was recorded', () => {
    const requests = [request(1, { tookMs: 10, token: 'token_x', expiresAtMs: NOW + 60_000 })];
    const same = { owner: 'owner 1', phase: 'fresh', issuedAtMs: NOW, expiresAtMs: NOW + 60_000 } as const;
    expect(pictureOf(requests, { owners: [same], untilMs: NOW + 100 }).lanes[0]?.bars.map(({ id }) => id)).toEqual([
      'token_x',
    ]);
  });

  it('has the marks of its window and its registry, and the request that is asked for', () => {
    const requests = [
      request(1, { atMs: NOW - 90_000 }),
      request(2, { owner: 'a', atMs: NOW - 2 }),
      request(3, { owner: 'a', registry: 'other', atMs: NOW - 1 }),
      request(4, { owner: 'a', atMs: NOW }),
    ];
    const { lanes, request: wanted, completeSinceMs } = pictureOf(requests, { request: 1, untilMs: NOW - 1 });
    expect(lanes.map(({ id, marks }) => [id, marks.map(([mark]) => mark)])).toEqual([['a', [2]]]);
    expect([wanted?.owner, completeSinceMs]).toEqual(['owner 1', NOW - 5]);
  });

  it('has the lanes of the owners that a search has found, with and without requests, and no others', () => {
    const requests = [request(1, { tookMs: 1, token: 'token_x' }), request(2, { tookMs: 1, code: 'owner_refused' })];
    const found = ['owner 1', 'owner 3'].map((owner) => ({ owner, phase: 'fresh' }) as const);
    const lanes = lanesOfOwners(sourcesOf(requests, [], found), { windowMs: 60_000 }, NOW);
    expect(lanes.map(({ id, marks }) => [id, marks.length])).toEqual([
      ['owner 1', 1],
      ['owner 3', 0],
    ]);
  });

  it('shades the time before the recording, and outages', () => {
    const outage: OutageView = { id: 7, registry: 'crm', scope: 'client', fromMs: NOW, toMs: NOW + 1 };
    expect(pictureOf([], { outages: [outage, { ...outage, id: 8, registry: 'other' }] }).bands).toEqual([
      { id: 0, look: 'unseen', word: 'not recorded', fromMs: 0, toMs: NOW - 5 },
      { id: 7, look: 'fault', word: 'Client refused', fromMs: NOW, toMs: NOW + 1 },
    ]);
  });

  it('orders lanes by trouble: those that fail now, also without a request, those that failed, then by name', () => {
    const [ok, failed] = [
      { tookMs: 1, token: 'token_x' },
      { tookMs: 1, code: 'owner_refused' },
    ] as const;
    const requests = [
      request(1, { owner: 'b', ...ok }),
      request(2, { owner: 'c', ...failed }),
      request(3, { owner: 'a10', ...ok }),
      request(4, { owner: 'd', ...failed }),
      request(5, { owner: 'd', ...ok }),
      request(6, { owner: 'a2', ...ok }),
    ];
    const silent = { owner: 'z', phase: 'backing-off', failure: {} } as OwnerReport;
    const withoutService = { sinceMs: 0, failedAtMs: 0, hasLapsed: true };
    const lapsed = { owner: 'y', phase: 'empty', failure: {}, withoutService } as OwnerReport;
    const { lanes } = pictureOf(requests, { owners: [silent, lapsed] });
    expect(lanes.map(({ name }) => name)).toEqual(['c', 'z', 'd', 'a2', 'a10', 'b', 'y']);
  });

  it('has 250 lanes at most: those with failures first', () => {
    const requests = Array.from({ length: 600 }, (_, id) => request(id, { tookMs: 1, token: `token_${id}` }));
    requests[599] = request(599, { tookMs: 1, code: 'owner_refused' });
    const { lanes, matching } = pictureOf(requests);
    expect([lanes.length, matching, lanes[0]?.name]).toEqual([250, 600, 'owner 599']);
  });
});

it('the view of a stream is what its address says, as far as that is possible', () => {
  const of = (query: string) => viewOf(new URLSearchParams(query));
  expect(of('')).toEqual({ windowMs: 60_000 });
  expect(of('windowMs=1&untilMs=x&request=-1e999')).toEqual({ windowMs: 1_000, request: Number.NEGATIVE_INFINITY });
  expect(of('windowMs=9e9&untilMs=5&registry=crm&request=7')).toEqual({
    windowMs: 900_000,
    untilMs: 5,
    registry: 'crm',
    request: 7,
  });
});
