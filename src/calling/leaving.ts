/** Redirects away from the origins that may receive the token: followed as `fetch` does, without any credentials. */

/** Credential headers other than those that present the token. `fetch` removes them from a redirect to another origin. */
export const CREDENTIAL_HEADERS: readonly string[] = ['authorization', 'cookie', 'proxy-authorization'];

/**
 * Whether a redirect leads to an origin that may not receive the token.
 *
 * @throws {TypeError} if it must not be followed at all: it leads from https to http, or to neither.
 */
export function leavesAllowedOrigins(
  { check }: { check(url: string | URL): void },
  from: string | URL,
  to: string | URL,
): boolean {
  const { protocol } = new URL(to);
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new TypeError('fetch failed: a redirect does not lead to an http(s) URL');
  if (protocol === 'http:' && new URL(from).protocol === 'https:') {
    throw new TypeError('fetch failed: a redirect leads from https to http');
  }
  try {
    check(to);
    return false;
  } catch {
    return true;
  }
}
