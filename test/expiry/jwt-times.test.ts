import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jwtTimes } from '../../src/expiry/jwt-times.ts';
import { jwt } from '../helpers/jwt.ts';

describe('jwtTimes', () => {
  it('reads exp and iat, or whichever is a number', () => {
    expect(jwtTimes(jwt({ iat: 1, exp: 2 }))).toEqual({ issuedAtMs: 1000, expiresAtMs: 2000 });
    expect(jwtTimes(jwt({ exp: 2 }))).toEqual({ expiresAtMs: 2000 });
    for (const claims of [{}, { iat: '1', exp: '2' }]) expect(jwtTimes(jwt(claims))).toEqual({});
  });

  it('takes any time that a Date can hold', () => {
    expect(jwtTimes(jwt({ iat: -8.64e12, exp: 8.64e12 }))).toEqual({ issuedAtMs: -8.64e15, expiresAtMs: 8.64e15 });
    expect(jwtTimes(jwt({ exp: 8.64e12 + 0.001 }))).toEqual({});
  });

  it('takes an unsecured JWT, whose third part is empty', () => {
    expect(jwtTimes(jwt({ exp: 2 }).replace(/\.[^.]*$/, '.'))).toEqual({ expiresAtMs: 2000 });
  });

  it('reads claims that begin with white space', () => {
    for (const space of [' ', '\n', '\t', '\r\n']) {
      expect(jwtTimes(jwt(0, () => `${space}{"exp":2}`))).toEqual({ expiresAtMs: 2000 });
    }
  });

  it.each([
    ['two parts', 'eyJhbGciOiJub25lIn0.e30'],
    ['a JWT with something before it', `Bearer ${jwt({ exp: 2 })}`],
    ['five parts, as an encrypted one has', 'eyJhbGciOiJub25lIn0.e30.a.b.c'],
    ['characters of plain base64', 'eyJhbGciOiJub25lIn0.e30=.c'],
    ['no JSON', jwt(0, () => 'exp')],
    ['JSON that is cut off', jwt(0, () => '{"exp":2')],
    ['claims in an array', jwt([{ exp: 2 }])],
    ['claims that are null', jwt(null)],
    ['claims that are a number', jwt(7)],
  ])('%s is no JWT', (_, token) => {
    expect(jwtTimes(token)).toBeUndefined();
  });

  it('never throws, and returns only sane times', () => {
    const payload = fc.oneof(
      fc.string(),
      fc.json(),
      fc.record({ exp: fc.jsonValue(), iat: fc.double() }).map((claims) => JSON.stringify(claims)),
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          payload.map((text) => jwt(0, () => text)),
        ),
        (token) => {
          for (const ms of Object.values(jwtTimes(token) ?? {})) expect(Math.abs(ms ?? 0)).toBeLessThanOrEqual(8.64e15);
        },
      ),
    );
  });
});
