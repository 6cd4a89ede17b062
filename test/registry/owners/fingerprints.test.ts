import { describe, expect, it } from 'vitest';
import { Fingerprints } from '../../../src/registry/owners/fingerprints.ts';

const KEY = new Uint8Array(16).fill(7);

it('fingerprints are the same with the same key, in every replica', () => {
  const [one, other] = [new Fingerprints(KEY), new Fingerprints(KEY)];
  expect(one.nameOf('key-1')).toBe(other.nameOf('key-1'));
  expect(one.ofToken('token-1')).toBe(other.ofToken('token-1'));
  // Written down, since operators search their logs for them across releases.
  expect([one.nameOf('key-1'), one.ofToken('token-1')]).toMatchInlineSnapshot(`
      [
        "owner_3du2JDV-zp2xTbl_",
        "token_Ngkhs2cg8yBaLXad",
      ]
    `);
});

it('fingerprints change with the key, and differ between registries that have none', () => {
  const names = [new Fingerprints(KEY), new Fingerprints(new Uint8Array(16)), new Fingerprints(), new Fingerprints()];
  expect(new Set(names.map((each) => each.nameOf('key-1'))).size).toBe(4);
});

it('fingerprints differ between owners, between tokens, and between an owner and a token of the same text', () => {
  const names = new Fingerprints(KEY);
  expect(names.nameOf('a')).not.toBe(names.nameOf('b'));
  expect(names.ofToken('a')).not.toBe(names.ofToken('b'));
  expect(names.nameOf('a').replace('owner_', '')).not.toBe(names.ofToken('a').replace('token_', ''));
});

describe('labels', () => {
  const named = (label: (accessKey: string) => string) => new Fingerprints(KEY, label).nameOf('key-1');
  const unnamed = new Fingerprints(KEY).nameOf('key-1');

  it('replace the fingerprint of an owner, not of a token', () => {
    expect(named((accessKey) => `customer ${accessKey.length}`)).toBe('customer 5');
    expect(new Fingerprints(KEY, () => 'x').ofToken('t')).toBe(new Fingerprints(KEY).ofToken('t'));
  });

  it.each([
    ['are empty', () => ''],
    ['are not strings', () => 42 as unknown as string],
    ['are undefined', () => undefined as unknown as string],
    ['contain the access key', (accessKey: string) => `customer ${accessKey}!`],
    [
      'throw',
      () => {
        throw new Error('no');
      },
    ],
  ])('that %s are ignored', (_, label) => {
    expect(named(label)).toBe(unnamed);
  });
});
