import { describe, expect, it } from 'vitest';
import { formEncoded, isPartOfSent, repeatsSent } from '../../src/endpoint/echoes.ts';

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
  ])('a text repeats what was sent if it holds it %s', (_how, echo) => {
    expect(repeatsSent(`you sent ${echo}, which is wrong`, ['id', SECRET])).toBe(true);
  });

  it('a text repeats a short value only if that is one of its words', () => {
    expect(repeatsSent('no owner 4711', ['4711'])).toBe(true);
    expect(repeatsSent('(K-7)', ['7'])).toBe(true);
    expect(repeatsSent('error 47110', ['4711'])).toBe(false);
    expect(repeatsSent('invalid', ['id', 'a'])).toBe(false);
  });

  it('a text that has only ordinary words in common with what was sent does not repeat it', () => {
    expect(repeatsSent('the client secret is wrong', [SECRET, 'my-client', 'secrets'])).toBe(false);
    expect(repeatsSent('anything', [])).toBe(false);
  });
});

it('a text is part of what was sent in clear or encoded, however short', () => {
  expect(isPartOfSent('KEY', [SECRET])).toBe(true);
  expect(isPartOfSent('%3d%22', [SECRET])).toBe(true);
  expect(isPartOfSent('owner', [SECRET])).toBe(false);
});

it.each([
  ['a b', 'a+b'],
  ['a:b/c?d=e&f+g%h', 'a%3Ab%2Fc%3Fd%3De%26f%2Bg%25h'],
  ['*-._~', '*-._%7E'],
  ['é€', '%C3%A9%E2%82%AC'],
])('%j is form-encoded as %j', (value, expected) => {
  expect(formEncoded(value)).toBe(expected);
});
