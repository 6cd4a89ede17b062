import { describe, expect, it } from 'vitest';
import {
  basicAuthRequest,
  checkedRequest,
  formRequest,
  isPath,
  jsonRequest,
  type TokenRequestCredentials,
  type TokenRequestParts,
  type TokenRequestShape,
} from '../../src/endpoint/token-request.ts';

const CREDENTIALS = { clientId: 'the id', clientSecret: 'a:b/c+d%', accessKey: 'key&=é' };

/** The fields of the body, and the headers that a shape has set. */
function sentBy(shape: TokenRequestShape) {
  const { path, headers, body } = checkedRequest(shape(CREDENTIALS));
  const isJson = headers['Content-Type'] === 'application/json';
  const fields = isJson ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body));
  return { path, fields, type: headers['Content-Type'], authorization: headers.Authorization };
}

const FIELDS = {
  grant_type: 'client_credentials',
  client_id: 'the id',
  client_secret: 'a:b/c+d%',
  appliance_owner_scope: 'key&=é',
};

it('the JSON shape is the documented request', () => {
  expect(sentBy(jsonRequest())).toEqual({
    path: '/auth/v1/token',
    type: 'application/json',
    authorization: undefined,
    fields: FIELDS,
  });
});

it('the form shape has the same parameters', () => {
  expect(sentBy(formRequest())).toEqual({
    path: '/auth/v1/token',
    type: 'application/x-www-form-urlencoded',
    authorization: undefined,
    fields: FIELDS,
  });
  expect(formRequest()(CREDENTIALS).body.toString()).toBe(
    'grant_type=client_credentials&client_id=the+id&client_secret=a%3Ab%2Fc%2Bd%25&appliance_owner_scope=key%26%3D%C3%A9',
  );
});

it('the HTTP Basic shape has the credentials only in the header, each form-encoded before the colon joins them', () => {
  const { fields, authorization, ...rest } = sentBy(basicAuthRequest());
  expect(rest).toEqual({ path: '/auth/v1/token', type: 'application/x-www-form-urlencoded' });
  expect(fields).toEqual({ grant_type: 'client_credentials', appliance_owner_scope: 'key&=é' });
  expect(authorization).toBe(`Basic ${Buffer.from('the+id:a%3Ab%2Fc%2Bd%25').toString('base64')}`);
});

it('a shape uses the path and the parameter names that it is given', () => {
  const parameters = { grantType: 'g', clientId: 'i', clientSecret: 's', accessKey: '__proto__' };
  for (const shape of [jsonRequest, formRequest]) {
    const { path, fields } = sentBy(shape({ path: '/oauth/token?v=2', parameters }));
    expect(path).toBe('/oauth/token?v=2');
    expect(Object.entries(fields)).toEqual([
      ...[
        ['g', 'client_credentials'],
        ['i', 'the id'],
        ['s', 'a:b/c+d%'],
      ],
      ['__proto__', 'key&=é'],
    ]);
  }
  const { fields } = sentBy(basicAuthRequest({ parameters: { accessKey: 'tenant' } }));
  expect(fields).toEqual({ grant_type: 'client_credentials', tenant: 'key&=é' });
});

it('a shape sends further parameters with their fixed values after its own', () => {
  const extra = { audience: 'https://api.example.com', scope: '', toString: 'é' };
  for (const shape of [jsonRequest, formRequest, basicAuthRequest]) {
    const { fields } = sentBy(shape({ extra }));
    expect(Object.entries(fields).slice(-3)).toEqual(Object.entries(extra));
    expect(fields).toMatchObject({ grant_type: 'client_credentials', appliance_owner_scope: 'key&=é' });
  }
  expect(sentBy(basicAuthRequest({ extra: { client_id: 'the id' } })).fields).toMatchObject({ client_id: 'the id' });
});

it('a shape may leave the access key out, and have a further parameter of that name', () => {
  const parameters = { accessKey: false } as const;
  const { appliance_owner_scope: _, ...others } = FIELDS;
  expect(sentBy(jsonRequest({ parameters })).fields).toEqual(others);
  expect(sentBy(formRequest({ parameters })).fields).toEqual(others);
  expect(sentBy(basicAuthRequest({ parameters })).fields).toEqual({ grant_type: 'client_credentials' });
  for (const shape of [jsonRequest, formRequest, basicAuthRequest]) {
    const { fields } = sentBy(shape({ parameters, extra: { appliance_owner_scope: 'all' } }));
    expect(fields).toMatchObject({ grant_type: 'client_credentials', appliance_owner_scope: 'all' });
  }
});

it('further parameters are read once, when the shape is made', () => {
  const extra: Record<string, string> = { audience: 'a' };
  const shape = formRequest({ extra });
  extra.audience = 'b';
  extra.grant_type = 'password';
  expect(sentBy(shape).fields).toEqual({ ...FIELDS, audience: 'a' });
});

it('a ready-made shape can be extended without a cast', () => {
  const form = formRequest();
  const signed = (credentials: TokenRequestCredentials) => {
    const parts = form(credentials);
    parts.body.append('nonce', '7');
    return { ...parts, headers: { ...parts.headers, 'X-Nonce': '7' } };
  };
  expect(sentBy(signed).fields).toEqual({ ...FIELDS, nonce: '7' });
  const body = JSON.parse(jsonRequest()(CREDENTIALS).body);
  expect(body).toEqual(FIELDS);
});

describe('options of a shape', () => {
  it.each<[object, RegExp]>([
    [null as never, /options: expected an object/],
    [{ path: '//evil.example' }, /path: expected a percent-encoded path/],
    [{ pth: '/x' }, /pth: unknown option; expected one of path, parameters, extra/],
    [{ parameters: { accessKey: '' } }, /parameters\.accessKey: expected a non-empty string, or false; it is empty/],
    [{ parameters: { accessKey: 7 } }, /parameters\.accessKey: expected a non-empty string/],
    [{ parameters: { accessKey: true } }, /parameters\.accessKey: expected a non-empty string, or false/],
    [{ parameters: { grantType: false } }, /parameters\.grantType: expected a non-empty string$/],
    [{ parameters: { acessKey: 'x' } }, /parameters\.acessKey: unknown option; expected one of .*accessKey/],
    [{ parameters: { accessKey: 'grant_type' } }, /parameters: expected a different name for each parameter/],
    [{ parameters: 'x' }, /parameters: expected an object/],
    [{ extra: { grant_type: 'password' } }, /extra: expected no name that the shape sends itself/],
    [{ extra: { appliance_owner_scope: 'x' } }, /extra: expected no name that the shape sends itself/],
    [{ extra: { client_secret: 'x' } }, /extra: expected no name that the shape sends itself/],
    [{ extra: { tenant: 'x' }, parameters: { accessKey: 'tenant' } }, /extra: expected no name/],
    [{ extra: { '': 'x' } }, /extra: expected an object with a string for each name/],
    [{ extra: { audience: 7 } }, /extra: expected an object with a string for each name/],
    [{ extra: ['audience'] }, /extra: expected an object with a string for each name/],
    [{ extra: null }, /extra: expected an object with a string for each name/],
  ])('are refused: %j', (options, problem) => {
    for (const shape of [jsonRequest, formRequest, basicAuthRequest]) {
      expect(() => shape(options)).toThrow(expect.objectContaining({ code: 'invalid_options' }));
      expect(() => shape(options)).toThrow(problem);
      expect(() => shape(options)).not.toThrow(/\n.*\n/);
    }
  });

  it('may not name parameters that the HTTP Basic shape does not send', () => {
    expect(() => basicAuthRequest({ parameters: { clientId: 'id' } })).toThrow(/parameters\.clientId: unknown option/);
  });
});

/** What is wrong with a request; undefined if nothing is. */
function problemOf(returned: unknown): string | undefined {
  try {
    checkedRequest(returned);
    return undefined;
  } catch (thrown) {
    return (thrown as Error).message;
  }
}

it.each(['/', '/token', '/auth/v1/token', '/a/', '/a//b', '/a%2Fb/%C3%A9', '/t;v=1?api-version=2&x=%20', '/~x/:y@z'])(
  'a path may be %s',
  (path) => expect(isPath(path)).toBe(true),
);

it.each([
  ...['', 'token', '//evil.example', '///evil.example', '/\\evil.example', '\\\\evil.example', '\\evil'],
  ...['https://evil.example', 'https:/evil', '@evil.example', ':8443/x', '.evil.example/', '?a=b', '#x'],
  ...['/..', '/../x', '/a/../../x', '/./x', '/%2e%2e/x', '/.%2E/x', '/a/..?x', '/a\\..\\b'],
  ...['/a\r\nHost: evil', '/a\nb', '/a\tb', '/a b', '/a#b', '/é', '/a\u0000', ' /a', '/a ', '/\ud800'],
  ...[undefined, null, 7, ['/a'], new URL('https://evil.example/a')],
])('a path may not be %j', (path) => expect(isPath(path)).toBe(false));

it('a request is complete with a body alone: the documented path, and headers that fit the body', () => {
  const common = { Accept: 'application/json', 'User-Agent': 'owner-token-registry' };
  expect(checkedRequest({ body: '{}' })).toEqual({
    path: '/auth/v1/token',
    headers: { ...common, 'Content-Type': 'application/json' },
    body: '{}',
  });
  expect(checkedRequest({ body: new URLSearchParams({ a: 'b c' }) })).toEqual({
    path: '/auth/v1/token',
    headers: { ...common, 'Content-Type': 'application/x-www-form-urlencoded' },
    body: 'a=b+c',
  });
});

it('a request has its own headers beside the usual ones, which it may replace in any case', () => {
  const headers = { accept: 'text/plain', 'CONTENT-TYPE': 'text/csv', 'X-Own': 'é\t!' };
  expect(checkedRequest({ headers, body: '' }).headers).toEqual({ 'User-Agent': 'owner-token-registry', ...headers });
});

it.each<[unknown, string]>([
  [undefined, 'expected an object with path, headers and body'],
  ['text', 'expected an object with path, headers and body'],
  [Promise.resolve({ body: '' }), 'expected an object with path, headers and body'],
  [{ body: '', url: 'https://evil.example' }, 'expected no properties other than path, headers and body'],
  [{ body: '', method: 'GET' }, 'expected no properties other than path, headers and body'],
  [{}, 'body: expected a string or URLSearchParams'],
  [{ body: { a: 1 } }, 'body: expected a string or URLSearchParams'],
  [{ body: null }, 'body: expected a string or URLSearchParams'],
  [{ body: '', path: '//evil.example' }, 'path: expected a percent-encoded path'],
  [{ body: '', headers: [['a', 'b']] }, 'headers: expected an object'],
  [{ body: '', headers: new Headers() }, 'headers: expected an object'],
  [{ body: '', headers: 7 }, 'headers: expected an object'],
  [{ body: '', headers: { 'a b': 'c' } }, 'headers: expected header names'],
  [{ body: '', headers: { 'a\r\nb': 'c' } }, 'headers: expected header names'],
  [{ body: '', headers: { '': 'c' } }, 'headers: expected header names'],
  [{ body: '', headers: { a: 'b\r\nHost: evil' } }, 'headers: expected strings of characters'],
  [{ body: '', headers: { a: '€' } }, 'headers: expected strings of characters'],
  [{ body: '', headers: { a: undefined } }, 'headers: expected strings of characters'],
  [{ body: '', headers: { HOST: 'evil' } }, 'headers: expected no host header'],
  [{ body: '', headers: { 'Content-Length': '0' } }, 'headers: expected no content-length header'],
  [{ body: '', headers: { 'transfer-encoding': 'chunked' } }, 'headers: expected no transfer-encoding header'],
])('a request cannot be %j', (returned, problem) => {
  expect(problemOf(returned)).toContain(problem);
});

it('a request that cannot be sent is described without its values', () => {
  const canary = 'canary-7f3a';
  const wrong: unknown[] = [
    { path: `//${canary}`, body: '' },
    { body: { canary } },
    { body: '', headers: { a: `${canary}\n` } },
    { body: '', headers: { [`${canary} x`]: '' } },
    { body: '', [canary]: '' },
  ];
  for (const each of wrong) {
    expect(problemOf(each)).toBeDefined();
    expect(problemOf(each)).not.toContain('canary');
  }
});

it('a request is read once', () => {
  let reads = 0;
  const changing: TokenRequestParts = {
    body: '',
    get path() {
      return reads++ === 0 ? '/token' : '//evil.example';
    },
  };
  expect(checkedRequest(changing).path).toBe('/token');
  expect(reads).toBe(1);
});
