import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LedgerEntry, StateView, TokenView } from '../../../../src/sandbox/api-types.ts';
import { changed, liveToken, type Model, modelOf, rateOf, timeOf } from '../../../../src/sandbox/portal/page/model.ts';
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

const owner = (id: string) => ({ id, name: id, enabled: true, accessKeys: [] });

const summary = (total: number) => ({ total, wasted: 0, ownersServed: 0, byOutcome: {} });
const clock = { nowMs: 5000, frozen: false };

const start = (changes: Partial<StateView> = {}): Model =>
  modelOf(
    {
      url: 'http://127.0.0.1:1',
      lastEventId: 'x-1',
      clock,
      summary: summary(0),
      requests: [],
      tokens: [],
      faults: [],
      profile: DEFAULT_PROFILE,
      apps: [],
      owners: [owner('a'), owner('b')],
      ...changes,
    },
    100,
  );

const ids = (list: readonly LedgerEntry[] | undefined) => list?.map(({ id }) => id);

describe('the model', () => {
  it('has a lane for each owner, in their order, with what it knows of them', () => {
    const model = start({ requests: [request(1), request(2, { owner: 'b' })], tokens: [token('t')] });
    expect([...model.lanes.keys()]).toEqual(['a', 'b']);
    expect(ids(model.lanes.get('a')?.requests)).toEqual([1]);
    expect(model.lanes.get('a')?.tokens).toHaveLength(1);
    expect(model.lanes.get('b')?.tokens).toEqual([]);
  });

  it('replaces a request by what became of it', () => {
    const before = start({ requests: [request(1, { outcome: 'pending' })] });
    const model = changed(before, { clock, requests: [request(1), request(2)], summary: summary(2) }, 200);
    expect(ids(model.requests)).toEqual([1, 2]);
    expect(model.requests[0]?.outcome).toBe('issued');
    expect(model.lanes.get('a')?.requests[0]?.outcome).toBe('issued');
  });

  it('leaves untouched what a frame does not touch, and the model before it', () => {
    const before = start({ requests: [request(1, { owner: 'b' })] });
    const model = changed(before, { clock, requests: [request(2)] }, 200);
    expect(model.lanes.get('b')).toBe(before.lanes.get('b'));
    expect(model.owners).toBe(before.owners);
    expect(before.lanes.get('a')?.requests).toEqual([]);
    expect(changed(before, { clock }, 300).lanes).toBe(before.lanes);
  });

  it('replaces a token that was revoked', () => {
    const before = start({ tokens: [token('t'), token('u')] });
    const model = changed(before, { clock, tokens: [token('t', { revokedAtMs: 400 })] }, 200);
    expect(model.lanes.get('a')?.tokens.map(({ revokedAtMs }) => revokedAtMs)).toEqual([400, undefined]);
  });

  it('takes owners as they are told: new ones come, others go, and those who stay keep what is known', () => {
    const before = start({ requests: [request(1)] });
    const model = changed(before, { clock, owners: [owner('c'), owner('a')] }, 200);
    expect([...model.lanes.keys()]).toEqual(['c', 'a']);
    expect(model.lanes.get('a')).toBe(before.lanes.get('a'));
  });

  it('has a lane at the end for requests that name no known owner, once there are any', () => {
    const { owner: _, ...nobody } = request(1);
    const model = changed(start(), { clock, requests: [nobody] }, 200);
    expect([...model.lanes.keys()]).toEqual(['a', 'b', '']);
    expect([...changed(model, { clock, owners: [owner('a')] }, 300).lanes.keys()]).toEqual(['a', '']);
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
    expect(ids(model.lanes.get('a')?.requests)?.slice(0, 2)).toEqual([1, 2]);
  });
});

describe('time', () => {
  it('runs on with the page’s own clock between frames, unless it is frozen', () => {
    expect(timeOf(start(), 350)).toBe(5250);
    expect(timeOf(start({ clock: { nowMs: 5000, frozen: true } }), 350)).toBe(5000);
  });
});

describe('the live token', () => {
  const lane = (...tokens: TokenView[]) => ({ id: 'a', tokens, requests: [] });

  it('is the one that is good for longest', () => {
    expect(liveToken(lane(token('t'), token('u', { expiresAtMs: 2000 })), 500)?.fingerprint).toBe('u');
  });

  it('is none from the millisecond on in which it ends, by time or by revocation', () => {
    expect(liveToken(lane(token('t')), 999)).toBeDefined();
    expect(liveToken(lane(token('t')), 1000)).toBeUndefined();
    expect(liveToken(lane(token('t', { revokedAtMs: 300 })), 300)).toBeUndefined();
  });
});

describe('the rate', () => {
  const samplesOf = (...totals: [atMs: number, total: number][]) => {
    let model = start();
    for (const [atMs, total] of totals) model = changed(model, { clock, summary: summary(total) }, atMs);
    return model.samples;
  };

  it('is that of the last ten seconds', () => {
    const samples = samplesOf([2000, 1000], [15_000, 1050], [20_000, 1100]);
    expect(rateOf(samples, 20_000)).toBe(10);
    expect(rateOf(samples, 40_000)).toBe(0);
  });

  it('is that of as long as the page has looked on, where that is shorter', () => {
    expect(rateOf(samplesOf([5100, 50]), 5100)).toBe(10);
  });

  it('is not negative when the ledger was cleared', () => {
    expect(rateOf(samplesOf([5000, 50], [6000, 0]), 6000)).toBe(0);
  });

  it('keeps no more samples than it needs', () => {
    const many = Array.from({ length: 500 }, (_, n): [number, number] => [n * 100, n]);
    expect(samplesOf(...many).length).toBeLessThanOrEqual(103);
  });
});
