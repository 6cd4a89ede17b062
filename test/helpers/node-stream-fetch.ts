/** A `fetch` whose response has the body that node-fetch, cross-fetch and make-fetch-happen give it: a stream of Node. */

import { Readable } from 'node:stream';

export const nodeStreamFetch = (async (url: string, init: RequestInit) => {
  const { status, headers, redirected, body } = await fetch(url, init);
  return {
    status,
    headers,
    redirected,
    body: body && Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]),
  };
}) as unknown as typeof fetch;
