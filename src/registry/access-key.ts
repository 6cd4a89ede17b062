/** What can be an access key. Its format is not shown, so it is refused only where it could not name an owner safely. */

import { OwnerTokenError } from '../errors.ts';

/** Longer than any header or body should have to carry. */
const MAX_LENGTH = 16_384;

/**
 * The access key, if it can name an owner.
 *
 * Unpaired surrogates are refused because UTF-8 has none: two keys would become one on their way to the service, and
 * in every digest.
 *
 * @throws OwnerTokenError `invalid_access_key`
 */
export function accessKeyOf(given: unknown): string {
  if (typeof given === 'string' && given !== '' && given.length <= MAX_LENGTH && given.isWellFormed()) return given;
  const expected = `a non-empty string of well-formed Unicode, at most ${MAX_LENGTH} characters`;
  throw new OwnerTokenError('invalid_access_key', `the access key cannot be used: expected ${expected}`);
}
