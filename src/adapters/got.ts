/** Owner tokens for got: its hooks. */

import type { OwnerFetch } from '../calling/owner-fetch.ts';
import type { AccessToken } from '../token.ts';

/** The part of got's options that is used. */
interface Options {
  url?: unknown;
  headers: Record<string, string | string[] | undefined>;
  body?: unknown;
  signal?: unknown;
  context: Record<PropertyKey, unknown>;
}

interface Answer {
  statusCode: number;
  request: { options: Options };
}

/** What got's `extend` takes. */
interface OwnerTokenHooks {
  hooks: {
    // biome-ignore lint/suspicious/noExplicitAny: got's own types, whichever version's, are these and more.
    beforeRequest: ((options: any) => Promise<void>)[];
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    afterResponse: ((response: any, retry: (options: any) => never) => any)[];
  };
}

/** Where the call's token, and the fact that it is a repetition, are kept: got's `context` outlives redirects. */
const TOKEN = Symbol('token');
const REPEATED = Symbol('repeated');

/**
 * Use it as `got.extend(ownerTokenHooks(registry.ownerFetch(accessKey)))`. Every request gets the owner's token, each
 * hop of a redirect is checked, and a call is made once more after a 401 if its body can be sent again. What the check or
 * the registry throws is the `cause` of got's `RequestError`. Streams get the token too; what becomes of it there is not
 * seen. For got 14.6 and later.
 */
export function ownerTokenHooks(call: OwnerFetch): OwnerTokenHooks {
  const beforeRequest = async ({ url, headers, signal, context }: Options): Promise<void> => {
    const presented = new Headers();
    const waiting = signal instanceof AbortSignal ? { signal } : {};
    context[TOKEN] = await call.authorize(url as URL, presented, waiting);
    Object.assign(headers, Object.fromEntries(presented));
  };
  const afterResponse = (response: Answer, retry: (options: object) => never): Answer => {
    const { context, body } = response.request.options;
    const refused = call.answered(context[TOKEN] as AccessToken, response.statusCode);
    if (!refused || context[REPEATED] || isStream(body)) return response;
    return retry({ context: { [REPEATED]: true }, preserveHooks: true });
  };
  return { hooks: { beforeRequest: [beforeRequest], afterResponse: [afterResponse] } };
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
