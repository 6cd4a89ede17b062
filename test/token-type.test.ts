import { describe, expect, it } from 'vitest';
import { isRegistered, schemeOf } from '../src/token-type.ts';

describe('a token type', () => {
  const read = (type: string | undefined) => [schemeOf(type), isRegistered(type)];

  it.each(['Basic', 'DPoP', 'dpop', 'Negotiate', 'OAuth', 'PrivateToken', 'SCRAM-SHA-256', 'vapid', 'HOBA'])(
    'that is a registered scheme is sent as it is: %s',
    (type) => expect(read(type)).toEqual([type, true]),
  );

  it.each([undefined, 'Bearer', 'bearer', 'BEARER', ''])('of %j is Bearer', (type) => {
    expect(read(type)).toEqual(['Bearer', true]);
  });

  it.each([
    ...['BearerToken', 'bearer token', 'Bearer ', ' Bearer', 'access_token', 'jwt-bearer', 'N_A', 'mac', 'JWT'],
    ...['urn:ietf:params:oauth:token-type:access_token', 'Bearer\r\nX-Evil: 1'],
  ])('that is no registered scheme is sent as Bearer: %j', (type) => {
    expect(read(type)).toEqual(['Bearer', false]);
  });

  it('that is a registered scheme with a blank is sent without it', () => {
    expect(read('DPoP ')).toEqual(['DPoP', false]);
  });
});
