import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Names, namingKeyFrom } from '../../src/redis/names.ts';

const codePoint = fc.integer({ min: 0, max: 0x10ffff }).map(
  (value) => String.fromCodePoint(value),
  (value) => String(value).codePointAt(0) as number,
);

/** Lone surrogates included; fast-check's own `binary` strings take a second to set up. */
const anyString = fc.string({ unit: codePoint });

const names = new Names('otr', new Uint8Array(32).fill(1));

it('names in Redis are the same in every replica with the same key, and reveal nothing of what they name', () => {
  const name = names.ofOwner('identity', 'ACCESS-KEY');
  expect(new Names('otr', new Uint8Array(32).fill(1)).ofOwner('identity', 'ACCESS-KEY')).toBe(name);
  expect(name).toMatch(/^otr:4:[\w-]{43}$/);
  expect(new Names('otr', new Uint8Array(32).fill(2)).ofOwner('identity', 'ACCESS-KEY')).not.toBe(name);
});

it('names in Redis differ by identity, by access key, and by where one ends and the other begins', () => {
  const pairs = fc.tuple(anyString, anyString);
  fc.assert(
    fc.property(pairs, pairs, ([identityA, keyA], [identityB, keyB]) => {
      const same = identityA === identityB && keyA === keyB;
      return (names.ofOwner(identityA, keyA) === names.ofOwner(identityB, keyB)) === same;
    }),
  );
  expect(names.ofOwner('a', 'bc')).not.toBe(names.ofOwner('ab', 'c'));
  expect(names.proofOf('rejected', 'name', 1)).not.toBe(names.proofOf('recovered', 'name', 1));
  expect(names.proofOf('present', 'name', 1, 23)).not.toBe(names.proofOf('present', 'name', 12, 3));
  // Both are U+FFFD in UTF-8.
  expect(names.ofOwner('a', '\ud800')).not.toBe(names.ofOwner('a', '\ud801'));
});

it('names in Redis are made with a key other than the sealing key', () => {
  const sealingKey = new Uint8Array(32).fill(7);
  expect(namingKeyFrom(sealingKey)).not.toEqual(sealingKey);
  expect(namingKeyFrom(sealingKey)).toEqual(namingKeyFrom(sealingKey));
});
