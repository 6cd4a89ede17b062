import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Lane } from '../../../../src/picture/data.ts';
import type {
  LaneView,
  LedgerEntry,
  PictureView,
  StateView,
  TokenView,
  UpdateFrame,
} from '../../../../src/sandbox/control/shapes.ts';
import {
  changed,
  combined,
  type Model,
  modelOf,
  timeOf,
  withLostConnection,
  withPicture,
} from '../../../../src/sandbox/portal/page/model.ts';
import { DEFAULT_PROFILE } from '../../../../src/sandbox/state/profile.ts';

const request = (id: number, changes: Partial<LedgerEntry> = {}): LedgerEntry => ({
  id,
  kind: 'token',
  atMs: id * 10,
  method: 'POST',
  owner: 'a',
  outcome: 'issued',
  wasted: false,
  ...changes,
});

const token = (fingerprint: string, changes: Partial<TokenView> = {}): TokenView => ({
  fingerprint,
  owner: 'a',
  app: 'app-1',
  issuedAtMs: 0,
  expiresAtMs: 1000,
  ...changes,
});

const lane = (id: string, changes: Partial<LaneView> = {}): LaneView => ({
  id,
  name: id,
  tokens: [],
  marks: [],
  ...changes,
});

const figures = { total: 0, tokenRequests: 0, wasted: 0, inFlight: 0, owners: 2, ownersAsked: 0, ownersCovered: 0 };
const clock = { nowMs: 5000, frozen: false };

const pictureOf = (lanes: LaneView[], changes: Partial<PictureView> = {}): PictureView => ({
  windowMs: 60_000,
  lanes,
  matching: lanes.length,
  seconds: [],
  bands: [],
  ...changes,
});

const start = (changes: Partial<StateView> = {}, lanes = [lane('a'), lane('b')]): Model =>
  modelOf(
    {
      url: 'http://127.0.0.1:1',
      env: '',
      clock,
      figures,
      requests: [],
      picture: pictureOf(lanes),
      faults: [],
      profile: DEFAULT_PROFILE,
      apps: [],
      ...changes,
    },
    100,
  );

const ids = (list: readonly LedgerEntry[] | undefined) => list?.map(({ id }) => id);
const marks = (lane: Lane | undefined) => lane?.marks.map(([id]) => id);

describe('the model', () => {
  it('has the lanes of the picture, in their order', () => {
    const model = start({}, [lane('b', { marks: [[1, 10, 0]] }), lane('a', { tokens: [token('t')] })]);
    expect([...model.lanes.keys()]).toEqual(['b', 'a']);
    expect(marks(model.lanes.get('b'))).toEqual([1]);
    expect(model.lanes.get('a')?.bars).toEqual([{ id: 't', fromMs: 0, toMs: 1000, cut: false }]);
  });

  it('replaces a request by its later state', () => {
    const pending = request(1, { outcome: 'pending' });
    const before = start({ requests: [pending] }, [lane('a', { marks: [[1, 10, 6]] })]);
    const model = changed(before, { clock, requests: [request(1), request(2)] }, 200);
    expect(ids(model.requests)).toEqual([1, 2]);
    expect(model.requests[0]?.outcome).toBe('issued');
    expect(model.lanes.get('a')?.marks).toEqual([
      [1, 10, 0],
      [2, 20, 0],
    ]);
  });

  it('changes only what a frame changes, and never the previous model', () => {
    const before = start();
    const model = changed(before, { clock, requests: [request(2)] }, 200);
    expect(model.lanes.get('b')).toBe(before.lanes.get('b'));
    expect(model.seconds).toBe(before.seconds);
    expect(before.lanes.get('a')?.marks).toEqual([]);
    expect(changed(before, { clock }, 300).lanes).toBe(before.lanes);
  });

  it('replaces a token that was revoked', () => {
    const before = start({}, [lane('a', { tokens: [token('t'), token('u')] })]);
    const model = changed(before, { clock, tokens: [token('t', { revokedAtMs: 400 })] }, 200);
    expect(model.lanes.get('a')?.bars.map(({ toMs, cut }) => [toMs, cut])).toEqual([
      [400, true],
      [1000, false],
    ]);
  });

  it('adds no lane for an owner that the picture left out, and one for unknown owners', () => {
    const { owner: _, ...nobody } = request(1);
    const model = changed(start(), { clock, requests: [nobody, request(2, { owner: 'z' })] }, 200);
    expect([...model.lanes.keys()]).toEqual(['a', 'b', '']);
  });

  it('draws a call to /echo once it has failed', () => {
    const call = (id: number, outcome: LedgerEntry['outcome']) => request(id, { kind: 'echo', outcome });
    let model = changed(start(), { clock, requests: [call(1, 'pending'), call(2, 'accepted'), request(3)] }, 0);
    expect(marks(model.lanes.get('a'))).toEqual([3]);
    model = changed(model, { clock, requests: [call(1, 'rejected')] }, 0);
    expect(marks(model.lanes.get('a'))).toEqual([1, 3]);
  });

  it('is the same after several frames as after all of them at once', () => {
    const frames = [
      { clock, requests: [request(1, { outcome: 'pending' })], seconds: [[0, 0, 0, 0, 0, 0, 0, 1]] as const },
      { clock, ownersChanged: true as const, tokens: [token('t')] },
      { clock: { nowMs: 6000, frozen: false }, requests: [request(1), request(2)] },
    ].map((frame): UpdateFrame => structuredClone(frame) as UpdateFrame);
    const oneByOne = frames.reduce((model, frame) => changed(model, frame, 200), start());
    expect(changed(start(), combined(frames), 200)).toEqual(oneByOne);
    expect(combined(frames).ownersChanged).toBe(true);
  });

  it('begins with the last state of several frames', () => {
    const state = { clock } as StateView;
    const frames = [
      { clock, requests: [request(1)] },
      { clock, state },
      { clock, requests: [request(2)] },
    ];
    expect(combined(frames)).toMatchObject({ state, requests: [{ id: 2 }] });
  });

  it('leaves the present as it is while a window of the past is shown, and the other way round', () => {
    const past = withPicture(start(), pictureOf([lane('c')], { requests: [request(7)] }));
    expect([[...past.lanes.keys()], [...(past.past?.lanes.keys() ?? [])]]).toEqual([['a', 'b'], ['c']]);
    const later = changed(past, { clock, requests: [request(8)] }, 200);
    expect([later.past, ids(later.requests)]).toEqual([past.past, [8]]);
    expect(withPicture(later, pictureOf([])).past).toBeUndefined();
  });

  it('has another version after a scenario that began and ended within one update', () => {
    const before = start();
    const run = { name: 'outage', verdictAtMs: 9, startedAtMs: 1 };
    const after = changed(
      before,
      combined([
        { clock, scenario: run },
        { clock, scenario: null },
      ]),
      200,
    );
    expect([after.scenario, after.ownersVersion > before.ownersVersion]).toEqual([undefined, true]);
  });

  it('keeps each request once, by number, in whatever order they come', () => {
    const frames = fc.array(fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 10 }), { maxLength: 10 });
    fc.assert(
      fc.property(frames, (all) => {
        let model = start();
        for (const numbers of all) model = changed(model, { clock, requests: numbers.map((id) => request(id)) }, 0);
        expect(ids(model.requests)).toEqual([...new Set(all.flat())].sort((a, b) => a - b));
        expect(marks(model.lanes.get('a'))).toEqual(ids(model.requests));
      }),
    );
  });

  it('forgets what succeeded before what failed or was wasted, and keeps no more than 500', () => {
    let model = start({ requests: [request(1, { outcome: 'server_error' }), request(2, { wasted: true })] });
    for (let from = 3; from < 3000; from += 400) {
      model = changed(model, { clock, requests: Array.from({ length: 400 }, (_, n) => request(from + n)) }, 0);
    }
    expect(model.requests).toHaveLength(500);
    expect(ids(model.requests)?.slice(0, 2)).toEqual([1, 2]);
  });
});

describe('time', () => {
  it('runs on with the page’s own clock between frames, unless it is frozen', () => {
    expect(timeOf(start(), 350)).toBe(5250);
    expect(timeOf(start({ clock: { nowMs: 5000, frozen: true } }), 350)).toBe(5000);
  });

  it('stands still while the connection is lost, and goes on where it would be', () => {
    const lost = withLostConnection(start(), 300);
    expect(timeOf(lost, 9000)).toBe(5200);
    expect(timeOf(withLostConnection(lost, 900), 9000)).toBe(5200);
    expect(timeOf(changed(lost, { clock: { nowMs: 9000, frozen: false } }, 400), 500)).toBe(9100);
  });
});
