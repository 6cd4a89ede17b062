import { describe, expect, it } from 'vitest';
import { Fingerprints } from '../../src/registry/fingerprints.ts';

const KEY = new Uint8Array(16).fill(7);

describe('fingerprints', () => {
  it('are the same with the same key, in every replica', () => {
    const [one, other] = [new Fingerprints(KEY), new Fingerprints(KEY)];
    expect(one.ofOwner('key-1')).toBe(other.ofOwner('key-1'));
    expect(one.ofToken('token-1')).toBe(other.ofToken('token-1'));
    // Written down, since operators search their logs for them across releases.
    expect([one.ofOwner('key-1'), one.ofToken('token-1')]).toMatchInlineSnapshot(`
      [
        "owner_3du2JDV-zp2xTbl_",
        "token_Ngkhs2cg8yBaLXad",
      ]
    `);
  });

  it('are others with another key, and with none', () => {
    const names = [new Fingerprints(KEY), new Fingerprints(new Uint8Array(16)), new Fingerprints(), new Fingerprints()];
    expect(new Set(names.map((each) => each.ofOwner('key-1'))).size).toBe(4);
  });

  it('tell owner from owner and token from token, and never give one string one name in both roles', () => {
    const names = new Fingerprints(KEY);
    expect(names.ofOwner('a')).not.toBe(names.ofOwner('b'));
    expect(names.ofToken('a')).not.toBe(names.ofToken('b'));
    expect(names.ofOwner('a').replace('owner_', '')).not.toBe(names.ofToken('a').replace('token_', ''));
  });

  it('say what they name, in 96 bits', () => {
    const names = new Fingerprints(KEY);
    expect(names.ofOwner('a')).toMatch(/^owner_[\w-]{16}$/);
    expect(names.ofToken('a')).toMatch(/^token_[\w-]{16}$/);
  });
});

describe('labels', () => {
  const named = (label: (accessKey: string) => string) => new Fingerprints(KEY, label).ofOwner('key-1');
  const unnamed = new Fingerprints(KEY).ofOwner('key-1');

  it('take the place of an owner’s fingerprint, not of a token’s', () => {
    expect(named((accessKey) => `customer ${accessKey.length}`)).toBe('customer 5');
    expect(new Fingerprints(KEY, () => 'x').ofToken('t')).toBe(new Fingerprints(KEY).ofToken('t'));
  });

  it.each([
    ['are empty', () => ''],
    ['are no strings', () => 42 as unknown as string],
    ['are undefined', () => undefined as unknown as string],
    ['have the key in them', (accessKey: string) => `customer ${accessKey}!`],
    [
      'cannot be had',
      () => {
        throw new Error('no');
      },
    ],
  ])('that %s are none', (_, label) => {
    expect(named(label)).toBe(unnamed);
  });
});
