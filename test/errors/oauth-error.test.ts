/** Which codes refuse whom: `owner-token-error.test.ts` and `classify-failure.test.ts`. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { looksLikeOauthError, shownCode } from '../../src/errors/oauth-error.ts';

const CREDENTIALS = {
  clientId: 'the-tenant',
  clientSecret: 'Correct Horse/Battery',
  'the access key': 'Fridge:Door-42',
};

it.each(['a', 'invalid_grant', 'v2_error', 'a'.repeat(64)])('an OAuth error may look like %s', (value) => {
  expect(looksLikeOauthError(value)).toBe(true);
});

it.each([
  ...['', 'a'.repeat(65), 'Invalid_grant', 'invalid-grant', 'invalid grant', 'invalid_grant ', ' invalid_grant', '_a'],
  ...['2fa', 'invalid_grant\n', 'é', 7, undefined, ['invalid_grant']],
])('an OAuth error does not look like %j', (value) => {
  expect(looksLikeOauthError(value)).toBe(false);
});

describe('a code of the service’s own', () => {
  const shown = (code: string) => shownCode(code, CREDENTIALS);

  it.each(['tenant_suspended', 'horsing_around', 'not_found'])('is shown: %s', (code) => {
    expect(shown(code)).toBe(code);
  });

  it.each([
    ...['correct_horse_battery', 'no_correcthorsebattery', 'bad_e_battery', 'thor_sebattery', 'horse', 'b'],
    ...['fridge', 'no_fridge_here', 'geDoor'.toLowerCase()],
    ...['the_tenant', 'no_thetenant_here', 'tenant'],
  ])('is not shown if it repeats part of a secret or all of the client id: %s', (code) => {
    expect(shown(code)).toBeUndefined();
  });

  it.each([
    Buffer.from('Fridge').toString('hex'),
    Buffer.from('Fridge:Door-42').toString('base64').toLowerCase().replaceAll(/\W/g, '_'),
    encodeURIComponent('Fri:42').replaceAll('%', '_').toLowerCase(),
    [...'Fri'].map((letter) => letter.charCodeAt(0)).join('_'),
  ])('is not shown with digits, which an encoded secret has: %s', (encoded) => {
    expect(looksLikeOauthError(`no_${encoded}`)).toBe(true);
    expect(shown(`no_${encoded}`)).toBeUndefined();
  });

  it('is not shown if it contains a credential of fewer than six characters, or is all of it', () => {
    const shownBeside = (key: string) => shownCode('key_abcd_unknown', { clientId: 'id', 'the access key': key });
    for (const key of ['abcd', 'AB-CD', 'd', 'd:U']) expect(shownBeside(key)).toBeUndefined();
    for (const key of ['abce', 'z']) expect(shownBeside(key)).toBe('key_abcd_unknown');
  });

  it('never has six characters of a secret in a row, whatever surrounds them and however they are written', () => {
    const lower = fc.string({ unit: fc.constantFrom(...'abcdefghij_'), maxLength: 8 });
    const secrets = fc.string({ unit: fc.constantFrom(...'abcdeABCDE-/:'), minLength: 12, maxLength: 20 });
    fc.assert(
      fc.property(lower, secrets, fc.nat(6), lower, (before, secret, from, after) => {
        const letters = secret.toLowerCase().replaceAll(/[^a-z]/g, '');
        fc.pre(letters.length >= 12);
        const code = `x${before}${letters.slice(from, from + 6)}${after}`;
        expect(shownCode(code, { clientId: 'z', 'the access key': secret })).toBeUndefined();
      }),
    );
  });
});

it.each(['invalid_client', 'access_denied', 'slow_down', undefined])(
  'a code of the standards is shown, whatever was sent: %s',
  (code) => {
    expect(shownCode(code, { ...CREDENTIALS, 'the access key': 'my_invalid_client_access_denied_slow_down' })).toBe(
      code,
    );
  },
);
