import { expect } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';

/** The error that a call fails with. */
export async function failureOf(call: Promise<unknown>): Promise<OwnerTokenError> {
  const thrown = await call.then(
    () => expect.fail('the call succeeded'),
    (error: unknown) => error,
  );
  expect(thrown).toBeInstanceOf(OwnerTokenError);
  return thrown as OwnerTokenError;
}
