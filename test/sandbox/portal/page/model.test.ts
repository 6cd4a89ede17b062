import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LaneView, LedgerEntry, PictureView, StateView, TokenView } from '../../../../src/sandbox/api-types.ts';
import {
  changed,
  countsBetween,
  liveToken,
  type Model,
  modelOf,
  ofLane,
  timeOf,
  withConnection,
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
  requests: [],
  ...changes,
});

const figures = { total: 0, tokenRequests: 0, wasted: 0, inFlight: 0, owners: 2, ownersCovered: 0 };
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
      lastEventId: 'x-1',
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

describe('the model', () => {
  it('has the lanes of the picture, in their order', () => {
    const model = start({}, [
      lane('b', { requests: [request(1, { owner: 'b' })] }),
      lane('a', { tokens: [token('t')] }),
    ]);
    expect([...model.lanes.keys()]).toEqual(['b', 'a']);
    expect(ids(model.lanes.get('b')?.requests)).toEqual([1]);
    expect(model.lanes.get('a')?.tokens).toHaveLength(1);
  });

  it('replaces a request by its later state', () => {
    const pending = request(1, { outcome: 'pending' });
    const before = start({ requests: [pending] }, [lane('a', { requests: [pending] })]);
    const model = changed(before, { clock, requests: [request(1), request(2)] }, 200);
    expect(ids(model.requests)).toEqual([1, 2]);
    expect(model.requests[0]?.outcome).toBe('issued');
    expect(model.lanes.get('a')?.requests[0]?.outcome).toBe('issued');
  });

  it('leaves untouched what a frame does not touch, and the model before it', () => {
    const before = start();
    const model = changed(before, { clock, requests: [request(2)] }, 200);
    expect(model.lanes.get('b')).toBe(before.lanes.get('b'));
    expect(model.seconds).toBe(before.seconds);
    expect(before.lanes.get('a')?.requests).toEqual([]);
    expect(changed(before, { clock }, 300).lanes).toBe(before.lanes);
  });

  it('replaces a token that was revoked', () => {
    const before = start({}, [lane('a', { tokens: [token('t'), token('u')] })]);
    const model = changed(before, { clock, tokens: [token('t', { revokedAtMs: 400 })] }, 200);
    expect(model.lanes.get('a')?.tokens.map(({ revokedAtMs }) => revokedAtMs)).toEqual([400, undefined]);
  });

  it('adds no lane for an owner that the picture left out, and one for unknown owners', () => {
    const { owner: _, ...nobody } = request(1);
    const model = changed(start(), { clock, requests: [nobody, request(2, { owner: 'z' })] }, 200);
    expect([...model.lanes.keys()]).toEqual(['a', 'b', '']);
  });

  it('counts the token requests of a span from the seconds of the server', () => {
    const before = start({ picture: pictureOf([], { seconds: [[10, 5, 0, 0, 0, 0, 0, 1]] }) });
    const model = changed(
      before,
      {
        clock,
        seconds: [
          [10, 6, 0, 0, 0, 0, 0, 0],
          [70, 1, 2, 3, 0, 0, 0, 0],
        ],
      },
      200,
    );
    expect(countsBetween(model.seconds, 0, 80_000)).toEqual([7, 2, 3, 0, 0, 0, 0]);
    expect(countsBetween(model.seconds, 60_000, 80_000)).toEqual([1, 2, 3, 0, 0, 0, 0]);
    expect(countsBetween(before.seconds, 0, 80_000)).toEqual([5, 0, 0, 0, 0, 0, 1]);
  });

  it('takes another picture whole', () => {
    const model = withPicture(start(), pictureOf([lane('c')], { matching: 900 }));
    expect([[...model.lanes.keys()], model.matching]).toEqual([['c'], 900]);
  });

  it('ends a scenario when it is told null, and not before', () => {
    const before = start({ scenario: { name: 'outage', verdictAtMs: 9, startedAtMs: 1 } });
    expect(changed(before, { clock }, 200).scenario).toBeDefined();
    expect(changed(before, { clock, scenario: null }, 200).scenario).toBeUndefined();
  });

  it('keeps requests by number, whatever comes in which order, and each once', () => {
    const frames = fc.array(fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 10 }), { maxLength: 10 });
    fc.assert(
      fc.property(frames, (all) => {
        let model = start();
        for (const numbers of all) model = changed(model, { clock, requests: numbers.map((id) => request(id)) }, 0);
        expect(ids(model.requests)).toEqual([...new Set(all.flat())].sort((a, b) => a - b));
        expect(ids(model.lanes.get('a')?.requests)).toEqual(ids(model.requests));
      }),
    );
  });

  it('forgets accepted calls before token requests, and keeps no more than a thousand', () => {
    const call = (id: number) => request(id, { kind: 'echo', outcome: 'accepted' });
    let model = start({ requests: [request(1), request(2, { kind: 'echo', outcome: 'rejected' })] });
    for (let from = 3; from < 3000; from += 500) {
      model = changed(model, { clock, requests: Array.from({ length: 500 }, (_, n) => call(from + n)) }, 0);
    }
    expect(model.requests).toHaveLength(1000);
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
    expect(timeOf(withConnection(lost), 9000)).toBe(13_900);
    expect(timeOf(changed(lost, { clock: { nowMs: 9000, frozen: false } }, 400), 500)).toBe(9100);
  });
});

it('the timeline of one lane counts its own token requests', () => {
  const requests = [request(1), request(2, { kind: 'echo', outcome: 'accepted' }), request(150, { wasted: true })];
  const model = start({}, [lane('a', { requests })]);
  expect([...ofLane(model, lane('a', { requests })).seconds.values()]).toEqual([
    [0, 1, 0, 0, 0, 0, 0, 0],
    [1, 0, 1, 0, 0, 0, 0, 0],
  ]);
});

describe('the live token', () => {
  const laneOf = (...tokens: TokenView[]) => lane('a', { tokens });

  it('is the one that is good for longest', () => {
    expect(liveToken(laneOf(token('t'), token('u', { expiresAtMs: 2000 })), 500)?.fingerprint).toBe('u');
  });

  it('is none from the millisecond on in which it ends, by time or by revocation', () => {
    expect(liveToken(laneOf(token('t')), 999)).toBeDefined();
    expect(liveToken(laneOf(token('t')), 1000)).toBeUndefined();
    expect(liveToken(laneOf(token('t', { revokedAtMs: 300 })), 300)).toBeUndefined();
  });
});
