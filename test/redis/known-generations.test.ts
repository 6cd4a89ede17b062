import { describe, expect, it } from 'vitest';
import { KnownGenerations } from '../../src/redis/known-generations.ts';

describe('known generations', () => {
  it('are the newest that was heard of a token; unknown ones are 0', () => {
    const known = new KnownGenerations(() => undefined);
    known.remember('token', { generation: 5 });
    known.remember('token', { generation: 7 });
    expect([known.of('token'), known.of('another')]).toEqual([7, 0]);
  });

  it("of a token requested without Redis is the server's time of its request, once that is known", () => {
    let aheadUs: number | undefined;
    const known = new KnownGenerations((ms) => (aheadUs === undefined ? undefined : ms * 1000 + aheadUs));
    known.remember('token', { requestedAtMonotonicMs: 20 });
    expect(known.of('token')).toBe(0);
    aheadUs = 1_000_000;
    expect(known.of('token')).toBe(1_020_000);
  });

  it('are bounded: the least recently used is evicted first', () => {
    const known = new KnownGenerations(() => undefined);
    known.remember('first', { generation: 1 });
    known.remember('second', { generation: 2 });
    const rememberOthers = (from: number, to: number) => {
      for (let index = from; index < to; index++) known.remember(`token-${index}`, { generation: 3 });
    };
    rememberOthers(0, 29_999);
    expect([known.of('first'), known.of('second'), known.of('token-29998')]).toEqual([0, 2, 3]);
    rememberOthers(29_999, 30_000);
    expect([known.of('second'), known.of('token-0')]).toEqual([2, 0]);
  });
});
