/** The options of a `TokenEndpoint`, and how they are checked. */

import type http from 'node:http';
import type https from 'node:https';
import type { Clock } from '../clock.ts';
import { type FailureScope, OwnerTokenError } from '../errors.ts';
import { hasMethods, isClock, OptionCheck } from '../option-check.ts';
import type { EndpointFailure } from './classify-failure.ts';

/** What a `TokenEndpoint` is made from. */
export interface TokenEndpointOptions {
  /**
   * Where the service is: an `https:` URL without credentials, query and fragment. Its path, with a trailing slash or
   * without, stays in front of `/auth/v1/token`. `http:` is taken for loopback hosts only (`localhost`, `127.0.0.0/8`,
   * `::1`), else it is `insecure_url`: see `allowInsecureHttp`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-3.2 RFC 6749 §3.2}
   */
  baseUrl: string | URL;
  /** The Client Id of the integration app, sent as `client_id`. Not empty. */
  clientId: string;
  /**
   * The Client Secret of the integration app, sent as `client_secret`; not empty. A function is called for each request,
   * within its deadline, so that the secret can rotate. One that throws, hangs or gives no non-empty string is a
   * `source_failed` that stops the client.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1 RFC 6749 §2.3.1}
   */
  clientSecret: string | (() => string | Promise<string>);
  /**
   * How long the whole exchange may take, in milliseconds, from the secret to the last byte of the body, a second send
   * included. 1 to 600,000; default 10,000. Past it: `endpoint_unavailable`.
   */
  timeoutMs?: number;
  /**
   * How many bytes of a body are taken, decoded. 1 to 1,048,576; default 65,536. A longer one is `invalid_response`.
   */
  maxResponseBytes?: number;
  /**
   * Takes the token out of the parsed JSON body of an answer between 200 and 299. Default: `access_token` and
   * `token_type`. What it throws is a `source_failed`, unless it is an `OwnerTokenError`; a token that no header can
   * carry is `invalid_response`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.1 RFC 6749 §5.1}
   */
  parseResponse?: (body: unknown) => { token: string; tokenType?: string };
  /**
   * Says what a failure stops: `'owner'`, `'client'` or `'endpoint'`, and is taken at its word; `undefined` leaves it to
   * the default reading. If it throws, or gives anything else, the failure is a `source_failed`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
   */
  classifyFailure?: (failure: EndpointFailure) => FailureScope | undefined;
  /**
   * Sends the secrets in clear to a host that is not this machine. Default `false`.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-10.9 RFC 6749 §10.9}
   */
  allowInsecureHttp?: boolean;
  /**
   * The agent that makes the connections: a proxy's, or one with certificates of its own. It is never closed from here.
   * Default: an own one that keeps connections, for 30 s when unused. Not together with `fetch`.
   */
  agent?: http.Agent | https.Agent;
  /**
   * Makes the request instead of `node:http(s)`, and decides about connections alone: nothing is sent again from here.
   * Called with `redirect: 'manual'`; an answer that it got over a redirect is refused. Not together with `agent`.
   */
  fetch?: typeof fetch;
  /** Tells the time for `requestedAtMs` and `Retry-After`, and the deadline if it has a `setTimeout`. Default: system. */
  clock?: Clock;
}

const OPTIONS = [
  'baseUrl',
  'clientId',
  'clientSecret',
  'timeoutMs',
  'maxResponseBytes',
  'parseResponse',
  'classifyFailure',
  'allowInsecureHttp',
  'agent',
  'fetch',
  'clock',
] as const satisfies (keyof TokenEndpointOptions)[];

/** Checks them all and gives the base URL. */
export function checkEndpointOptions(options: TokenEndpointOptions): URL {
  const check = new OptionCheck<TokenEndpointOptions>('TokenEndpoint', options, OPTIONS);
  const { baseUrl, allowInsecureHttp, agent, fetch } = options ?? {};
  const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
  const url = parseBaseUrl(baseUrl);
  if (!url) check.problem('baseUrl', 'an https: URL without credentials, query and fragment');
  check.required('clientId', isText, 'a non-empty string');
  const isSecret = (value: unknown): boolean => isText(value) || typeof value === 'function';
  check.required('clientSecret', isSecret, 'a non-empty string, or a function that gives one');
  check.integer('timeoutMs', 1, 600_000);
  check.integer('maxResponseBytes', 1, 1_048_576);
  check.functions('parseResponse', 'classifyFailure', 'fetch');
  check.when('allowInsecureHttp', (value) => typeof value === 'boolean', 'true or false');
  check.when('agent', (value) => hasMethods(value, 'addRequest') && suits(value as http.Agent, url), 'an agent for it');
  check.when('clock', isClock, 'an object with now() and monotonic()');
  if (agent && fetch) check.problem('agent', 'to be left out where fetch is given, which makes its own connections');
  const problem = 'an https: URL, since the host is not this machine; or else allowInsecureHttp: true';
  if (url?.protocol === 'http:' && !isLoopback(url.hostname) && allowInsecureHttp !== true) {
    if (check.clean) throw new OwnerTokenError('insecure_url', `TokenEndpoint: baseUrl: expected ${problem}`);
    check.problem('baseUrl', problem);
  }
  check.done();
  return url as URL;
}

function parseBaseUrl(baseUrl: unknown): URL | undefined {
  const text = baseUrl instanceof URL ? baseUrl.href : baseUrl;
  if (typeof text !== 'string' || /[?#]/.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isHttp = url.protocol === 'https:' || url.protocol === 'http:';
  return isHttp && url.username === '' && url.password === '' ? url : undefined;
}

/** `URL` has written every form of an IPv4 address out by now. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Node's own agents serve one protocol and say which; those for proxies find out as they go. */
function suits(agent: http.Agent, url: URL | undefined): boolean {
  const protocol: unknown = Object.getOwnPropertyDescriptor(agent, 'protocol')?.value;
  return protocol === undefined || !url || protocol === url.protocol;
}
