import { expect, it } from 'vitest';
import { accessKeyOf, interned } from '../../src/registry/access-key.ts';

it.each([
  ['a letter', 'k'],
  ['a space, which is a character like any other', ' '],
  ['a line break', 'a\nb'],
  ['a character outside the first plane', 'key-\u{1F511}'],
  ['the longest there can be', 'k'.repeat(16_384)],
])('an access key may be %s, and stays as it is', (_, accessKey) => {
  expect(accessKeyOf(accessKey)).toBe(accessKey);
});

it.each([
  ['absent', undefined],
  ['null', null],
  ['a number', 42],
  ['an object with a length', ['canary-7c1d']],
  ['a String object', Object('canary-7c1d')],
  ['empty', ''],
  ['too long by one', 'k'.repeat(16_385)],
  ['half a surrogate pair', 'canary-7c1d\ud83d'],
])('an access key may not be %s, and is not repeated', (_, given) => {
  const refused = expect.objectContaining({
    code: 'invalid_access_key',
    retryable: false,
    message: expect.not.stringContaining('canary'),
  });
  expect(() => accessKeyOf(given)).toThrow(refused);
});

it.each([
  '__proto__',
  'constructor',
  '0',
  '12345',
  '4294967294',
  '0123',
  '-1',
  ' ',
  'ключ-\u{1F511}',
  'k'.repeat(16_384),
])('an interned access key is the same text: %.20s', (accessKey) => {
  expect(interned(accessKey)).toBe(accessKey);
});
