import { expect, it } from 'vitest';
import type { LaneView, LedgerEntry, StateView, TokenView } from '../../../../src/sandbox/control/shapes.ts';
import { modelOf, secondsOf } from '../../../../src/sandbox/portal/page/model.ts';
import { DEFAULT_PROFILE } from '../../../../src/sandbox/state/world/profile.ts';

const token = (fingerprint: string, changes: Partial<TokenView> = {}): TokenView => {
  return { fingerprint, owner: 'a', issuedAtMs: 0, expiresAtMs: 1000, ...changes };
};
const lane = (id: string, changes: Partial<LaneView> = {}): LaneView => {
  return { id, name: id, tokens: [], marks: [], ...changes };
};
const modelWith = (lanes: LaneView[], picture: Partial<StateView['picture']> = {}, requests: LedgerEntry[] = []) => {
  const none = { total: 0, tokenRequests: 0, wasted: 0, inFlight: 0, owners: 2, ownersAsked: 0, ownersCovered: 0 };
  const state: StateView = {
    url: 'http://127.0.0.1:1',
    env: '',
    clock: { nowMs: 5000, frozen: false },
    figures: none,
    requests,
    picture: { windowMs: 60_000, lanes, matching: lanes.length, seconds: [], bands: [], ...picture },
    recent: [[4, 1, 0]],
    ownersVersion: 0,
    faults: [],
    profile: DEFAULT_PROFILE,
    client: { clientId: 'c', enabled: true, secrets: [] },
  };
  return modelOf(state, 100);
};

it('the model of the portal has the lanes of the picture in their order, and tokens to their end or their revocation', () => {
  const tokens = [token('t'), token('u', { revokedAtMs: 500 }), token('v', { revokedAtMs: 2000 })];
  const { lanes, clock, recent } = modelWith([lane('b', { marks: [[1, 10, 0]] }), lane('', { name: '', tokens })]);
  expect(lanes.map(({ id, name, marks }) => [id, name, marks.length])).toEqual([
    ['b', 'b', 1],
    ['', 'unknown owner', 0],
  ]);
  expect(lanes[1]?.bars.map(({ id, toMs, cut }) => [id, toMs, cut])).toEqual([
    ['t', 1000, false],
    ['u', 500, true],
    ['v', 1000, false],
  ]);
  expect([clock, recent.get(4)]).toEqual([{ nowMs: 5000, frozen: false, seenAtMs: 100 }, [4, 1, 0]]);
});

it('the model of the portal names bands, and has the requests of a window of the past', () => {
  const [last, past] = [{ id: 9 }, { id: 7 }] as LedgerEntry[] as [LedgerEntry, LedgerEntry];
  const bands = [
    { id: 1, kind: 'fault', name: 'latency', fromMs: 1 },
    { id: 2, kind: 'scenario', name: 'secret-rotated', fromMs: 1, toMs: 2 },
    { id: 3, kind: 'frozen', fromMs: 3 },
  ] as const;
  const model = modelWith([], { bands: [...bands] }, [last]);
  expect(model.bands.map(({ look, toMs }) => [look, toMs])).toEqual([
    ['fault', undefined],
    ['strip', 2],
    ['line', undefined],
  ]);
  expect(model.bands[1]?.word).toBe('Secret rotated');
  expect(model.requests).toEqual([last]);
  expect(modelWith([], { requests: [past] }, [last]).requests).toEqual([past]);
});

it('the requests of one lane are counted by second', () => {
  const marks = [[1, 10, 0] as const, [2, 20, 3] as const, [3, 1010, 0] as const];
  expect([...secondsOf({ id: 'a', name: 'a', bars: [], marks }).values()]).toEqual([
    [0, 1, 0, 0, 1, 0, 0, 0],
    [1, 1, 0, 0, 0, 0, 0, 0],
  ]);
});
