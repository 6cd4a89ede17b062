import { describe, expect, it } from 'vitest';
import type { Slot } from '../../../src/registry/owners/slot.ts';
import { recordSuccess } from '../../../src/registry/owners/slot.ts';
import { SlotCache } from '../../../src/registry/owners/slot-cache.ts';
import { AccessToken } from '../../../src/token.ts';
import { seeded } from '../../helpers/seeded.mjs';
import { createSlot, heldOf } from '../../helpers/slots.ts';

/** Fresh before second 1,600 of the timeline, or another. */
const tokenNamed = (value: string, refreshAtMs = 1_600_000) =>
  new AccessToken({
    value,
    tokenType: 'Bearer',
    fingerprint: `token_${value}`,
    issuedAtMs: 1_000_000,
    refreshAtMs,
    expiresAtMs: refreshAtMs + 350_000,
  });

class Stage {
  readonly evicted: string[] = [];
  readonly cache: SlotCache;

  constructor(max: number) {
    this.cache = new SlotCache(max, ({ accessKey }) => void this.evicted.push(accessKey));
  }

  /** Gives the owner a token, or a new one, and stores the slot. */
  store(accessKey: string, value = accessKey, refreshAtMs?: number, offsetMs = 0): Slot {
    const slot = this.cache.peek(accessKey) ?? createSlot(`owner_${accessKey}`);
    recordSuccess(slot, heldOf(tokenNamed(value, refreshAtMs), offsetMs));
    this.cache.set(slot, slot.held as AccessToken);
    return slot;
  }

  async valueOf(accessKey: string, second = 1_000): Promise<string | undefined> {
    return (await this.hit(accessKey, second))?.value;
  }

  hit(accessKey: string, second: number): Promise<AccessToken> | undefined {
    return this.cache.fresh(accessKey, second);
  }
}

describe('the cache of slots', () => {
  it('returns the token of each owner while it is certainly fresh', async () => {
    const stage = new Stage(2);
    for (const owner of ['a', 'b']) stage.store(owner);
    expect(await Promise.all(['a', 'b', 'c'].map((owner) => stage.valueOf(owner)))).toEqual(['a', 'b', undefined]);
    expect([await stage.valueOf('a', 1_599), await stage.valueOf('a', 1_600)]).toEqual(['a', undefined]);
  });

  it.each([-3e9, 4e9])('compares seconds of more than 32 bits: %d', async (second) => {
    const stage = new Stage(1);
    stage.store('a', 'a', second * 1000);
    expect([await stage.valueOf('a', second - 1), await stage.valueOf('a', second)]).toEqual(['a', undefined]);
  });

  it.each([
    [0, 1_006],
    [399, 1_006],
    [400, 1_007],
    [5_000, 1_011],
  ])(
    'with the timeline %d ms ahead, holds a token as fresh before the second of its refresh point: %d',
    async (offsetMs, second) => {
      const stage = new Stage(1);
      stage.store('a', 'a', 1_006_600, offsetMs);
      expect([await stage.valueOf('a', second - 1), await stage.valueOf('a', second)]).toEqual(['a', undefined]);
    },
  );

  it('holds a token that never expires as fresh for good', async () => {
    const stage = new Stage(1);
    stage.store('a', 'a', Number.POSITIVE_INFINITY);
    expect(await stage.valueOf('a', 2 ** 40)).toBe('a');
  });

  it('returns the same promise for every hit', () => {
    const stage = new Stage(1);
    stage.store('a');
    const token = stage.hit('a', 1_000);
    expect(token).toBeInstanceOf(Promise);
    expect(stage.hit('a', 1_001)).toBe(token);
  });

  it('evicts the least recently used owner, and reuses its index', async () => {
    const stage = new Stage(3);
    for (const owner of ['a', 'b', 'c']) stage.store(owner);
    void stage.hit('a', 1_000);
    stage.cache.use('b');
    stage.cache.peek('c');
    for (const owner of ['d', 'e', 'f', 'g']) stage.store(owner);
    expect(stage.evicted).toEqual(['c', 'a', 'b', 'd']);
    const owners = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const [gone, kept] = [
      [undefined, undefined, undefined, undefined],
      ['e', 'f', 'g'],
    ];
    expect(await Promise.all(owners.map((owner) => stage.valueOf(owner)))).toEqual([...gone, ...kept]);
    expect(owners.map((owner) => stage.cache.peek(owner)?.held?.value)).toEqual([...gone, ...kept]);
  });

  it('never mixes up owners in 5,000 random operations', async () => {
    const stage = new Stage(20);
    const values = new Map<string, string>();
    const random = seeded(1);
    const draw = (below: number) => Math.floor(random() * below);
    for (let step = 0; step < 5_000; step++) {
      const owner = `o${draw(40)}`;
      if (draw(4) === 0) stage.cache.delete(owner);
      else {
        values.set(owner, `${owner}-${step}`);
        stage.store(owner, `${owner}-${step}`);
      }
      const other = `o${draw(40)}`;
      const held = stage.cache.peek(other)?.held?.value;
      expect(await stage.valueOf(other)).toBe(held);
      if (held !== undefined) expect(held).toBe(values.get(other));
    }
    expect(stage.cache.size).toBeLessThanOrEqual(20);
  });
});
