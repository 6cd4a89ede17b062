/** Validates access keys. Their format is unknown, so a key is refused only if it cannot identify an owner safely. */

import { OwnerTokenError } from '../errors.ts';

/** More than a header or body should carry. */
const MAX_LENGTH = 16_384;

/**
 * Returns the access key if it can identify an owner.
 *
 * Unpaired surrogates are refused because UTF-8 cannot encode them: two different keys would become the same key on the
 * way to the service, and in every digest.
 *
 * @throws OwnerTokenError `invalid_access_key`
 */
export function accessKeyOf(given: unknown): string {
  if (typeof given === 'string' && given !== '' && given.length <= MAX_LENGTH && given.isWellFormed()) return given;
  const expected = `a non-empty string of well-formed Unicode, at most ${MAX_LENGTH} characters`;
  const hint = given === '' ? '; it is empty (is its environment variable set?)' : '';
  throw new OwnerTokenError('invalid_access_key', `the access key cannot be used: expected ${expected}${hint}`);
}
