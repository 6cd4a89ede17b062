/** Owner tokens for axios: an adapter around its own one for Node. */

import type { OwnerFetch } from '../calling/owner-fetch.ts';

/** The part of axios that is used. */
interface Axios<C, R> {
  getAdapter(name: 'http'): (config: C) => Promise<R>;
  getUri(config: C): string;
}

interface HeaderBag {
  concat(): HeaderBag;
  set(headers: Record<string, string>, rewrite: boolean): unknown;
}

/** The part of a request's settings that is read, and of which a copy is changed. */
interface Config {
  headers: HeaderBag;
  data?: unknown;
  signal?: unknown;
  // biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
  beforeRedirect?: (options: Record<string, any>, response: any, request: any) => void;
}

interface Answer {
  status: number;
  data?: unknown;
  config: unknown;
}

/** What one sending came to: an answer, which is an error as well where axios takes its status for one. */
interface Outcome<R> {
  answer: R;
  error?: Error;
  refused: boolean;
}

/**
 * Use it as `axios.create({ baseURL, adapter: ownerTokenAdapter(axios, registry.ownerFetch(accessKey)) })`. Every call
 * gets the owner's token, and is made once more after a 401 if its body can be sent again. Interceptors and transforms
 * see one call and its final answer. A failure to get a token is thrown as it is: an `OwnerTokenError`, no `AxiosError`.
 * The settings found in answers and errors are the caller's own, without the token.
 */
export function ownerTokenAdapter<C extends Config, R extends Answer>(
  axios: Axios<C, R>,
  call: OwnerFetch,
): (config: C) => Promise<R> {
  return async (config) => {
    let outcome = await send(axios, call, config);
    if (outcome.refused && canBeSentAgain(config.data)) {
      (outcome.answer.data as { destroy?(): void } | undefined)?.destroy?.();
      outcome = await send(axios, call, config);
    }
    if (outcome.error) throw outcome.error;
    return outcome.answer;
  };
}

async function send<C extends Config, R extends Answer>(
  axios: Axios<C, R>,
  call: OwnerFetch,
  config: C,
): Promise<Outcome<R>> {
  const presented = new Headers();
  const signal = config.signal instanceof AbortSignal ? config.signal : undefined;
  const token = await call.authorize(axios.getUri(config), presented, { signal });
  const headers = config.headers.concat();
  headers.set(Object.fromEntries(presented), true);
  let refusal: Error | undefined;
  const beforeRedirect: Config['beforeRedirect'] = (options, response, request) => {
    try {
      call.check(options.href);
    } catch (error) {
      refusal = error as Error;
      throw error;
    }
    for (const name of Object.keys(options.headers)) if (presented.has(name)) delete options.headers[name];
    Object.assign(options.headers, Object.fromEntries(presented));
    config.beforeRedirect?.(options, response, request);
  };
  const basic = presented.has('authorization') ? { auth: undefined } : {};
  try {
    const answer = await axios.getAdapter('http')({ ...config, headers, beforeRedirect, ...basic });
    answer.config = config;
    return { answer, refused: call.answered(token, answer.status) };
  } catch (thrown) {
    const error = thrown as Error & { response?: R; config?: unknown };
    if (refusal) throw refusal;
    if (error.config) error.config = config;
    if (!error.response) throw error;
    error.response.config = config;
    return { answer: error.response, error, refused: call.answered(token, error.response.status) };
  }
}

/** By now everything but streams, forms and blobs has been made a string or bytes. */
function canBeSentAgain(data: unknown): boolean {
  return typeof data !== 'object' || data === null || !('pipe' in data || Symbol.asyncIterator in data);
}
