/** Owner tokens for axios: an adapter that wraps axios's own Node adapter. */

import type { OwnerFetch } from '../calling/owner-fetch.ts';

/**
 * The part of axios that is used.
 *
 * @example
 * ```ts
 * import axios, { type AxiosResponse, type InternalAxiosRequestConfig } from 'axios';
 *
 * const used: AxiosLike<InternalAxiosRequestConfig, AxiosResponse> = axios;
 * ```
 */
export interface AxiosLike<C, R> {
  /** Returns axios's own adapter for Node. */
  getAdapter(name: 'http'): (config: C) => Promise<R>;
  /** The complete URL of a request. */
  getUri(config: C): string;
}

/**
 * The part of axios's headers that is used.
 *
 * @example
 * ```ts
 * import { AxiosHeaders } from 'axios';
 *
 * const used: AxiosHeadersLike = new AxiosHeaders();
 * ```
 */
export interface AxiosHeadersLike {
  /** A copy. */
  concat(): AxiosHeadersLike;
  /** Sets several headers. */
  set(headers: Record<string, string>, rewrite: boolean): unknown;
}

/**
 * The part of a request's config that is used.
 *
 * @example
 * ```ts
 * import type { InternalAxiosRequestConfig } from 'axios';
 *
 * const used = (config: InternalAxiosRequestConfig): AxiosConfigLike => config;
 * ```
 */
export interface AxiosConfigLike {
  /** The headers as the caller gave them. */
  headers: AxiosHeadersLike;
  /** The body; a stream cannot be sent again. */
  data?: unknown;
  /** Ends the call, and its wait for a token. */
  signal?: unknown;
  /** Called before each redirect, after the adapter's own check. */
  // biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
  beforeRedirect?: (options: Record<string, any>, response: any, request: any) => void;
}

/**
 * The part of a response that is used.
 *
 * @example
 * ```ts
 * import type { AxiosResponse } from 'axios';
 *
 * const used = (response: AxiosResponse): AxiosResponseLike => response;
 * ```
 */
export interface AxiosResponseLike {
  /** The HTTP status: a 401 rejects the token. */
  status: number;
  /** The body. */
  data?: unknown;
  /** The caller's config. */
  config: unknown;
  /** Node's request, which has the headers as sent. */
  request?: unknown;
}

/** The outcome of one attempt. If axios considers the status an error, `error` is set too. */
interface Outcome<R> {
  response: R;
  error?: Error;
  /** Whether the token was rejected. */
  rejected: boolean;
}

/**
 * Makes an adapter for `axios.create`. Every call gets the owner's token, and is retried once after a 401 if its body can
 * be sent again. Interceptors and transforms see one call and its final response. If no token can be obtained, the call
 * rejects with the `OwnerTokenError` itself, not with an `AxiosError`. The `config` of responses and errors is the
 * caller's own, without the token; `request`, which has the headers as sent, is not enumerable, so that it is not logged
 * by accident.
 *
 * @example
 * ```ts
 * import axios from 'axios';
 *
 * const client = axios.create({ baseURL: baseUrl, adapter: ownerTokenAdapter(axios, registry.ownerFetch(accessKey)) });
 * console.log((await client.get('/echo')).status); // → 200
 * ```
 */
export function ownerTokenAdapter<C extends AxiosConfigLike, R extends AxiosResponseLike>(
  axios: AxiosLike<C, R>,
  call: OwnerFetch,
): (config: C) => Promise<R> {
  return async (config) => {
    let outcome = await send(axios, call, config);
    if (outcome.rejected && canBeSentAgain(config.data)) {
      (outcome.response.data as { destroy?(): void } | undefined)?.destroy?.();
      outcome = await send(axios, call, config);
    }
    if (outcome.error) throw outcome.error;
    return outcome.response;
  };
}

async function send<C extends AxiosConfigLike, R extends AxiosResponseLike>(
  axios: AxiosLike<C, R>,
  call: OwnerFetch,
  config: C,
): Promise<Outcome<R>> {
  const presented = new Headers();
  const signal = config.signal instanceof AbortSignal ? config.signal : undefined;
  const token = await call.authorize(axios.getUri(config), presented, { signal });
  const headers = config.headers.concat();
  headers.set(Object.fromEntries(presented), true);
  let refusedRedirect: Error | undefined;
  const beforeRedirect: AxiosConfigLike['beforeRedirect'] = (options, response, request) => {
    try {
      call.check(options.href);
    } catch (error) {
      refusedRedirect = error as Error;
      throw error;
    }
    for (const name of Object.keys(options.headers)) if (presented.has(name)) delete options.headers[name];
    Object.assign(options.headers, Object.fromEntries(presented));
    config.beforeRedirect?.(options, response, request);
  };
  const withoutBasic = presented.has('authorization') ? { auth: undefined } : {};
  try {
    const response = await axios.getAdapter('http')({ ...config, headers, beforeRedirect, ...withoutBasic });
    withoutToken(response, config);
    return { response, rejected: call.answered(token, response.status) };
  } catch (thrown) {
    const error = thrown as Error & { response?: R; config?: unknown };
    if (refusedRedirect) throw refusedRedirect;
    if (error.config) withoutToken(error, config);
    if (!error.response) throw error;
    withoutToken(error.response, config);
    return { response: error.response, error, rejected: call.answered(token, error.response.status) };
  }
}

/** Restores the caller's config, and keeps Node's request, whose headers include the token, out of logs. */
function withoutToken(holder: { config?: unknown; request?: unknown }, config: unknown): void {
  holder.config = config;
  if ('request' in holder) Object.defineProperty(holder, 'request', { enumerable: false });
}

/** axios has already turned everything but streams, forms and blobs into a string or bytes. */
function canBeSentAgain(data: unknown): boolean {
  return typeof data !== 'object' || data === null || !('pipe' in data || Symbol.asyncIterator in data);
}
