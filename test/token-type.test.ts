import { describe, expect, it } from 'vitest';
import { schemeOf, unregisteredType } from '../src/token-type.ts';

describe('a token type', () => {
  const nameOf = (tokenType: string, token = 'eyJhbGciOi', accessKey = 'key') =>
    unregisteredType({ token, tokenType }, accessKey);

  it.each(['Basic', 'DPoP', 'dpop', 'Negotiate', 'OAuth', 'PrivateToken', 'SCRAM-SHA-256', 'vapid', 'HOBA'])(
    'that is a registered scheme is sent as it is: %s',
    (type) => {
      expect([schemeOf(type), nameOf(type)]).toEqual([type, undefined]);
    },
  );

  it.each([undefined, 'Bearer', 'bearer', 'BEARER', ''])('of %j is Bearer', (type) => {
    expect([schemeOf(type), type !== undefined && nameOf(type)]).toEqual(['Bearer', type !== undefined && undefined]);
  });

  it.each([
    'BearerToken',
    'bearer token',
    'Bearer ',
    ' Bearer',
    'access_token',
    'jwt-bearer',
    'urn:ietf:params:oauth:token-type:access_token',
    'N_A',
    'mac',
    'JWT',
  ])('that is no registered scheme is sent as Bearer, and named: %j', (type) => {
    expect([schemeOf(type), nameOf(type)]).toEqual(['Bearer', type]);
  });

  it('that is a registered scheme with a blank is sent without it, and named', () => {
    expect([schemeOf('DPoP '), nameOf('DPoP ')]).toEqual(['DPoP', 'DPoP ']);
  });

  it.each([
    ['a line break', 'Bearer\r\nX-Evil: 1'],
    ['digits, as a secret has', 's3cr3t'],
    ['a long word', 'x'.repeat(21)],
    ['the token', 'the opaque token', 'opaque'],
    ['part of the token', 'abc', 'xabcx'],
    ['the access key', 'planted words', 'token', 'planted words'],
  ])('with %s is sent as Bearer, and not named', (_what, type, token?: string, accessKey?: string) => {
    expect([schemeOf(type), nameOf(type, token, accessKey)]).toEqual(['Bearer', 'unprintable']);
  });
});
