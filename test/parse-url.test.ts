import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { firstHop, nextHop } from '../src/calling/redirect-hops.ts';
import { OwnerTokenRegistry, TokenEndpoint } from '../src/index.ts';
import { isForeign } from '../src/live-view/access.ts';
import { receivedByFetch } from '../src/live-view/transports.ts';
import { originOf, parseUrl } from '../src/parse-url.ts';

it.each([
  ['https://a.example', 'https://a.example'],
  ['https://a.example:8443/', 'https://a.example:8443'],
  ['https://a.example/path', undefined],
  ['https://a.example/?q', undefined],
  ['https://u:p@a.example', undefined],
  ['https://*.example', undefined],
  ['ftp://a.example', undefined],
  ['a.example', undefined],
  [new URL('https://a.example'), undefined],
])('the origin of %s is %s', (text, origin) => {
  expect(originOf(text)).toBe(origin);
});

describe('where URL.canParse accepts everything, as in Node 20 once it is hot', () => {
  const INVALID = 'http://a b:c';
  beforeEach(() => void vi.spyOn(URL, 'canParse').mockReturnValue(true));
  afterEach(() => void vi.restoreAllMocks());

  it('an invalid URL is still refused', async () => {
    expect([parseUrl(INVALID), parseUrl('//[', 'http://host')]).toEqual([undefined, undefined]);
    const credentials = { clientId: 'id', clientSecret: 'secret' };
    expect(() => new TokenEndpoint({ ...credentials, baseUrl: INVALID })).toThrow(/baseUrl/);
    const source = { origin: INVALID, requestToken: async () => ({ token: 't' }) };
    await using registry = new OwnerTokenRegistry({ source });
    expect(() => registry.ownerFetch('a', { allowedOrigins: [INVALID] })).toThrow(/allowedOrigins/);
    const redirect = new Response(null, { status: 302, headers: { location: INVALID } });
    expect(() => nextHop(firstHop('https://a.example'), redirect)).toThrow('a redirect has an invalid URL');
    const request = { url: INVALID, method: 'GET', headers: new Headers({ origin: INVALID }) } as Request;
    expect(receivedByFetch(request).path).toBe('/');
    expect(isForeign(receivedByFetch(request))).toBe(true);
  });
});
