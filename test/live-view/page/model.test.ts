import { expect, it } from 'vitest';
import type { Frame, RegistryView, Replica, RequestView } from '../../../src/live-view/frames.ts';
import { Model } from '../../../src/live-view/page/model.ts';
import { MARK_KINDS } from '../../../src/picture/data.ts';

const NOW = 1_900_000_000_000;
const REPLICA: Replica = { id: 'a', host: 'pod-1', pid: 7, startedAtMs: NOW - 60_000, version: '1.0.0', node: 'v20' };

const registryWith = (stats = {}): RegistryView => {
  const none = { hits: 0, joined: 0, requests: 0, refreshes: 0, refused: { owner: 0, client: 0, endpoint: 0 } };
  return { name: 'crm', stats: { ...none, ...stats } as RegistryView['stats'], failing: [], rejected: [] };
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
  model.take(frame({ requests, working: { crm: [old] } }), 0);
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

it('the model of the live view starts over with another process, and says whether it has restarted', () => {
  const model = new Model();
  model.take(frame({ replica: REPLICA, requests: [request(1, { tookMs: 1, token: 'token_x' })] }), 0);
  model.take(frame({ replica: { ...REPLICA, id: 'b', pid: 8, startedAtMs: NOW } }), 0);
  expect([model.requests.size, countsOf(model), model.news]).toEqual([0, {}, 'The process has restarted.']);
  model.take(frame({ replica: { ...REPLICA, id: 'c', host: 'pod-2' } }), 0);
  expect(model.news).toBe('The connection leads to another replica now.');
});

it('the model of the live view takes rates from the counters of the last frames', () => {
  const model = new Model();
  model.take(frame(), 0);
  expect(model.rates('crm')).toBeUndefined();
  const stats = { hits: 90, joined: 5, requests: 10, refreshes: 5 };
  model.take(frame({ nowMs: NOW + 2_000, registries: [registryWith(stats)] }), 0);
  expect(model.rates('crm')).toEqual({ calls: 50, requests: 5, fromCache: 0.9 });
});

it('the model of the live view keeps 5,000 requests, and draws 250 lanes: those with failures first', () => {
  const model = new Model();
  const requests = Array.from({ length: 6_000 }, (_, id) => request(id, { tookMs: 1, token: `token_${id}` }));
  requests[5_999] = request(5_999, { tookMs: 1, code: 'owner_refused' });
  model.take(frame({ requests }), 0);
  expect(model.requests.size).toBe(5_000);
  const { lanes, matching } = model.picture(registryWith(), '');
  expect([lanes.length, matching, lanes.at(-1)?.name]).toEqual([250, 5_000, 'owner 5999']);
  expect(model.picture(registryWith(), 'OWNER 599').matching).toBe(10);
});
