/** The URL; undefined if it is invalid. In a try, because a hot `URL.canParse` of Node 20 accepts what `new URL` refuses. */
export function parseUrl(text: unknown, base?: string | URL): URL | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    return new URL(text, base);
  } catch {
    return undefined;
  }
}

/**
 * The origin that a text names, with or without a trailing slash; undefined for anything else. A URL may have `*` in its host, but
 * such an origin would match nothing.
 */
export function originOf(text: unknown): string | undefined {
  const url = parseUrl(text);
  const isOrigin =
    url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/` && !url.hostname.includes('*');
  return isOrigin ? url.origin : undefined;
}
