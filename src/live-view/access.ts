/** Who may see the live view. It has no authentication of its own: the host decides, and what it has not allowed is refused. */

import { parseUrl } from '../parse-url.ts';
import type { LiveViewOptions } from './options.ts';
import type { Received } from './transports.ts';

/** Sent with every answer: the page loads nothing from elsewhere, runs nothing inline, and cannot be framed. */
export const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};

const UNDECIDED =
  'This live view is closed, because nobody has decided who may see it. Pass `authorize: (request) => …` to liveView(), or ' +
  '`public: true` if something in front of it decides.';

/** Why a request is refused, if it is. */
export async function refusalOf(received: Received, options: LiveViewOptions): Promise<string | undefined> {
  if (options.public !== true && !options.authorize) return UNDECIDED;
  if (options.authorize && !(await isAuthorized(received, options))) return 'You may not see this page.';
  return undefined;
}

/** An error of the host's function refuses, too. */
async function isAuthorized({ request }: Received, options: LiveViewOptions): Promise<boolean> {
  try {
    return (await options.authorize?.(request)) === true;
  } catch {
    return false;
  }
}

/**
 * Whether a page of another origin sent the request. `Sec-Fetch-Site` holds behind every proxy. Where a browser does not
 * send it, `Origin` must name the host, or the one that the proxy says it was: no page can set either header for another.
 *
 * @see {@link https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header Fetch Metadata, Sec-Fetch-Site}
 */
export function isForeign({ header }: Received): boolean {
  const site = header('sec-fetch-site');
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  const origin = header('origin');
  if (origin === undefined) return false;
  const hosts = [header('host'), header('x-forwarded-host')];
  const url = parseUrl(origin);
  return !url || !hosts.includes(url.host);
}
