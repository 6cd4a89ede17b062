import http from 'node:http';
import https from 'node:https';
import { describe, expect, it } from 'vitest';
import { checkEndpointOptions, type TokenEndpointOptions } from '../../src/endpoint/options.ts';
import type { OwnerTokenError } from '../../src/errors/owner-token-error.ts';

const GOOD: TokenEndpointOptions = { baseUrl: 'https://service.example', clientId: 'id', clientSecret: 'secret' };

/** The code and the paths of the problems; undefined where there is none. */
function problemsOf(changes: object, from: object = GOOD): { code: string; paths: string[] } | undefined {
  try {
    checkEndpointOptions({ ...from, ...changes } as TokenEndpointOptions);
    return undefined;
  } catch (thrown) {
    const { code, message } = thrown as OwnerTokenError;
    return { code, paths: [...message.matchAll(/^ {2}- ([\w.]+):/gm)].map((match) => match[1] ?? '') };
  }
}

it.each([
  ['https://service.example', 'https://service.example/'],
  ['https://service.example/', 'https://service.example/'],
  ['HTTPS://Service.Example:8443/tenant/', 'https://service.example:8443/tenant/'],
  [new URL('https://service.example/x'), 'https://service.example/x'],
])('baseUrl takes %s', (baseUrl, expected) => {
  expect(checkEndpointOptions({ ...GOOD, baseUrl }).baseUrl.href).toBe(expected);
});

it.each([
  undefined,
  null,
  '',
  7,
  {},
  'service.example',
  '/auth',
  'ftp://service.example',
  'javascript:alert(1)',
  'https://user@service.example',
  'https://:password@service.example',
  'https://service.example/?a=b',
  'https://service.example?',
  'https://service.example/#part',
  'https://service.example#',
  'https://',
])('baseUrl refuses %s', (baseUrl) => {
  expect(problemsOf({ baseUrl })).toEqual({ code: 'invalid_options', paths: ['baseUrl'] });
});

it.each([
  'http://localhost',
  'http://LOCALHOST:8080/x',
  'http://127.0.0.1:3000',
  'http://127.255.255.254',
  'http://127.1',
  'http://0x7f000001',
  'http://[::1]:3000',
])('http without TLS is accepted for this machine: %s', (baseUrl) => {
  expect(problemsOf({ baseUrl })).toBeUndefined();
});

it.each([
  'http://service.example',
  'http://localhost.example',
  'http://127.0.0.1.example',
  'http://128.0.0.1',
  'http://0.0.0.0',
  'http://10.0.0.1',
  'http://[::2]',
  'http://[::ffff:127.0.0.1]',
  'http://localhost.',
])('http without TLS is insecure for any other: %s', (baseUrl) => {
  expect(problemsOf({ baseUrl })).toEqual({ code: 'insecure_url', paths: [] });
  expect(problemsOf({ baseUrl, allowInsecureHttp: false })?.code).toBe('insecure_url');
  expect(problemsOf({ baseUrl, allowInsecureHttp: true })).toBeUndefined();
});

it('http without TLS is listed among the other problems', () => {
  const expected = { code: 'invalid_options', paths: ['clientId', 'baseUrl'] };
  expect(problemsOf({ baseUrl: 'http://service.example', clientId: '' })).toEqual(expected);
  expect(problemsOf({ baseUrl: 'http://service.example', allowInsecureHttp: 'yes' })?.paths).toEqual([
    'allowInsecureHttp',
    'baseUrl',
  ]);
});

describe('options', () => {
  const agent = new http.Agent();

  it.each<[string, unknown[], unknown[]]>([
    ['clientId', ['id'], ['', 7, null, undefined, () => 'id']],
    ['clientSecret', ['secret', () => 'secret'], ['', 7, null, undefined, {}]],
    ['tokenRequest', [() => ({ body: '' }), undefined], ['x', {}, null]],
    ['timeoutMs', [1, 10_000, 600_000, undefined], [0, -1, 1.5, Number.NaN, 600_001, Number.POSITIVE_INFINITY, '5']],
    ['maxResponseBytes', [1, 65_536, 1_048_576, undefined], [0, -1, 1.5, Number.NaN, 1_048_577, '5']],
    ['parseResponse', [() => ({ token: 't' }), undefined], ['x', {}, null]],
    ['classifyFailure', [() => undefined, undefined], ['x', {}, null]],
    ['allowInsecureHttp', [true, false, undefined], ['yes', 1, null]],
    ['agent', [new https.Agent(), { addRequest() {} }, undefined], [agent, {}, 'x', null, true]],
    ['fetch', [fetch, undefined], ['x', {}, null]],
    ['clock', [{ now: () => 0, monotonic: () => 0 }, undefined], [{}, { now: () => 0 }, null, Date.now]],
  ])('%s has legal values, and the rest is refused by path', (name, legal, refused) => {
    for (const value of legal) expect(problemsOf({ [name]: value })).toBeUndefined();
    for (const value of refused) {
      expect(problemsOf({ [name]: value })).toEqual({ code: 'invalid_options', paths: [name] });
    }
  });

  it('agent must speak the protocol of the base URL, and is refused beside fetch', () => {
    const baseUrl = 'http://127.0.0.1';
    expect(problemsOf({ baseUrl, agent })).toBeUndefined();
    expect(problemsOf({ baseUrl, agent: new https.Agent() })?.paths).toEqual(['agent']);
    expect(problemsOf({ baseUrl, agent, fetch })?.paths).toEqual(['agent']);
    // Agents for proxies find out with each request, and are asked for it in vain before.
    class Either {
      get protocol(): string {
        return 'https:';
      }
      addRequest(): void {}
    }
    expect(problemsOf({ baseUrl, agent: new Either() })).toBeUndefined();
  });

  it.each([undefined, null, 'text', [], 7])('that are %s are refused altogether', (options) => {
    expect(() => checkEndpointOptions(options as never)).toThrow(/options: expected an object/);
  });
});
