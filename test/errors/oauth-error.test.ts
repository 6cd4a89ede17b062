/** The codes: `owner-token-error.test.ts` and `classify-failure.test.ts`. */

import { expect, it } from 'vitest';
import { plainDescription } from '../../src/errors/oauth-error.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';

const UUID = '6f1c7b0e-aa01-4f0c-8b41-1c6a6d7f2a00';

it.each<[unknown, string | undefined]>([
  ['The client secret has expired.', 'The client secret has expired.'],
  [' two\r\nlines\u001b[31m\u200b ', 'two lines [31m'],
  [`AADSTS7000222: expired. Trace ID: ${UUID}. See`, `AADSTS7000222: expired. Trace ID: ${UUID}. See`],
  [
    'no appliance_owner_scope_parameter_given, InvalidClientCredentialsException',
    'no appliance_owner_scope_parameter_given, InvalidClientCredentialsException',
  ],
  [`token eyJhbGciOiJub25lIn0.eyJleHAiOjF9.c2ln is bad`, 'token [removed] is bad'],
  [`hash ${'ab12'.repeat(6)}!`, 'hash [removed]!'],
  [`hash ${'ab1'.repeat(7)}ab!`, `hash ${'ab1'.repeat(7)}ab!`],
  ['a'.repeat(301), 'a'.repeat(300)],
  ['<html><body>no</body></html>', undefined],
  ['it was <b>refused</b>', undefined],
  ['expected < 5 and > 3', 'expected < 5 and > 3'],
  [' \n', undefined],
  [7, undefined],
  [undefined, undefined],
  [{ text: 'no' }, undefined],
])('the description %j is %j as plain text', (given, expected) => {
  expect(plainDescription(given)).toBe(expected);
});

it('an error keeps a description as plain text, also when restated, and has none if none was given', () => {
  const error = new OwnerTokenError('owner_refused', 'no', { errorDescription: 'The contract\nhas ended.' });
  expect(error.errorDescription).toBe('The contract has ended.');
  expect(JSON.parse(JSON.stringify(error))).toMatchObject({ errorDescription: 'The contract has ended.' });
  expect(OwnerTokenError.restated(error, { owner: 'o' }).errorDescription).toBe('The contract has ended.');
  expect(new OwnerTokenError('owner_refused', 'no').errorDescription).toBeUndefined();
});
