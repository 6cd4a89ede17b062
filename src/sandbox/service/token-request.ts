/**
 * Strict check of the documented token request, the one documented part of the service: a JSON object with four
 * string fields, `grant_type` being `client_credentials`. Forms are accepted where the profile says so.
 */

import type { IncomingHttpHeaders } from 'node:http';

/** An error in the terms of RFC 6749 §5.2. Names a field, never its value. */
export interface Refusal {
  readonly status: number;
  readonly error: string;
  readonly description: string;
  readonly field?: string;
  /** Additional members of the error object. */
  readonly hints?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

export const FIELDS = ['grant_type', 'client_id', 'client_secret', 'appliance_owner_scope'] as const;

/** The readable fields of a request. Anything but a string is left out. */
export type TokenRequestFields = Partial<Record<(typeof FIELDS)[number], string>>;

/** The expected request, with the documentation's placeholders. */
const MEANT = {
  grant_type: 'client_credentials',
  client_id: '<CLIENT_ID>',
  client_secret: '<CLIENT_SECRET>',
  appliance_owner_scope: '<ACCESS_KEY>',
};

/**
 * Reads a token request. Checks the content type, then that the body is a JSON object, then the four fields in the
 * documented order, then the grant type. Returns the fields of a refused request too, so that the ledger can attribute
 * it to an owner.
 */
export function readTokenRequest(
  headers: IncomingHttpHeaders,
  body: string,
  acceptForms: boolean,
): [TokenRequestFields, Refusal?] {
  const contentType = headers['content-type'];
  const isForm = acceptForms && /^application\/x-www-form-urlencoded\b/i.test(contentType ?? '');
  if (!isForm && !isJson(contentType)) return [{}, wrongMediaType()];
  const parsed = isForm ? parseForm(body, headers.authorization) : parseObject(body);
  if (!parsed) return [{}, badRequest('the body is not a JSON object', undefined, { expected: MEANT })];
  const fields: TokenRequestFields = {};
  let refusal: Refusal | undefined;
  for (const field of FIELDS) {
    const value = parsed[field];
    if (typeof value === 'string' && value !== '') fields[field] = value;
    else refusal ??= badRequest(`${field} ${value === undefined ? 'is missing' : 'must be a non-empty string'}`, field);
  }
  if (!refusal && fields.grant_type !== 'client_credentials') {
    const description = 'grant_type must be client_credentials';
    refusal = { status: 400, error: 'unsupported_grant_type', description, field: 'grant_type' };
  }
  return refusal ? [fields, refusal] : [fields];
}

export function badRequest(description: string, field?: string, hints?: Record<string, unknown>): Refusal {
  return { status: 400, error: 'invalid_request', description, ...(field && { field }), ...(hints && { hints }) };
}

function wrongMediaType(): Refusal {
  const description = 'send this as a JSON object, with content-type application/json';
  return { status: 415, error: 'invalid_request', description, field: 'content-type', hints: { expected: MEANT } };
}

const isJson = (contentType: string | undefined): boolean =>
  /^application\/json[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?$/i.test(contentType ?? '');

/** Client id and secret are in the form, or form-encoded in HTTP Basic. */
function parseForm(body: string, authorization = ''): Record<string, unknown> {
  const basic = Buffer.from(/^basic +(\S+)$/i.exec(authorization)?.[1] ?? '', 'base64').toString();
  const [, id, secret] = /^([^:]*):(.*)$/s.exec(basic) ?? [];
  const pair = id === undefined ? '' : `client_id=${id}&client_secret=${secret}&`;
  return Object.fromEntries(new URLSearchParams(pair + body));
}

function parseObject(body: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
      ? (parsed as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
