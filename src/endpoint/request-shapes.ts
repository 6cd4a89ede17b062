/** The ready-made shapes of a token request. */

import { OptionCheck } from '../option-check.ts';
import { formEncoded } from './echoes.ts';
import { DEFAULT_PATH, isPath, PATH_EXPECTED, type TokenRequestShape } from './token-request.ts';

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
        /** Default: `appliance_owner_scope`. */
        accessKey?: string | undefined;
      }
    | undefined;
}

type Parameter = keyof NonNullable<RequestShapeOptions['parameters']>;
type Names = Readonly<Record<Parameter, string>>;

/** The names in the documented request. */
const NAMES: Names = Object.freeze({
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
export function jsonRequest(options: RequestShapeOptions = {}): TokenRequestShape {
  const { path, names } = checkedOptions('jsonRequest', options);
  return ({ clientId, clientSecret, accessKey }) => ({
    path,
    body: JSON.stringify({
      [names.grantType]: GRANT_TYPE,
      [names.clientId]: clientId,
      [names.clientSecret]: clientSecret,
      [names.accessKey]: accessKey,
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
export function formRequest(options: RequestShapeOptions = {}): TokenRequestShape {
  const { path, names } = checkedOptions('formRequest', options);
  return ({ clientId, clientSecret, accessKey }) => ({
    path,
    body: new URLSearchParams([
      [names.grantType, GRANT_TYPE],
      [names.clientId, clientId],
      [names.clientSecret, clientSecret],
      [names.accessKey, accessKey],
    ]),
  });
}

/**
 * Grant type and access key in a form, client id and client secret by HTTP Basic (`client_secret_basic`). Both are
 * form-encoded before they are joined, as the RFC says, which matters for characters other than letters, digits, `*`, `-`,
 * `.` and `_`; a server that does not decode them needs a shape of its own.
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
export function basicAuthRequest(options: RequestShapeOptions = {}): TokenRequestShape {
  const { path, names } = checkedOptions('basicAuthRequest', options, ['grantType', 'accessKey']);
  return ({ clientId, clientSecret, accessKey }) => {
    const credentials = Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64');
    return {
      path,
      headers: { Authorization: `Basic ${credentials}` },
      body: new URLSearchParams([
        [names.grantType, GRANT_TYPE],
        [names.accessKey, accessKey],
      ]),
    };
  };
}

/** The path and the parameter names, with their defaults. */
function checkedOptions(
  subject: string,
  options: RequestShapeOptions,
  parameters: readonly Parameter[] = ['grantType', 'clientId', 'clientSecret', 'accessKey'],
): { path: string; names: Names } {
  const check = new OptionCheck<RequestShapeOptions>(subject, options, ['path', 'parameters']);
  check.when('path', isPath, PATH_EXPECTED);
  const given = check.nested<Partial<Names>>('parameters', parameters);
  for (const name of parameters) {
    given?.when(name, (value) => typeof value === 'string' && value !== '', 'a non-empty string');
  }
  const names = { ...NAMES, ...given?.values } as Names;
  if (new Set(parameters.map((name) => names[name])).size < parameters.length) {
    check.problem('parameters', 'a different name for each parameter');
  }
  const { path = DEFAULT_PATH } = check.done();
  return { path, names };
}
