/**
 * The verdict on each answer that brings no token: the code of its error, and the scope to which the failure may escalate. The
 * tests of the endpoint, of the errors of other clients and of the guarantees share this table.
 */

import type { FailureScope, OwnerTokenErrorCode } from '../../src/errors/owner-token-error.ts';
import { type Answer, json, status } from './loopback-service.ts';

type Body = '' | typeof HTML | { readonly error: string };

export interface Verdict {
  readonly status: number;
  /** Nothing, a page, or an OAuth error response. */
  readonly body: Body;
  readonly code: OwnerTokenErrorCode;
  readonly scope: FailureScope;
}

export const HTML = '<!DOCTYPE html><html><body>Request blocked</body></html>';

const coded = (...errors: string[]): Body[] => errors.map((error) => ({ error }));
const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, at) => first + at);

/** A service-specific code, and a name that objects inherit. */
const UNKNOWN = coded('key_was_revoked', 'constructor');
const OWNERS = coded('invalid_grant', 'invalid_scope', 'access_denied');
const CLIENTS = coded('invalid_client', 'unauthorized_client', 'invalid_request', 'unsupported_grant_type');
const OUTAGES = coded('server_error', 'temporarily_unavailable', 'slow_down');
const NO_CODE: readonly Body[] = ['', ...UNKNOWN];
const ANY: readonly Body[] = [HTML, ...NO_CODE, ...OWNERS, ...CLIENTS, ...OUTAGES];

const ENDPOINTS = [407, 408, 421, 425, ...from(500, 599)];
const REQUESTS = [405, 415];
const OTHERS = from(400, 499).filter((status) => ![429, ...ENDPOINTS, ...REQUESTS].includes(status));

const TABLE: readonly [number[], readonly Body[], OwnerTokenErrorCode, FailureScope][] = [
  [from(300, 399), ANY, 'redirect_refused', 'endpoint'],
  [[429], ANY, 'rate_limited', 'endpoint'],
  [ENDPOINTS, ANY, 'endpoint_unavailable', 'endpoint'],
  // Some services answer errors with 200.
  [[200, ...REQUESTS, ...OTHERS], OUTAGES, 'endpoint_unavailable', 'endpoint'],
  [[200, ...REQUESTS, ...OTHERS], OWNERS, 'owner_refused', 'owner'],
  [[200, ...REQUESTS, ...OTHERS], CLIENTS, 'client_refused', 'client'],
  [[200], [HTML, ...NO_CODE], 'invalid_response', 'endpoint'],
  // A gateway answered, not the service.
  [[...REQUESTS, ...OTHERS], [HTML], 'invalid_response', 'endpoint'],
  [REQUESTS, NO_CODE, 'client_refused', 'client'],
  [OTHERS, NO_CODE, 'owner_refused', 'client'],
];

/** An owner's code affects that owner alone, whatever the status. */
export const VERDICTS: readonly Verdict[] = TABLE.flatMap(([statuses, bodies, code, scope]) =>
  statuses.flatMap((status) =>
    bodies.map((body) => ({ status, body, code, scope: OWNERS.includes(body) ? 'owner' : scope })),
  ),
);

/** The code of OAuth that a body has. */
export const oauthCodeIn = ({ body }: Verdict): string | undefined =>
  typeof body === 'object' && !UNKNOWN.includes(body) ? body.error : undefined;

/** One status and one body of each kind, for tests over sockets. */
export const TYPICAL_VERDICTS = VERDICTS.filter(
  ({ status, body }) =>
    [400, 401, 405, 408, 429, 503].includes(status) &&
    ['', HTML, UNKNOWN[0], OWNERS[0], CLIENTS[0], OUTAGES[0]].includes(body),
);

/** This answer on a socket. */
export const answerOf = ({ status: answered, body }: Verdict): Answer =>
  typeof body === 'object' ? json(answered, body) : status(answered, body, body ? { 'content-type': 'text/html' } : {});
