import { describe, expect, it, vi } from 'vitest';
import { formEncoded, SentValues } from '../../src/endpoint/echoes.ts';
import { seeded } from '../helpers/seeded.mjs';

const repeatsSent = (text: string, sent: string[]) => new SentValues(sent).areRepeatedIn(text);
const isPartOfSent = (text: string, sent: string[]) => new SentValues(sent).contain(text);

const SECRET = 'Sécret & key/+="7c51"';

describe('a text repeats what was sent', () => {
  it.each([
    ['in clear', SECRET],
    ['in capitals', SECRET.toUpperCase()],
    ['as JSON', JSON.stringify(SECRET)],
    ['percent-encoded', encodeURIComponent(SECRET)],
    ['in a form', new URLSearchParams({ a: SECRET }).toString()],
    ['in HTML', SECRET.replaceAll('&', '&amp;').replaceAll('"', '&quot;')],
    ['in HTML by numbers', SECRET.replaceAll('&', '&#38;').replaceAll('"', '&#34;')],
    ['in Base64', Buffer.from(SECRET).toString('base64')],
    ['in Base64 for URLs', Buffer.from(SECRET).toString('base64url')],
    ['in hex', Buffer.from(SECRET).toString('hex').toUpperCase()],
    ['in part', SECRET.slice(3, 11)],
    ['in part, by its last eight characters', SECRET.slice(-8)],
    ['in part of its Base64', Buffer.from(SECRET).toString('base64').slice(5, 14)],
  ])('if it holds it %s', (_how, echo) => {
    expect(repeatsSent(`you sent ${echo}, which is wrong`, ['id', SECRET])).toBe(true);
  });

  it('if a short value is one of its words, not a part of one', () => {
    expect(repeatsSent('no owner 4711', ['4711'])).toBe(true);
    expect(repeatsSent('(K-7)', ['7'])).toBe(true);
    expect(repeatsSent('no owner (K-7).', ['K-7'])).toBe(true);
    expect(repeatsSent('no owner K-71', ['K-7'])).toBe(false);
    expect(repeatsSent('error 47110', ['4711'])).toBe(false);
    expect(repeatsSent('error 500', ['0'])).toBe(false);
    expect(repeatsSent('invalid', ['id', 'a'])).toBe(false);
  });

  it('but not if they have only ordinary words in common', () => {
    expect(repeatsSent('the client secret is wrong', [SECRET, 'my-client', 'secrets'])).toBe(false);
    expect(repeatsSent('anything', [])).toBe(false);
  });
});

describe('a text hides what was sent', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const doubled = (text: string) => encodeURIComponent(encodeURIComponent(text));
  it.each([
    ['in the Base64 of something longer', base64(`a:b:${SECRET}:c`)],
    ['in the Base64 of its Base64', base64(base64(SECRET))],
    ['in the hex of something longer', Buffer.from(`xy${SECRET}`).toString('hex')],
    ['percent-encoded twice', doubled(SECRET)],
    ['in Unicode escapes', [...SECRET].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')],
    ['in byte escapes', [...'7c51+="7c51'].map((c) => `\\x${c.charCodeAt(0).toString(16)}`).join('')],
    ['in HTML by decimal numbers', [...SECRET].map((c) => `&#${c.codePointAt(0)};`).join('')],
    ['in HTML by hexadecimal numbers', [...SECRET].map((c) => `&#x${c.codePointAt(0)?.toString(16)};`).join('')],
  ])('if it holds it %s', (_how, echo) => {
    const sent = new SentValues(['id', SECRET, '7c51+="7c51']);
    expect(sent.areHiddenIn(`you sent ${echo}, which is wrong`)).toBe(true);
  });

  it('but not if it is ordinary, and a short value is not looked for in what it decodes to', () => {
    const text =
      'AADSTS7000215: Invalid client secret provided. Trace ID: 6f1c7b0e-aa01-4f0c-8b41-1c6a6d7f2a00 100% &#33;';
    expect(new SentValues(['id', SECRET]).areHiddenIn(text)).toBe(false);
    expect(new SentValues(['a']).areHiddenIn(base64('x a x'))).toBe(false);
  });
});

it('a text is part of what was sent in clear or encoded, however short', () => {
  expect(isPartOfSent('KEY', [SECRET])).toBe(true);
  expect(isPartOfSent('%3d%22', [SECRET])).toBe(true);
  expect(isPartOfSent('owner', [SECRET])).toBe(false);
});

const random = seeded(7);
const letters = (length: number) =>
  Array.from({ length }, () => 'abcdefghijklmnopqrstuvwxyz'[Math.floor(random() * 26)]).join('');

it('a text repeats what was sent if it holds any eight characters of it, wherever they are', () => {
  for (const length of [9, 36, 300]) {
    const key = letters(length);
    for (let at = 0; at + 8 <= length; at++) {
      expect(repeatsSent(`${letters(20)} ${key.slice(at, at + 8)}${letters(20)}`, ['id', key])).toBe(true);
      expect(repeatsSent(`${key.slice(at, at + 7)} ${key.slice(at + 7)}`.slice(0, 8), ['id', key])).toBe(false);
    }
  }
});

it('a text is compared with what was sent in time in proportion to both lengths, not to their product', () => {
  let read = 0;
  const { includes, charCodeAt } = String.prototype;
  vi.spyOn(String.prototype, 'includes').mockImplementation(function (this: string, ...args) {
    read += this.length;
    return includes.apply(this, args);
  });
  vi.spyOn(String.prototype, 'charCodeAt').mockImplementation(function (this: string, ...args) {
    read++;
    return charCodeAt.apply(this, args);
  });
  const alphabet = 'abcdefghijklmnopqrstuvwxyz';
  const costs = [alphabet, 'z', 'aaaaaaab'].flatMap((text) =>
    [letters(700), 'b'.repeat(700), '&'.repeat(700)].map((key) => {
      read = 0;
      repeatsSent(text.repeat(600).slice(0, 600), [key]);
      return read;
    }),
  );
  vi.restoreAllMocks();
  // Two readings of each of nine forms, of which some are five times as long as the value.
  expect(Math.max(...costs)).toBeLessThan(100_000);
  expect(Math.min(...costs)).toBeGreaterThan(2_000);
});

it('every text counts as an echo of values that are too long or too many to be compared', () => {
  for (const fits of [['b'.repeat(768)], Array.from({ length: 64 }, (_, at) => `value ${at}`)]) {
    expect([repeatsSent('wrong', fits), isPartOfSent('wrong', fits)]).toEqual([false, false]);
    const exceeds = [...fits, 'b'];
    expect([repeatsSent('wrong', exceeds), isPartOfSent('wrong', exceeds)]).toEqual([true, true]);
  }
  // In bytes, because some encodings have several characters for each.
  expect(repeatsSent('wrong', ['€'.repeat(300)])).toBe(true);
});

it.each([
  ['a b', 'a+b'],
  ['a:b/c?d=e&f+g%h', 'a%3Ab%2Fc%3Fd%3De%26f%2Bg%25h'],
  ['*-._~', '*-._%7E'],
  ['é€', '%C3%A9%E2%82%AC'],
])('%j is form-encoded as %j', (value, expected) => {
  expect(formEncoded(value)).toBe(expected);
});
