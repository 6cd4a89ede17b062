/**
 * Token requests: the ready-made shapes, which build them from the credentials, and the check of what a shape returned. A
 * request may go only to the origin of `baseUrl`, so a shape may neither name another host nor leave the path of `baseUrl`.
 */

import { checkOptions, type OptionRule } from '../option-check.ts';
import { properties } from '../own-property.ts';

/**
 * What a {@link TokenRequestShape} makes a request from. These are secrets: do not log them.
 *
 * @example
 * ```ts
 * const bodyOf = ({ accessKey }: TokenRequestCredentials) => new URLSearchParams({ tenant: accessKey });
 * ```
 */
export interface TokenRequestCredentials {
  /** The option of that name. */
  readonly clientId: string;
  /** The option of that name, or what its function returned for this request. */
  readonly clientSecret: string;
  /** The access key of the owner. */
  readonly accessKey: string;
}

/**
 * A token request. It is always a POST to the origin of `baseUrl`.
 *
 * @example
 * ```ts
 * const parts: TokenRequestParts = {
 *   path: '/oauth/token',
 *   body: new URLSearchParams({ grant_type: 'client_credentials' }),
 * };
 * ```
 */
export interface TokenRequestParts<Body extends string | URLSearchParams = string | URLSearchParams> {
  /**
   * Appended to the path of `baseUrl`: begins with one `/`, is percent-encoded and has neither `.` and `..` segments nor a
   * fragment; it may have a query. Default: `/auth/v1/token`.
   */
  readonly path?: string | undefined;
  /**
   * Further headers. By default `Content-Type` fits the body, `Accept` is `application/json` and `User-Agent` is
   * `owner-token-registry`. Headers that decide where a request goes, or where it ends, such as `Host`, are refused.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A string is sent as `application/json` unless `headers` says otherwise, `URLSearchParams` as a form. */
  readonly body: Body;
}

/**
 * Makes a token request from the credentials. It is called for each request, and by `identity()` with placeholder values:
 * for equal values it must return equal requests.
 *
 * @example
 * ```ts
 * const shape: TokenRequestShape = ({ clientId, clientSecret, accessKey }) => ({
 *   path: '/v2/token',
 *   headers: { 'X-Client': clientId, 'X-Secret': clientSecret },
 *   body: JSON.stringify({ owner: accessKey }),
 * });
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, tokenRequest: shape });
 * ```
 */
export type TokenRequestShape<Body extends string | URLSearchParams = string | URLSearchParams> = (
  credentials: TokenRequestCredentials,
) => TokenRequestParts<Body>;

export const DEFAULT_PATH = '/auth/v1/token';

/**
 * Options of the ready-made shapes.
 *
 * @example
 * ```ts
 * const options: RequestShapeOptions = { path: '/oauth/token', parameters: { accessKey: 'tenant' } };
 * ```
 */
export interface RequestShapeOptions {
  /** As in `TokenRequestParts`. Default: `/auth/v1/token`. */
  path?: string | undefined;
  /** Names of the parameters: not empty, and all different. */
  parameters?:
    | {
        /** Default: `grant_type`; its value is `client_credentials`. */
        grantType?: string | undefined;
        /** Default: `client_id`. */
        clientId?: string | undefined;
        /** Default: `client_secret`. */
        clientSecret?: string | undefined;
        /** Default: `appliance_owner_scope`. `false` leaves the parameter out, for a service that has no access keys. */
        accessKey?: string | false | undefined;
      }
    | undefined;
  /**
   * Further parameters with fixed values, such as `audience` or `scope`, sent after the others. Names: not empty, and none that the
   * shape sends itself; for `basicAuthRequest` not `client_secret` either. Values: strings, which may be empty. No secrets: errors may
   * repeat them. Default: none.
   *
   * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-8.2 RFC 6749 §8.2, new endpoint parameters}
   */
  extra?: Readonly<Record<string, string>> | undefined;
}

type Parameter = keyof NonNullable<RequestShapeOptions['parameters']>;
type ParameterNames = Readonly<Record<Exclude<Parameter, 'accessKey'>, string> & { accessKey: string | false }>;

/** The names in the documented request. */
const NAMES: ParameterNames = Object.freeze({
  grantType: 'grant_type',
  clientId: 'client_id',
  clientSecret: 'client_secret',
  accessKey: 'appliance_owner_scope',
});

const GRANT_TYPE = 'client_credentials';

/**
 * The documented request, and the default: all four parameters in a JSON object.
 *
 * @throws {OwnerTokenError} `invalid_options`
 *
 * @example
 * ```ts
 * const tokenRequest = jsonRequest({ path: '/auth/v2/token' });
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, tokenRequest });
 * ```
 */
export function jsonRequest(options: RequestShapeOptions = {}): TokenRequestShape<string> {
  const { path, names, extra } = checkedShapeOptions('jsonRequest', options);
  const fixed = Object.fromEntries(extra);
  return ({ clientId, clientSecret, accessKey }) => ({
    path,
    body: JSON.stringify({
      [names.grantType]: GRANT_TYPE,
      [names.clientId]: clientId,
      [names.clientSecret]: clientSecret,
      ...(names.accessKey !== false && { [names.accessKey]: accessKey }),
      ...fixed,
    }),
  });
}

/**
 * All four parameters in a form, as OAuth servers take them (`client_secret_post`).
 *
 * @throws {OwnerTokenError} `invalid_options`
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-4.4.2 RFC 6749 §4.4.2}
 *
 * @example
 * ```ts
 * const tokenRequest = formRequest({ path: '/oauth/token', parameters: { accessKey: 'tenant' } });
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, tokenRequest });
 * ```
 */
export function formRequest(options: RequestShapeOptions = {}): TokenRequestShape<URLSearchParams> {
  const { path, names, extra } = checkedShapeOptions('formRequest', options);
  return ({ clientId, clientSecret, accessKey }) => ({
    path,
    body: new URLSearchParams([
      [names.grantType, GRANT_TYPE],
      [names.clientId, clientId],
      [names.clientSecret, clientSecret],
      ...keyIn(names, accessKey),
      ...extra,
    ]),
  });
}

/**
 * Grant type and access key in a form, client id and client secret by HTTP Basic (`client_secret_basic`). Both are
 * form-encoded before they are joined, as the RFC says, which matters for characters other than letters, digits, `*`, `-`,
 * `.` and `_`; a server that does not decode them needs a custom shape.
 *
 * @throws {OwnerTokenError} `invalid_options`
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1 RFC 6749 §2.3.1}
 *
 * @example
 * ```ts
 * const tokenRequest = basicAuthRequest({ path: '/oauth/token', parameters: { accessKey: 'tenant' } });
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, tokenRequest });
 * ```
 */
export function basicAuthRequest(options: RequestShapeOptions = {}): TokenRequestShape<URLSearchParams> {
  const { path, names, extra } = checkedShapeOptions('basicAuthRequest', options, ['grantType', 'accessKey']);
  return ({ clientId, clientSecret, accessKey }) => {
    const credentials = Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64');
    return {
      path,
      headers: { Authorization: `Basic ${credentials}` },
      body: new URLSearchParams([[names.grantType, GRANT_TYPE], ...keyIn(names, accessKey), ...extra]),
    };
  };
}

/** The access key's parameter, unless the shape leaves it out. */
const keyIn = ({ accessKey: name }: ParameterNames, value: string): [name: string, value: string][] =>
  name === false ? [] : [[name, value]];

/** The path and the parameter names, with their defaults, and the further parameters. */
function checkedShapeOptions(
  subject: string,
  options: RequestShapeOptions,
  parameters: readonly Parameter[] = ['grantType', 'clientId', 'clientSecret', 'accessKey'],
): { path: string; names: ParameterNames; extra: readonly [name: string, value: string][] } {
  const nameRules = Object.fromEntries(parameters.map((name) => [name, nameOf(name)]));
  const rules = {
    path: { passes: isPath, expected: PATH_EXPECTED, fallback: DEFAULT_PATH },
    parameters: { options: nameRules },
    extra: { passes: areStrings, expected: 'an object with a string for each name', fallback: {} },
  };
  const checked = checkOptions(subject, options, rules, (given, problems) => {
    const names = { ...NAMES, ...(given.parameters as Partial<ParameterNames>) };
    const sent = parameters.map((name) => names[name]).filter((name) => name !== false);
    if (new Set(sent).size < sent.length) {
      problems.push('parameters: expected a different name for each parameter');
    }
    const own = [...sent, names.clientSecret];
    if (Object.keys(given.extra ?? {}).some((name) => own.includes(name)))
      problems.push('extra: expected no name that the shape sends itself');
  });
  const extra = Object.entries(checked.extra as object);
  return { path: checked.path as string, names: checked.parameters as ParameterNames, extra };
}

function areStrings(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([name, each]) => name !== '' && typeof each === 'string');
}

const nameOf = (parameter: Parameter): OptionRule => ({
  passes: (value) => (typeof value === 'string' && value !== '') || (parameter === 'accessKey' && value === false),
  expected: parameter === 'accessKey' ? 'a non-empty string, or false' : 'a non-empty string',
  fallback: NAMES[parameter],
});

/** A request that cannot be sent. The message names the part and what was expected, and quotes no value. */
export class UnusableRequest extends TypeError {}

/** A checked request, with all its headers. */
export interface CheckedRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Checks what a shape returned, and reads each part once.
 *
 * @throws {UnusableRequest}
 */
export function checkedRequest(returned: unknown): CheckedRequest {
  if (typeof returned !== 'object' || returned === null || 'then' in returned) {
    throw new UnusableRequest('expected an object with path, headers and body');
  }
  for (const name of Object.keys(returned)) {
    if (!PARTS.includes(name)) throw new UnusableRequest('expected no properties other than path, headers and body');
  }
  const { path: givenPath, headers: givenHeaders, body } = properties(returned, PARTS);
  const path = givenPath ?? DEFAULT_PATH;
  // The usual path is not parsed for each request.
  if (path !== DEFAULT_PATH && !isPath(path)) throw new UnusableRequest(`path: expected ${PATH_EXPECTED}`);
  const isForm = body instanceof URLSearchParams;
  if (!isForm && typeof body !== 'string') throw new UnusableRequest('body: expected a string or URLSearchParams');
  const defaults = isForm ? FORM_HEADERS : JSON_HEADERS;
  const headers = givenHeaders === undefined ? defaults : withDefaults(givenHeaders, defaults);
  return { path, headers, body: isForm ? body.toString() : body };
}

const PARTS: readonly string[] = ['path', 'headers', 'body'] satisfies (keyof TokenRequestParts)[];

const PATH_EXPECTED =
  'a percent-encoded path that begins with one "/", without "." and ".." segments and without a fragment';

/** Whether a value is a path in its normal form: a URL parser would leave it as it is. */
export function isPath(value: unknown): value is string {
  if (typeof value !== 'string' || !/^\/(?!\/)[^#]*$/.test(value)) return false;
  return new URL(`https://host${value}`).href === `https://host${value}`;
}

const JSON_HEADERS = Object.freeze({
  'Content-Type': 'application/json',
  Accept: 'application/json',
  'User-Agent': 'owner-token-registry',
});

const FORM_HEADERS = Object.freeze({ ...JSON_HEADERS, 'Content-Type': 'application/x-www-form-urlencoded' });

/** They decide where a request goes, or where it ends. */
const REFUSED_HEADERS: readonly string[] = [
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'proxy-connection',
  'upgrade',
  'expect',
  'te',
  'trailer',
];

function withDefaults(given: unknown, defaults: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  if (typeof given !== 'object' || given === null || Symbol.iterator in given) {
    throw new UnusableRequest('headers: expected an object with a string for each name');
  }
  const entries = Object.entries(given);
  const names = entries.map(([name]) => name.toLowerCase());
  if (!names.every((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name)))
    throw new UnusableRequest('headers: expected header names');
  const refused = names.find((name) => REFUSED_HEADERS.includes(name));
  if (refused) throw new UnusableRequest(`headers: expected no ${refused} header`);
  const isValue = ([, value]: [string, unknown]) =>
    typeof value === 'string' && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
  if (!entries.every(isValue))
    throw new UnusableRequest('headers: expected strings of characters that are allowed in a header');
  const absent = Object.entries(defaults).filter(([name]) => !names.includes(name.toLowerCase()));
  return Object.fromEntries([...absent, ...entries]);
}

/** @see {@link https://www.rfc-editor.org/rfc/rfc6749#appendix-B RFC 6749 Appendix B} */
function formEncoded(value: string): string {
  return new URLSearchParams([['', value]]).toString().slice(1);
}
