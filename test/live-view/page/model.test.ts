import { expect, it } from 'vitest';
import type { Frame, RegistryView, Replica, RequestView } from '../../../src/live-view/frames.ts';
import { Model } from '../../../src/live-view/page/model.ts';
import { MARK_KINDS } from '../../../src/picture/data.ts';

const NOW = 1_900_000_000_000;
const REPLICA: Replica = {
  id: 'a',
  host: 'pod-1',
  pid: 7,
  startedAtMs: NOW - 60_000,
  upMs: 60_000,
  version: '1.0.0',
  node: 'v20',
};

const registryWith = (stats = {}): RegistryView => {
  const none = { hits: 0, joined: 0, requests: 0, refreshes: 0, late: 0, queueFull: 0, queueTimeouts: 0 };
  const refused = { owner: 0, client: 0, endpoint: 0 };
  return { name: 'crm', stats: { ...none, refused, ...stats } as RegistryView['stats'] };
};

const frame = (changes: Partial<Frame> = {}): Frame => {
  return { nowMs: NOW, registries: [registryWith()], requests: [], outages: [], ...changes };
};

const request = (id: number, changes: Partial<RequestView> = {}): RequestView => {
  return { id, registry: 'crm', owner: `owner ${id}`, reason: 'absent', atMs: NOW, ...changes };
};

const countsOf = (model: Model) => {
  const [, ...counts] = model.seconds('crm').get(NOW / 1000) ?? [0];
  return Object.fromEntries(MARK_KINDS.map((kind, index) => [kind, counts[index] ?? 0]).filter(([, count]) => count));
};

it.each<[string, Partial<RequestView>, string]>([
  ['in flight', {}, 'pending'],
  ['with a token', { tookMs: 5, token: 'token_x' }, 'ok'],
  ['that nobody waited for', { tookMs: 5 }, 'wasted'],
  ['that was limited', { tookMs: 5, code: 'endpoint_unavailable', status: 429 }, 'limited'],
  ['that met a failing service', { tookMs: 5, code: 'endpoint_unavailable', status: 503 }, 'error'],
  ['without an answer', { tookMs: 5, code: 'endpoint_unavailable' }, 'broken'],
  ['that was refused', { tookMs: 5, code: 'owner_refused', status: 400 }, 'refused'],
])('the model of the live view draws and counts a request %s', (_, changes, kind) => {
  const model = new Model();
  model.take(frame({ requests: [request(1)] }), 0);
  model.take(frame({ requests: [request(1, changes)] }), 0);
  expect(countsOf(model)).toEqual({ [kind]: 1 });
  const [lane] = model.picture(registryWith(), '').lanes;
  expect(lane?.marks.map(([id, , index]) => [id, MARK_KINDS[index]])).toEqual([[1, kind]]);
});

it('the model of the live view draws a token from its issue to its end, or to its rejection', () => {
  const model = new Model();
  const issued = { tookMs: 10, token: 'token_x', expiresAtMs: NOW + 60_000 };
  const requests = [request(1, issued), request(2, { ...issued, token: 'token_y', rejectedAtMs: NOW + 500 })];
  const old = { owner: 'owner 3', phase: 'fresh', issuedAtMs: NOW - 9, expiresAtMs: NOW + 9 } as const;
  const ended = { owner: 'owner 4', phase: 'empty', issuedAtMs: NOW - 9 } as const;
  model.take(frame({ requests, owners: { crm: [old, ended] } }), 0);
  const bars = model.picture(registryWith(), '').lanes.flatMap((lane) => lane.bars);
  expect(bars).toEqual([
    { id: 'token_x', fromMs: NOW + 10, toMs: NOW + 60_000, cut: false },
    { id: 'token_y', fromMs: NOW + 10, toMs: NOW + 500, cut: true },
    { id: 'owner 3', fromMs: NOW - 9, toMs: NOW + 9, cut: false },
  ]);
});

it('the model of the live view forgets requests in flight when it reconnects, because it may have missed their end', () => {
  const model = new Model();
  const done = request(2, { tookMs: 1, token: 'token_x' });
  model.take(frame({ replica: REPLICA, requests: [request(1), done, request(3)] }), 0);
  model.take(frame({ replica: REPLICA, requests: [request(3)] }), 0);
  expect([...model.requests.keys()].sort()).toEqual([2, 3]);
  expect(countsOf(model)).toEqual({ ok: 1, pending: 1 });
  expect(model.news).toBe('');
});

it('the model of the live view starts over with another process: a restart if that began after the last frame', () => {
  const model = new Model();
  model.take(frame({ replica: REPLICA, requests: [request(1, { tookMs: 1, token: 'token_x' })] }), 10_000);
  model.take(frame({ replica: { ...REPLICA, id: 'b', pid: 8, upMs: 1_999 } }), 12_000);
  expect([model.requests.size, countsOf(model), model.news]).toEqual([0, {}, 'The process has restarted.']);
  const another = (replica: Partial<Replica>, seenAtMs: number) => {
    model.take(frame({ replica: { ...REPLICA, ...replica } }), seenAtMs);
    return model.news;
  };
  // A round robin leads from one process to another, both of which run for long, and back.
  expect(another({ id: 'c', pid: 9, upMs: 2_000 }, 14_000)).toBe('Another replica answers now: pod-1, process 9.');
  expect(another({ id: 'd', host: 'pod-2', upMs: 1 }, 16_000)).toBe('Another replica answers now: pod-2, process 7.');
  expect(another({ id: 'c', pid: 9, upMs: 6_000 }, 18_000)).toBe('Another replica answers now: pod-1, process 9.');
});

it('the model of the live view takes rates from the counters of the last frames', () => {
  const model = new Model();
  model.take(frame(), 0);
  expect(model.rates('crm')).toBeUndefined();
  const refused = { owner: 2, client: 2, endpoint: 2 };
  const stats = { hits: 84, joined: 5, requests: 10, refreshes: 5, refused, queueFull: 1, queueTimeouts: 3, late: 8 };
  model.take(frame({ nowMs: NOW + 2_000, registries: [registryWith(stats)] }), 0);
  const rates = { calls: 50, requests: 5, refused: 3, timedOut: 2, late: 4, fromCache: 0.84 };
  expect(model.rates('crm')).toEqual(rates);
});

it('the model of the live view shades the time before the recording, and outages', () => {
  const model = new Model();
  expect(model.picture(registryWith(), '').bands).toEqual([]);
  const outage = { id: 7, registry: 'crm', scope: 'client', fromMs: NOW, toMs: NOW + 1 } as const;
  const outages = [outage, { ...outage, id: 8, registry: 'other' }];
  model.take(frame({ page: { recordedSinceMs: NOW - 5, accessKeys: false }, outages }), 0);
  expect(model.picture(registryWith(), '').bands).toEqual([
    { id: 0, look: 'unseen', word: 'not recorded', fromMs: 0, toMs: NOW - 5 },
    { id: 7, look: 'fault', word: 'Client refused', fromMs: NOW, toMs: NOW + 1 },
  ]);
});

it('the model of the live view orders lanes by trouble: those that fail now, those that failed, then by name', () => {
  const model = new Model();
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
  model.take(frame({ requests }), 0);
  expect(model.picture(registryWith(), '').lanes.map(({ name }) => name)).toEqual(['c', 'd', 'a2', 'a10', 'b']);
});

it('the model of the live view keeps 5,000 requests, and draws 250 lanes: those with failures first', () => {
  const model = new Model();
  const requests = Array.from({ length: 6_000 }, (_, id) => request(id, { tookMs: 1, token: `token_${id}` }));
  requests[5_999] = request(5_999, { tookMs: 1, code: 'owner_refused' });
  model.take(frame({ requests }), 0);
  expect(model.requests.size).toBe(5_000);
  const { lanes, matching } = model.picture(registryWith(), '');
  expect([lanes.length, matching, lanes[0]?.name]).toEqual([250, 5_000, 'owner 5999']);
  expect(model.picture(registryWith(), 'OWNER 599').matching).toBe(10);
});
