/** Owner tokens for axios: a request interceptor for an instance that all owners share, and an adapter for one owner. */

import { CREDENTIAL_HEADERS, leavesAllowedOrigins } from '../calling/leaving.ts';
import type { OwnerFetch } from '../calling/owner-fetch.ts';
import { hideRequest, printNameOnly } from '../calling/printing.ts';
import type { OwnerTokenError } from '../errors/owner-token-error.ts';
import type { AccessToken } from '../token.ts';

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
  /** Where the call goes. */
  url?: string | undefined;
  /** The body; a stream cannot be sent again. */
  data?: unknown;
  /** What a relative URL is relative to. */
  baseURL?: string | undefined;
  /** Whether an absolute URL goes where it says in spite of `baseURL`. */
  allowAbsoluteUrls?: boolean | undefined;
  /** Makes the connections to `http:` addresses. */
  // biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
  httpAgent?: any;
  /** Makes the connections to `https:` addresses. */
  // biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
  httpsAgent?: any;
  /** A function in place of axios's own adapters, as mocks have it. */
  // biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
  adapter?: any;
  /** Ends the call, and its wait for a token. */
  signal?: unknown;
  /** Called before each redirect, once the token is added or removed. */
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

/** A token, the headers that present it, and the URL that may have it. */
interface Authorization {
  token: AccessToken;
  presented: Headers;
  url: string;
}

/** What both attempts of a call share. */
interface Attempt<C, R> {
  axios: AxiosLike<C, R>;
  adapter: (config: C) => Promise<R>;
  call: OwnerFetch;
  /** The caller's own, which responses and errors have. */
  config: C;
  /** Its copy. */
  own: C;
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
 * `ownerFetch` gets that owner's token. After a 401 it is made once more, with a new token if one can be had, provided that
 * its body can be sent again; if no token can be had, the 401 is its outcome. Other calls are left alone. Interceptors, transforms and retries see one call and its final response. Adapters that
 * are functions, such as those of `axios-mock-adapter`, receive the call with its token.
 *
 * A redirect to an origin that is not allowed is followed without the token, cookies and proxy credentials, and its answer does
 * not judge the token. If no token can be obtained, the call rejects with an `AxiosError` whose `cause` is the `OwnerTokenError` and whose `code` is
 * that error's. So it does if `ownerFetchOf` fails with an `OwnerTokenError`; any other error of that function is thrown as it is. The `config` of responses and errors is the caller's own, without the token. `request`, its socket and
 * the config's agents, which lead to the headers as sent, print as their class names under `inspect`, JSON and pino.
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
    let call: OwnerFetch | undefined;
    try {
      call = await ownerFetchOf(config);
    } catch (error) {
      // By its name, so that the adapter need not contain the class.
      const isOurs = (error as Error | undefined)?.name === 'OwnerTokenError';
      throw isOurs ? refused({ axios, config }, error) : error;
    }
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
  // A copy, because a token may have to be requested first: what was checked is what is sent. axios also takes a URL object.
  const own = { ...config, ...(config.url && { url: String(config.url) }) };
  const attempt: Attempt<C, R> = { axios, adapter, call, config, own };
  // They hold the requests under way, also those of others, and are part of the config.
  printNameOnly(attempt.own.httpAgent);
  printNameOnly(attempt.own.httpsAgent);
  let outcome = await send(attempt, await authorize(attempt));
  if (outcome.rejected && canBeSentAgain(attempt.own.data)) {
    const renewed = await authorize(attempt).catch((error: unknown) => {
      if (signalOf(config)?.aborted) throw error;
    });
    if (renewed) {
      (outcome.response.data as { destroy?(): void } | undefined)?.destroy?.();
      outcome = await send(attempt, renewed);
    }
  }
  if (outcome.error) throw outcome.error;
  return outcome.response;
}

async function authorize<C extends AxiosConfigLike, R>(attempt: Attempt<C, R>): Promise<Authorization> {
  const { axios, call, own } = attempt;
  const presented = new Headers();
  // `getUri` would take what is absent from axios's own defaults, unlike the adapter.
  const url = axios.getUri({ ...own, baseURL: own.baseURL ?? '', allowAbsoluteUrls: own.allowAbsoluteUrls ?? true });
  try {
    return { token: await call.authorize(url, presented, { signal: signalOf(own) }), presented, url };
  } catch (error) {
    throw refused(attempt, error);
  }
}

async function send<C extends AxiosConfigLike, R extends AxiosResponseLike>(
  attempt: Attempt<C, R>,
  { token, presented, url }: Authorization,
): Promise<Outcome<R>> {
  const { adapter, call, config, own } = attempt;
  const headers = own.headers.concat();
  headers.set(Object.fromEntries([...presented].map(([name, value]) => [capitalized(name), value])), true);
  let at = url;
  let isAway = false;
  const beforeRedirect: AxiosConfigLike['beforeRedirect'] = (options, response, request) => {
    isAway = leavesAllowedOrigins(call, at, options.href) || isAway;
    const isOtherOrigin = new URL(at).origin !== new URL(options.href).origin;
    at = options.href;
    if (isAway || isOtherOrigin) dropCredentials(options, presented);
    if (!isAway) Object.assign(options.headers, Object.fromEntries(presented));
    own.beforeRedirect?.(options, response, request);
  };
  const withoutBasic = presented.has('authorization') ? { auth: undefined } : {};
  try {
    const response = await adapter({ ...own, headers, beforeRedirect, ...withoutBasic });
    withoutToken(response, config, presented);
    return { response, rejected: !isAway && call.answered(token, response.status) };
  } catch (thrown) {
    const error = thrown as Error & { response?: R; config?: unknown };
    if (error.config) withoutToken(error, config, presented);
    if (!error.response) throw error;
    withoutToken(error.response, config, presented);
    return { response: error.response, error, rejected: !isAway && call.answered(token, error.response.status) };
  }
}

/** What `follow-redirects` sends next. It removes some of these itself, but not for a subdomain. */
// biome-ignore lint/suspicious/noExplicitAny: axios's own signature.
function dropCredentials(options: Record<string, any>, presented: Headers): void {
  options.auth = undefined;
  for (const name of Object.keys(options.headers)) {
    if (presented.has(name) || CREDENTIAL_HEADERS.includes(name.toLowerCase())) delete options.headers[name];
  }
}

/** No token can be obtained for a call, or it may not be sent there. */
function refused<C, R>({ axios, config }: Pick<Attempt<C, R>, 'axios' | 'config'>, cause: unknown): Error {
  const { message, code } = cause as OwnerTokenError;
  return Object.assign(new axios.AxiosError(message, code, config), { cause });
}

/** axios also accepts signals of other libraries, which take effect once the request is sent. */
const signalOf = ({ signal }: AxiosConfigLike) => (signal instanceof AbortSignal ? signal : undefined);

/** `Authorization` for `authorization`, as axios writes it and mocks are asked for it. */
const capitalized = (name: string): string => name.replace(/\b[a-z]/g, (letter) => letter.toUpperCase());

/** Something of axios that has the config, with the token, and Node's request. */
interface Holder {
  config?: unknown;
  request?: unknown;
  data?: unknown;
}

/** Restores the caller's config, and keeps what Node holds of the headers as sent out of logs. */
function withoutToken(holder: Holder, config: unknown, presented: Headers): void {
  holder.config = config;
  hideRequest(holder.request, presented.keys());
  if ('request' in holder) Object.defineProperty(holder, 'request', { enumerable: false });
  const stream = holder.data as { on?(event: 'error', listener: (error: Holder) => void): void } | undefined;
  // A stream may break off with an error of axios.
  stream?.on?.('error', (error) => error.config && withoutToken(error, config, presented));
}

/** axios has already turned everything but streams, forms and blobs into a string or bytes. */
function canBeSentAgain(data: unknown): boolean {
  return typeof data !== 'object' || data === null || !('pipe' in data || Symbol.asyncIterator in data);
}
