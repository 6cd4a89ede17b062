/**
 * Reads the errors of HTTP clients, for sources that use one: axios, got, ky, openid-client, undici, ofetch or a wrapper of
 * `fetch`. Each puts what the service answered in a place of its own, so all places are searched:
 *
 * | fact | where it may be |
 * |---|---|
 * | status | `status` or `statusCode` of the error, its `response`, its `cause` or the `response` of that |
 * | OAuth error code | `error` of one of those, or of its body: `data`, `_data` or `body`, parsed or as text |
 * | `Retry-After`, `Date` | `headers` of one of those |
 * | no response | the `code` of a system error, of the error or a cause |
 *
 * Nothing else is kept: no header, no body, no message. An OAuth code is kept only if it is a standard one, because any other
 * could be an echo of a secret that only the source knows.
 */

import { isOutage, refusalOf } from '../errors/oauth-error.ts';
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
    const failure = httpFailureIn(thrown, holders);
    if (!failure) return undefined;
    const { status, oauthError } = failure;
    const retryAfterMs = retryAfterMsOf(firstOf(holders, waitIn) ?? {}, nowMs);
    const facts = { status, oauthError, retryAfterMs, failedAtMs: nowMs, cause: thrown };
    return new OwnerTokenError(...describeFailure(SERVICE, failure), facts);
  } catch {
    // An accessor of the thrown value threw.
    return undefined;
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

const MAX_DEPTH = 3;

/** The objects that may hold facts, the nearest first. openid-client has the response, or its body, as `cause`. */
function holdersIn(thrown: unknown, depth = 0): object[] {
  if (!isObject(thrown) || depth > MAX_DEPTH) return [];
  const response = property(thrown, 'response');
  return [...(isObject(response) ? [response] : []), thrown, ...holdersIn(property(thrown, 'cause'), depth + 1)];
}

function firstOf<T>(holders: readonly object[], read: (holder: object) => T | undefined): T | undefined {
  for (const holder of holders) {
    const found = read(holder);
    if (found !== undefined) return found;
  }
  return undefined;
}

function httpFailureIn(thrown: unknown, holders: readonly object[]): HttpFailure | undefined {
  const status = firstOf(holders, statusIn) ?? proxyStatusIn(thrown);
  const bodies = holders.map(bodyIn);
  const oauthError = firstOf([...holders, ...bodies.filter(isObject)], oauthErrorIn);
  const body = bodies.find(isHtml);
  if (status !== undefined) return { kind: isSuccess(status) ? 'body' : 'status', status, oauthError, body };
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
  const body = property(holder, 'data') ?? property(holder, '_data') ?? property(holder, 'body');
  if (typeof body !== 'string' || body.length > MAX_BODY_LENGTH) return body;
  try {
    return JSON.parse(body.replace(/^\ufeff/, ''));
  } catch {
    return body;
  }
}

function oauthErrorIn(holder: object): string | undefined {
  const code = property(holder, 'error');
  if (typeof code !== 'string') return undefined;
  return refusalOf(code) || isOutage(code) ? code : undefined;
}

/** An iterator may be endless. */
const MAX_HEADERS = 1_000;

/** `headers` in any form that clients use: `Headers` or another map, pairs, or a plain object. */
function waitIn(holder: object): { retryAfter?: string; date?: string } | undefined {
  const headers = property(holder, 'headers');
  if (!isObject(headers)) return undefined;
  const found: { retryAfter?: string; date?: string } = {};
  let left = MAX_HEADERS;
  for (const entry of (Symbol.iterator in headers ? headers : Object.entries(headers)) as Iterable<unknown>) {
    const [name, value] = Array.isArray(entry) ? entry : [];
    if (/^retry-after$/i.test(String(name))) found.retryAfter ??= String(value);
    if (/^date$/i.test(String(name))) found.date ??= String(value);
    if (--left === 0) break;
  }
  return found.retryAfter === undefined ? undefined : found;
}
