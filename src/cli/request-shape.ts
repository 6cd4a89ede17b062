/** The flags and variables with which `token` and `doctor` shape the token request, and the same shape as code. */

import {
  basicAuthRequest,
  formRequest,
  jsonRequest,
  OwnerTokenError,
  type RequestShapeOptions,
  type TokenRequestShape,
} from '../index.ts';
import { type FlagValues, type Terminal, UsageError } from './command.ts';

export const SHAPE_FLAGS = {
  'token-path': { type: 'string' },
  form: { type: 'boolean' },
  basic: { type: 'boolean' },
  parameter: { type: 'string', multiple: true },
  'no-access-key': { type: 'boolean' },
  extra: { type: 'string', multiple: true },
} as const;

/** The lines of a usage text that describe {@link readShape}. */
export const SHAPE_USAGE = `  --token-path P          path of the token endpoint below OTR_BASE_URL; default /auth/v1/token (OTR_TOKEN_PATH)
  --form, --basic         send a form, or a form with client id and secret by HTTP Basic, instead of JSON
                          (OTR_TOKEN_ENCODING: json, form or basic)
  --parameter NAME=N      another name for a parameter: accessKey, clientId, clientSecret or grantType; repeatable
                          (OTR_TOKEN_PARAMETERS, joined by &)
  --no-access-key         leave the access key out, for a service that has none: OTR_ACCESS_KEY is not read
  --extra N=VALUE         a further parameter with a fixed value, such as audience=…; repeatable (OTR_TOKEN_EXTRA,
                          joined by &)`;

export type Encoding = 'json' | 'form' | 'basic';

/** The shape of a token request. */
export interface RequestShape {
  /** Undefined if neither a flag nor a variable says. */
  readonly encoding?: Encoding | undefined;
  readonly path?: string | undefined;
  readonly parameters?: RequestShapeOptions['parameters'];
  readonly extra?: Readonly<Record<string, string>> | undefined;
}

const MAKERS = { json: jsonRequest, form: formRequest, basic: basicAuthRequest } as const;

export const ENCODINGS = Object.keys(MAKERS) as readonly Encoding[];

/** Reads flags, and variables where there is no flag. Errors never quote a value. */
export function readShape(flags: FlagValues<typeof SHAPE_FLAGS>, { env }: Pick<Terminal, 'env'>): RequestShape {
  if (flags.form && flags.basic) throw new UsageError('--form and --basic: expected one of them');
  const encoding = flags.form ? 'form' : flags.basic ? 'basic' : env.OTR_TOKEN_ENCODING || undefined;
  if (encoding !== undefined && !Object.hasOwn(MAKERS, encoding)) {
    throw new UsageError('OTR_TOKEN_ENCODING: expected json, form or basic');
  }
  const parameters = flags.parameter ?? env.OTR_TOKEN_PARAMETERS?.split('&');
  const extra = flags.extra ?? [...new URLSearchParams(env.OTR_TOKEN_EXTRA)].map((pair) => pair.join('='));
  const named: RequestShape['parameters'] = pairsOf(parameters, '--parameter');
  if (flags['no-access-key'] && named?.accessKey !== undefined) {
    throw new UsageError('--no-access-key and --parameter accessKey: expected one of them');
  }
  const shape: RequestShape = {
    encoding: encoding as Encoding | undefined,
    path: flags['token-path'] ?? (env.OTR_TOKEN_PATH || undefined),
    parameters: flags['no-access-key'] ? { ...named, accessKey: false } : named,
    extra: pairsOf(extra, '--extra'),
  };
  makeShape(shape);
  return shape;
}

function pairsOf(pairs: readonly string[] = [], flag: string): Record<string, string> | undefined {
  const given = pairs.filter((pair) => pair !== '');
  if (given.some((pair) => !/^[^=]+=/.test(pair))) throw new UsageError(`${flag}: expected NAME=…`);
  const entries = given.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** Whether the request names an owner. */
export const hasAccessKey = ({ parameters }: RequestShape): boolean => parameters?.accessKey !== false;

/** The options of the ready-made shape. HTTP Basic has no parameters for client id and secret. */
function optionsOf({ encoding, path, parameters, extra }: RequestShape): RequestShapeOptions {
  const { clientId: _, clientSecret: __, ...named } = parameters ?? {};
  const names = encoding === 'basic' ? named : (parameters ?? {});
  return {
    ...(path !== undefined && { path }),
    ...(Object.keys(names).length > 0 && { parameters: names }),
    ...(extra && { extra }),
  };
}

/** @throws UsageError for a path or a name that cannot be sent. */
export function makeShape(shape: RequestShape): TokenRequestShape {
  try {
    return MAKERS[shape.encoding ?? 'json'](optionsOf(shape));
  } catch (error) {
    if (!(error instanceof OwnerTokenError)) throw error;
    throw new UsageError(error.message.replace(/^.*\n/, '--token-path, --parameter or --extra:\n'));
  }
}

/** The shape as code to paste; undefined for the default. A value that contains something secret is left out. */
export function shapeAsCode(shape: RequestShape, secrets: readonly string[]): string | undefined {
  const literal = literalOf(optionsOf(shape), secrets);
  if (literal === '{}')
    return (shape.encoding ?? 'json') === 'json' ? undefined : `${MAKERS[shape.encoding ?? 'json'].name}()`;
  return `${MAKERS[shape.encoding ?? 'json'].name}(${literal})`;
}

function literalOf(value: object, secrets: readonly string[]): string {
  const members = Object.entries(value).map(([name, each]) => {
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : quoted(name);
    if (each === false) return `${key}: false`;
    return `${key}: ${typeof each === 'object' ? literalOf(each, secrets) : textAsCode(each, secrets)}`;
  });
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}

/** Shorter values occur in ordinary words. */
const MIN_SECRET_LENGTH = 6;

/** A text as code; `…` if it contains something secret. */
export const textAsCode = (text: string, secrets: readonly string[]): string =>
  secrets.some((secret) => secret.length >= MIN_SECRET_LENGTH && text.includes(secret)) ? '…' : quoted(text);

const quoted = (text: string): string =>
  `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
