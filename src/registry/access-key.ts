/**
 * Validates access keys, and makes the copies that are kept. The format of access keys is unknown, so a key is refused
 * only if it cannot identify an owner safely.
 */

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

/**
 * The access key as a string to keep: one that V8 has interned, as it does with the names of properties.
 *
 * - It is a copy if the given string is a slice of a longer one, which would otherwise stay in memory as a whole.
 * - V8 makes the given string a reference to the interned one, and the next garbage collection replaces it by that. So a
 *   caller that keeps its access keys looks them up by the very string that the table holds: V8 compares two pointers
 *   instead of the text of two strings.
 */
export function interned(accessKey: string): string {
  // Without a prototype, so that `__proto__` is a name like any other.
  const [name] = Object.keys({ __proto__: null, [accessKey]: true });
  return name as string;
}
