/** Owner tokens for axios: a request interceptor for an instance that all owners share, and an adapter for one owner. */

import type { OwnerFetch } from '../calling/owner-fetch.ts';
import type { OwnerTokenError } from '../errors.ts';

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
  /** The class of its errors. */
  AxiosError: new (
    message?: string,
    code?: string,
    config?: C,
  ) => Error;
}

/**
 * The part of an axios instance that is used.
 *
 * @example
 * ```ts
 * import axios, { type InternalAxiosRequestConfig } from 'axios';
 *
 * const used: AxiosInstanceLike<InternalAxiosRequestConfig> = axios.create();
 * ```
 */
export interface AxiosInstanceLike<C> {
  /** Its interceptors. */
  interceptors: {
    request: { use(onFulfilled: (config: C) => Promise<C>): number; eject(id: number): void };
  };
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
  /** A function in place of axios's own adapters, as mocks have it. */
  // biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
  adapter?: any;
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
 * Adds owners' tokens to the calls of an axios instance. Every call for which `ownerFetchOf` returns the owner's
 * `ownerFetch` gets that owner's token, and is sent once more after a 401 with another token, if its body can be sent again.
 * Other calls are left alone. Interceptors, transforms and retries see one call and its final response. Adapters that
 * are functions, such as those of `axios-mock-adapter`, receive the call with its token.
 *
 * If no token can be obtained, the call rejects with an `AxiosError` whose `cause` is the `OwnerTokenError` and whose `code` is
 * that error's. The `config` of responses and errors is the caller's own, without the token; `request`, which has the
 * headers as sent, is not enumerable, so that it is not logged by accident.
 *
 * @param ownerFetchOf returns the `ownerFetch` of the owner that a call is for, by the call's config or from an
 * `AsyncLocalStorage`; nothing for a call without a token.
 * @returns a function that removes the interceptor.
 * @example
 * ```ts
 * import axios from 'axios';
 *
 * const client = axios.create({ baseURL: baseUrl });
 * attachOwnerTokens(axios, client, () => registry.ownerFetch(accessKey));
 * console.log((await client.get('/echo')).status); // → 200
 * ```
 */
export function attachOwnerTokens<C extends AxiosConfigLike, R extends AxiosResponseLike>(
  axios: AxiosLike<C, R>,
  instance: AxiosInstanceLike<C>,
  ownerFetchOf: (config: C) => OwnerFetch | undefined | Promise<OwnerFetch | undefined>,
): () => void {
  const id = instance.interceptors.request.use(async (config) => {
    const call = await ownerFetchOf(config);
    if (!call) return config;
    const { adapter } = config;
    const inner = typeof adapter === 'function' ? adapter : axios.getAdapter('http');
    config.adapter = (sent: C) => {
      // A retry takes the config through the interceptor once more.
      sent.adapter = adapter;
      return callThrough(axios, inner, call, sent);
    };
    return config;
  });
  return () => instance.interceptors.request.eject(id);
}

/**
 * Makes an adapter for `axios.create`: an instance for one owner, which otherwise works as {@link attachOwnerTokens} says.
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
  return (config) => callThrough(axios, axios.getAdapter('http'), call, config);
}

/** Makes a call through another adapter, with the owner's token, at most twice. */
async function callThrough<C extends AxiosConfigLike, R extends AxiosResponseLike>(
  axios: AxiosLike<C, R>,
  adapter: (config: C) => Promise<R>,
  call: OwnerFetch,
  config: C,
): Promise<R> {
  let outcome = await send(axios, adapter, call, config);
  if (outcome.rejected && canBeSentAgain(config.data)) {
    (outcome.response.data as { destroy?(): void } | undefined)?.destroy?.();
    outcome = await send(axios, adapter, call, config);
  }
  if (outcome.error) throw outcome.error;
  return outcome.response;
}

async function send<C extends AxiosConfigLike, R extends AxiosResponseLike>(
  axios: AxiosLike<C, R>,
  adapter: (config: C) => Promise<R>,
  call: OwnerFetch,
  config: C,
): Promise<Outcome<R>> {
  const refused = (cause: unknown): Error => {
    const { message, code } = cause as OwnerTokenError;
    return Object.assign(new axios.AxiosError(message, code, config), { cause });
  };
  const presented = new Headers();
  const signal = config.signal instanceof AbortSignal ? config.signal : undefined;
  const token = await call.authorize(axios.getUri(config), presented, { signal }).catch((error: unknown) => {
    throw refused(error);
  });
  const headers = config.headers.concat();
  headers.set(Object.fromEntries([...presented].map(([name, value]) => [capitalized(name), value])), true);
  let refusedRedirect: Error | undefined;
  const beforeRedirect: AxiosConfigLike['beforeRedirect'] = (options, response, request) => {
    try {
      call.check(options.href);
    } catch (error) {
      refusedRedirect = refused(error);
      throw error;
    }
    Object.assign(options.headers, Object.fromEntries(presented));
    config.beforeRedirect?.(options, response, request);
  };
  const withoutBasic = presented.has('authorization') ? { auth: undefined } : {};
  try {
    const response = await adapter({ ...config, headers, beforeRedirect, ...withoutBasic });
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

/** `Authorization` for `authorization`, as axios writes it and mocks are asked for it. */
const capitalized = (name: string): string => name.replace(/\b[a-z]/g, (letter) => letter.toUpperCase());

/** Restores the caller's config, and keeps Node's request, whose headers include the token, out of logs. */
function withoutToken(holder: { config?: unknown; request?: unknown }, config: unknown): void {
  holder.config = config;
  if ('request' in holder) Object.defineProperty(holder, 'request', { enumerable: false });
}

/** axios has already turned everything but streams, forms and blobs into a string or bytes. */
function canBeSentAgain(data: unknown): boolean {
  return typeof data !== 'object' || data === null || !('pipe' in data || Symbol.asyncIterator in data);
}
