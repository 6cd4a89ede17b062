/**
 * Access control of the control plane. Any page in the developer's browser can send requests to loopback. So the `Host`
 * header must be a loopback name, which defeats DNS rebinding; pages of other origins are refused; writes must be JSON,
 * which a page can send to another origin only after a CORS preflight that is never granted; and a token is required if
 * other machines can reach it.
 */

import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export interface AccessRules {
  /** Whether only this machine can reach it. */
  readonly loopback: boolean;
  /** The address that it is bound to. */
  readonly host: string;
  /** Required unless it is bound to loopback. */
  readonly token: string | undefined;
}

export interface AccessProblem {
  readonly status: number;
  readonly error: string;
  readonly message: string;
}

export const TOKEN_COOKIE = 'sandbox_control';

/** Health checks, open to supervisors on any machine; they reveal nothing. */
const OPEN_PATHS = new Set(['/livez', '/readyz']);

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);

/** Returns why a request is refused, if it is. Checks host, origin, token and content type, in this order. */
export function refuseAccess(req: IncomingMessage, path: string, rules: AccessRules): AccessProblem | undefined {
  const host = req.headers.host ?? '';
  if (rules.loopback && !isOwnHost(host, rules.host)) {
    return problem(403, 'forbidden', 'the Host header names another host');
  }
  const { origin } = req.headers;
  const site = req.headers['sec-fetch-site'];
  const foreign = origin !== undefined && origin !== `http://${host}`;
  if (foreign || (path.startsWith('/api/') && (site === 'cross-site' || site === 'same-site'))) {
    return problem(403, 'forbidden', 'pages of other origins may not do this');
  }
  if (rules.token !== undefined && !OPEN_PATHS.has(path) && !isSame(tokenOf(req), rules.token)) {
    return problem(
      401,
      'unauthorized',
      'the control token is required: open the page with ?token=, or send it as a bearer token',
    );
  }
  const writes = req.method === 'POST' || req.method === 'PATCH' || req.method === 'PUT';
  if (writes && !/^application\/json[ \t]*(;|$)/i.test(req.headers['content-type'] ?? '')) {
    return problem(415, 'unsupported_media_type', 'send JSON, with content-type application/json');
  }
  return undefined;
}

/** Compares a presented token with the right one in constant time. */
export function isSame(given: string | undefined, token: string): boolean {
  const [a, b] = [Buffer.from(given ?? ''), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function isOwnHost(header: string, bound: string): boolean {
  const name = /^(\[[\da-f:.]+\]|[^:[\]]+)(:\d{1,5})?$/i
    .exec(header)?.[1]
    ?.replace(/^\[|\]$/g, '')
    .toLowerCase();
  return name !== undefined && (name === bound.toLowerCase() || isLoopback(name));
}

function tokenOf(req: IncomingMessage): string | undefined {
  const bearer = /^bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1];
  if (bearer !== undefined) return bearer;
  for (const part of (req.headers.cookie ?? '').split(';')) {
    const [name, value] = part.trim().split('=', 2);
    if (name === TOKEN_COOKIE) return value;
  }
  return undefined;
}

export const problem = (status: number, error: string, message: string): AccessProblem => ({ status, error, message });
