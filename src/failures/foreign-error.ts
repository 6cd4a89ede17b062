/**
 * Reads the errors of HTTP and OAuth clients, for sources that use one: axios, got, ky, undici, ofetch, a wrapper of `fetch`,
 * openid-client, oauth4webapi, simple-oauth2, badgateway, google-auth-library or msal-node. Each puts the service's answer in
 * a different place, so all places are searched:
 *
 * | fact | where it may be |
 * |---|---|
 * | status | `status` or `statusCode` of the error, its `cause` or `data`, or the `response` or `res` of one of these |
 * | OAuth error code | `error`, `errorCode` or `oauth2Code` of those, or of a body: `data`, `_data`, `body`, `payload`, parsed or as text |
 * | `Retry-After`, `Date`, `WWW-Authenticate` | `headers` of those |
 * | no response | the `code` of a system error: the thrown one, or a cause |
 *
 * Nothing else is kept: no header, no body, no message. An OAuth code is kept only if it is a standard one, because any other
 * could be an echo of a secret that only the source knows.
 */

import { isOutage, refusalCodeOf } from '../errors/oauth-error.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import {
  describeFailure,
  type HttpFailure,
  isHtml,
  isSuccess,
  kindOfError,
  proxyStatusIn,
  retryAfterMsOf,
} from '../http-failure.ts';
import { property } from '../own-property.ts';

const SERVICE = { name: 'the service behind the token source', url: 'its URL' };

/**
 * The error that a thrown value stands for, without a failure scope. Undefined if it is not the error of an HTTP exchange.
 * Never throws.
 *
 * @param nowMs epoch ms, for a date in the `Retry-After` of a response without `Date`.
 */
export function readForeignError(thrown: unknown, nowMs: number): OwnerTokenError | undefined {
  try {
    const holders = holdersIn(thrown);
    const headers = headersIn(holders);
    const failure = httpFailureIn(thrown, holders, headers.has('www-authenticate'));
    if (!failure) return undefined;
    const { status, oauthError } = failure;
    const retryAfterMs = retryAfterMsOf({ retryAfter: headers.get('retry-after'), date: headers.get('date') }, nowMs);
    const facts = { status, oauthError, retryAfterMs, failedAtMs: nowMs, cause: thrown };
    return new OwnerTokenError(...describeFailure(SERVICE, failure), facts);
  } catch {
    // An accessor of the thrown value threw.
    return undefined;
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

const MAX_DEPTH = 3;

/**
 * The objects that may hold facts, the nearest first. openid-client has the response, or its body, as `cause`; simple-oauth2
 * has both in `data`, and its own status in `output`.
 */
function holdersIn(thrown: unknown, depth = 0): object[] {
  if (!isObject(thrown) || depth > MAX_DEPTH) return [];
  const response = property(thrown, 'response') ?? property(thrown, 'res');
  const inner = ['cause', 'data'].flatMap((name) => holdersIn(property(thrown, name), depth + 1));
  return [...(isObject(response) ? [response] : []), thrown, ...inner];
}

const firstOf = <T>(values: readonly (T | undefined)[]) => values.find((value) => value !== undefined);

function httpFailureIn(thrown: unknown, holders: readonly object[], isChallenge: boolean): HttpFailure | undefined {
  const status = firstOf(holders.map(statusIn)) ?? proxyStatusIn(thrown);
  const bodies = holders.map(bodyIn);
  const oauthError = firstOf([...holders, ...bodies.filter(isObject)].map(oauthErrorIn));
  const body = bodies.find(isHtml);
  if (status !== undefined) {
    const kind = isSuccess(status) ? 'body' : 'status';
    return { kind, status, oauthError, body, isChallenge: isChallenge && !bodies.some(isRead) };
  }
  const kind = oauthError === undefined ? kindOfError(thrown) : 'body';
  return kind && { kind, oauthError };
}

function statusIn(holder: object): number | undefined {
  return [property(holder, 'status'), property(holder, 'statusCode')].find(isStatus);
}

const isStatus = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 100 && Number(value) <= 599;

const MAX_BODY_LENGTH = 65_536;

/** The body as its client left it: parsed, or as text, which is parsed here if it is JSON. */
function bodyIn(holder: object): unknown {
  const body = firstOf(['data', '_data', 'body', 'payload'].map((name) => property(holder, name)));
  if (typeof body !== 'string' || body.length > MAX_BODY_LENGTH) return body;
  try {
    return JSON.parse(body.replace(/^\ufeff/, ''));
  } catch {
    return body;
  }
}

const isRead = (body: unknown) => typeof body === 'string' || (isObject(body) && !(Symbol.asyncIterator in body));

function oauthErrorIn(holder: object): string | undefined {
  const codes = ['error', 'errorCode', 'oauth2Code'].map((name) => property(holder, name));
  return codes.filter((code) => typeof code === 'string').find((code) => refusalCodeOf(code) || isOutage(code));
}

/** An iterator may be endless. */
const MAX_HEADERS = 1_000;

const HEADERS_READ = ['retry-after', 'date', 'www-authenticate'];

/** `headers` in any form that clients use: `Headers` or another map, pairs, or a plain object. */
function headersIn(holders: readonly object[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const headers of holders.map((holder) => property(holder, 'headers')).filter(isObject)) {
    let left = MAX_HEADERS;
    for (const entry of (Symbol.iterator in headers ? headers : Object.entries(headers)) as Iterable<unknown>) {
      const [name, value] = Array.isArray(entry) ? entry : [];
      const key = String(name).toLowerCase();
      if (HEADERS_READ.includes(key) && !found.has(key)) found.set(key, String(value));
      if (--left === 0) break;
    }
  }
  return found;
}
