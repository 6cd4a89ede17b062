/**
 * The token request of the documentation, checked strictly. This is the one part of the service that is documented:
 * a JSON object with four string parameters, the grant type being `client_credentials`.
 */

/** Why a request is refused, in the terms of RFC 6749 §5.2. Names a field, never what was in it. */
export interface Refusal {
  readonly status: number;
  readonly error: string;
  readonly description: string;
  readonly field?: string;
  /** Further members of the error object. */
  readonly hints?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

export const FIELDS = ['grant_type', 'client_id', 'client_secret', 'appliance_owner_scope'] as const;

/** What was sent, as far as it could be read: a field that is no string is left out. */
export type TokenRequestFields = Partial<Record<(typeof FIELDS)[number], string>>;

/** The request that is meant, with the placeholders of the documentation. */
const MEANT = {
  grant_type: 'client_credentials',
  client_id: '<CLIENT_ID>',
  client_secret: '<CLIENT_SECRET>',
  appliance_owner_scope: '<ACCESS_KEY>',
};

/**
 * Reads a token request. The content type is checked first, then that the body is a JSON object, then each of the four
 * fields in the order of the documentation, then the grant type. Fields are given even where the request is refused, so
 * that it can be told whose it was.
 */
export function readTokenRequest(contentType: string | undefined, body: string): [TokenRequestFields, Refusal?] {
  if (!isJson(contentType)) return [{}, wrongMediaType()];
  const parsed = parseObject(body);
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
