import { describe, expect, it } from 'vitest';
import { basicAuthRequest, formRequest, jsonRequest } from '../../src/endpoint/request-shapes.ts';
import { checkedRequest } from '../../src/endpoint/token-request.ts';

const CREDENTIALS = { clientId: 'the id', clientSecret: 'a:b/c+d%', accessKey: 'key&=é' };

/** The fields of the body, and the headers that a shape has set. */
function sentBy(shape: ReturnType<typeof jsonRequest>) {
  const { path, headers, body } = checkedRequest(shape(CREDENTIALS));
  const isJson = headers['Content-Type'] === 'application/json';
  const fields = isJson ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body));
  return { path, fields, type: headers['Content-Type'], authorization: headers.Authorization };
}

const FIELDS = {
  ...{ grant_type: 'client_credentials', client_id: 'the id', client_secret: 'a:b/c+d%' },
  appliance_owner_scope: 'key&=é',
};

it('the shape of JSON is the documented request', () => {
  expect(sentBy(jsonRequest())).toEqual({
    ...{ path: '/auth/v1/token', type: 'application/json', authorization: undefined },
    fields: FIELDS,
  });
});

it('the shape of a form has the same parameters', () => {
  expect(sentBy(formRequest())).toEqual({
    ...{ path: '/auth/v1/token', type: 'application/x-www-form-urlencoded', authorization: undefined },
    fields: FIELDS,
  });
  expect(formRequest()(CREDENTIALS).body.toString()).toBe(
    'grant_type=client_credentials&client_id=the+id&client_secret=a%3Ab%2Fc%2Bd%25&appliance_owner_scope=key%26%3D%C3%A9',
  );
});

it('the shape of HTTP Basic has the credentials in the header alone, each form-encoded before the colon joins them', () => {
  const { fields, authorization, ...rest } = sentBy(basicAuthRequest());
  expect(rest).toEqual({ path: '/auth/v1/token', type: 'application/x-www-form-urlencoded' });
  expect(fields).toEqual({ grant_type: 'client_credentials', appliance_owner_scope: 'key&=é' });
  expect(authorization).toBe(`Basic ${Buffer.from('the+id:a%3Ab%2Fc%2Bd%25').toString('base64')}`);
});

it('the shape has the path and the parameter names that it is given', () => {
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

describe('options of a shape', () => {
  it.each<[object, RegExp]>([
    [{ path: '//evil.example' }, /path: expected a percent-encoded path/],
    [{ pth: '/x' }, /pth: unknown option; did you mean path\?/],
    [{ parameters: { accessKey: '' } }, /parameters\.accessKey: expected a non-empty string; it is empty/],
    [{ parameters: { accessKey: 7 } }, /parameters\.accessKey: expected a non-empty string/],
    [{ parameters: { acessKey: 'x' } }, /parameters\.acessKey: unknown option; did you mean accessKey\?/],
    [{ parameters: { accessKey: 'grant_type' } }, /parameters: expected a different name for each parameter/],
    [{ parameters: 'x' }, /parameters: expected an object/],
  ])('%j are refused', (options, problem) => {
    for (const shape of [jsonRequest, formRequest, basicAuthRequest]) {
      expect(() => shape(options)).toThrow(expect.objectContaining({ code: 'invalid_options' }));
      expect(() => shape(options)).toThrow(problem);
    }
  });

  it('options of a shape of HTTP Basic have no names for the parameters that it does not send', () => {
    expect(() => basicAuthRequest({ parameters: { clientId: 'id' } })).toThrow(/parameters\.clientId: unknown option/);
  });
});
