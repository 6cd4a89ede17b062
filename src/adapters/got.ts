/** Owner tokens for got: its hooks, and a handler that keeps tokens out of logs. */

import { CREDENTIAL_HEADERS, leavesAllowedOrigins } from '../calling/leaving.ts';
import type { OwnerFetch } from '../calling/owner-fetch.ts';
import { hideRequest, printNameOnly } from '../calling/printing.ts';
import type { AccessToken } from '../token.ts';

/** The part of got's options that is used here. */
interface Options {
  url?: unknown;
  headers: Record<string, string | string[] | undefined>;
  body?: unknown;
  signal?: unknown;
  isStream?: boolean;
  context: Record<PropertyKey, unknown>;
}

interface GotResponse {
  statusCode: number;
  request: { options: Options };
}

interface GotError {
  code?: string;
  options?: Partial<Options>;
  response?: GotResponse;
}

/** What got returns: a promise or a stream. */
interface Returned {
  on(
    event: 'request',
    listener: (request: { once(event: 'socket', listener: typeof printNameOnly): unknown }) => void,
  ): void;
  on(event: 'response', listener: (response: GotResponse) => void): void;
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
    /** Reports the response, and makes the call once more after a 401. */
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    afterResponse: ((response: any, retry: (options: any) => never) => any)[];
    /** Keeps the token out of errors. */
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    beforeError: ((error: any) => any)[];
  };
  /** Keeps the headers as sent out of logs. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  handlers: ((options: any, next: (options: any) => any) => any)[];
}

/** A token, and the headers that present it. */
interface Authorization {
  readonly token: AccessToken;
  readonly presented: Headers;
}

/** What a call remembers from one hop, and one attempt, to the next. */
interface Call {
  /** The token of the current request. */
  token?: AccessToken | undefined;
  /** Where the last request went. */
  url?: string;
  /** Whether a redirect has led away from the allowed origins. */
  isAway?: boolean;
  /** For the second attempt. */
  renewed?: Authorization | undefined;
  repeated?: boolean;
  /** The options' headers, which have the token until the request is made. */
  headers?: Options['headers'];
  /** The caller's own headers that the presented ones replace. */
  own: Options['headers'];
}

/** The key of the {@link Call} in got's `context`, which survives redirects and retries. */
const CALL = Symbol('call');

const callOf = ({ context }: Pick<Options, 'context'>): Call => {
  context[CALL] ??= { own: {} };
  return context[CALL] as Call;
};

/**
 * Makes hooks for `got.extend`. Every request gets the owner's token, and so does each hop of a redirect to an allowed origin;
 * one to any other is followed without it, cookies and proxy credentials. After a 401 the
 * call is made once more, with a new token if one can be had, provided that its body can be sent again. If no token can be
 * had, the 401 is the outcome.
 *
 * An error of the check or the registry is the `cause` of got's `RequestError`. The options of responses and errors do not
 * contain the token. Node's request and socket, which have the headers as sent, print as their class names under `inspect`,
 * JSON and pino. A stream gets the token and reports its answer, but is not made again after a 401. For got 14.6 and later.
 *
 * @example
 * ```ts
 * import got from 'got';
 *
 * const client = got.extend(ownerTokenHooks(registry.ownerFetch(accessKey)), { prefixUrl: baseUrl });
 * console.log((await client('echo')).statusCode); // → 200
 * ```
 */
export function ownerTokenHooks(owner: OwnerFetch): OwnerTokenHooks {
  const authorize = async ({ url, signal }: Options): Promise<Authorization> => {
    const presented = new Headers();
    const waiting = signal instanceof AbortSignal ? { signal } : {};
    return { token: await owner.authorize(url as URL, presented, waiting), presented };
  };

  const beforeRequest = async (options: Options): Promise<void> => {
    const call = callOf(options);
    redirected(owner, call, options);
    if (call.isAway) return;
    const { token, presented } = call.renewed ?? (await authorize(options));
    const { headers } = options;
    Object.assign(call, { token, headers, renewed: undefined });
    for (const [name, value] of presented) {
      if (!Object.hasOwn(call.own, name)) call.own[name] = headers[name];
      headers[name] = value;
    }
  };

  const afterResponse = async (response: GotResponse, retry: (options: object) => never): Promise<GotResponse> => {
    const { options } = response.request;
    const call = callOf(options);
    restoreHeaders(call);
    if (!reported(owner, call, response) || call.repeated || !canBeSentAgain(options.body)) return response;
    call.renewed = await authorize(options).catch(() => undefined);
    if (!call.renewed) return response;
    call.repeated = true;
    return retry({ preserveHooks: true });
  };

  const beforeError = <E extends GotError>(error: E): E => {
    const { context, isStream } = error.options ?? {};
    if (!context) return error;
    const call = callOf({ context });
    restoreHeaders(call);
    if (isStream && error.response && error.code === 'ERR_NON_2XX_3XX_RESPONSE') reported(owner, call, error.response);
    return error;
  };

  const handler = <R extends Returned>(options: Options | undefined, next: (options: Options | undefined) => R): R => {
    if (!options) return next(options); // They were invalid.
    const call: Call = { own: {} };
    options.context[CALL] = call;
    const returned = next(options);
    returned.on('request', (request) => {
      restoreHeaders(call);
      hideRequest(request, Object.keys(call.own));
      request.once('socket', printNameOnly);
    });
    if (options.isStream) returned.on('response', (response) => reported(owner, call, response));
    return returned;
  };

  const hooks = { beforeRequest: [beforeRequest], afterResponse: [afterResponse], beforeError: [beforeError] };
  return { hooks, handlers: [handler] };
}

/** Reports the status of a call. Returns whether the token was rejected. */
const reported = (owner: OwnerFetch, { token }: Call, { statusCode }: GotResponse): boolean =>
  token !== undefined && owner.answered(token, statusCode);

/**
 * Notes where a request goes. One to another origin carries none of the caller's credentials, some of which got itself keeps.
 * Once a redirect has led away, no further hop carries the token.
 */
function redirected(owner: OwnerFetch, call: Call, { url, headers }: Options): void {
  const from = call.url;
  call.url = String(url);
  if (from === undefined) return;
  const isAway = leavesAllowedOrigins(owner, from, call.url);
  if (new URL(from).origin !== new URL(call.url).origin) for (const name of CREDENTIAL_HEADERS) delete headers[name];
  if (!isAway && !call.isAway) return;
  for (const name of Object.keys(call.own)) delete headers[name];
  Object.assign(call, { token: undefined, isAway: true, own: {} });
}

/** Takes the token out of the options. */
function restoreHeaders({ headers, own }: Call): void {
  if (headers) Object.assign(headers, own);
}

/** Streams and generators can be read only once. */
function canBeSentAgain(body: unknown): boolean {
  return typeof body !== 'object' || body === null || !(Symbol.asyncIterator in body || 'next' in body);
}
