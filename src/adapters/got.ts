/** Owner tokens for got: its hooks. */

import type { OwnerFetch } from '../calling/owner-fetch.ts';
import type { AccessToken } from '../token.ts';

/** The part of got's options that is used here. */
interface Options {
  url?: unknown;
  headers: Record<string, string | string[] | undefined>;
  body?: unknown;
  signal?: unknown;
  context: Record<PropertyKey, unknown>;
}

interface GotResponse {
  statusCode: number;
  request: { options: Options };
}

/**
 * An argument for got's `extend`.
 *
 * @example
 * ```ts
 * const options: OwnerTokenHooks = ownerTokenHooks(registry.ownerFetch(accessKey));
 * ```
 */
export interface OwnerTokenHooks {
  /** got's hooks of these names. */
  hooks: {
    /** Adds the token, or fails if it may not be sent to this URL. */
    // biome-ignore lint/suspicious/noExplicitAny: got's own types have more members and differ between versions.
    beforeRequest: ((options: any) => Promise<void>)[];
    /** Reports the response, and retries once after a 401. */
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    afterResponse: ((response: any, retry: (options: any) => never) => any)[];
    /** Keeps the token out of errors. */
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    beforeError: ((error: any) => any)[];
  };
}

/** Keys in got's `context`, which survives redirects and retries. */
const TOKEN = Symbol('token');
const REPEATED = Symbol('repeated');
const OWN_HEADERS = Symbol('own headers');

/**
 * Makes hooks for `got.extend`. Every request gets the owner's token, each hop of a redirect is checked, and a call is retried
 * once after a 401 if its body can be sent again.
 *
 * An error of the check or the registry is the `cause` of got's `RequestError`; the `options` of got's errors do not contain the
 * token. Streams get the token too, but a 401 is neither reported nor retried there. For got 14.6 and later.
 *
 * @example
 * ```ts
 * import got from 'got';
 *
 * const client = got.extend(ownerTokenHooks(registry.ownerFetch(accessKey)), { prefixUrl: baseUrl });
 * console.log((await client('echo')).statusCode); // → 200
 * ```
 */
export function ownerTokenHooks(call: OwnerFetch): OwnerTokenHooks {
  const beforeRequest = async ({ url, headers, signal, context }: Options): Promise<void> => {
    const presented = new Headers();
    const waiting = signal instanceof AbortSignal ? { signal } : {};
    context[TOKEN] = await call.authorize(url as URL, presented, waiting);
    context[OWN_HEADERS] ??= Object.fromEntries([...presented.keys()].map((name) => [name, headers[name]]));
    Object.assign(headers, Object.fromEntries(presented));
  };
  const afterResponse = (response: GotResponse, retry: (options: object) => never): GotResponse => {
    const { context, body } = response.request.options;
    const rejected = call.answered(context[TOKEN] as AccessToken, response.statusCode);
    if (!rejected || context[REPEATED] || isStream(body)) return response;
    return retry({ context: { [REPEATED]: true }, preserveHooks: true });
  };
  return { hooks: { beforeRequest: [beforeRequest], afterResponse: [afterResponse], beforeError: [withoutToken] } };
}

/** Restores the caller's own headers. */
function withoutToken<E extends { options?: Partial<Options> }>(error: E): E {
  const { headers, context } = error.options ?? {};
  if (headers) Object.assign(headers, context?.[OWN_HEADERS]);
  return error;
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
