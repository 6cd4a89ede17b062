/** Derives check results, recommended options and sandbox options from a parsed answer. Pure. */

import { TOKEN_PATH } from '../environment.ts';
import { hasAccessKey, type RequestShape, shapeAsCode, textAsCode } from '../request-shape.ts';
import { agree, jwtLifetimeMs, type ParsedAnswer, type ParsedLifetime, type Path } from './answer.ts';
import type { CheckResult } from './report.ts';

/** The token types that are printed. Any other value of the field could be a secret. */
const KNOWN_TYPES = ['bearer', 'mac', 'dpop', 'n_a'];

const at = (path: Path): string => path.join('.');

/** Whether the library finds a field by default. */
const isAt = (path: Path | undefined, name: string): boolean => path === undefined || at(path) === name;

/** The checks of the answer's shape, the token's lifetime and its format. */
export function checksOn(answer: ParsedAnswer, nowMs: number): CheckResult[] {
  return [shapeOf(answer), lifetimeOf(answer, nowMs), formatOf(answer, nowMs)];
}

function shapeOf({ path, tokenType }: ParsedAnswer): CheckResult {
  const type = tokenType?.value.toLowerCase();
  const isKnown = type !== undefined && KNOWN_TYPES.includes(type);
  const typeText = type === undefined ? 'no token type, so Bearer is assumed' : typeTextOf(isKnown ? type : 'unknown');
  const facts = {
    tokenField: at(path),
    typeField: tokenType ? at(tokenType.path) : null,
    tokenType: isKnown ? type : null,
  };
  const isUsual = isAt(path, 'access_token') && isAt(tokenType?.path, 'token_type');
  const text = `${isUsual ? 'as in RFC 6749' : 'not as in RFC 6749'}: the token is in ${at(path)}; ${typeText}`;
  const isPresentable = type === undefined || type === 'bearer';
  const status = isUsual && isPresentable ? 'ok' : 'warning';
  return { check: 'shape', status, text, facts };
}

/** The library sends a registered scheme as it is, which is sufficient only for Bearer, and any other type as Bearer. */
function typeTextOf(type: string): string {
  if (type === 'bearer') return 'token type bearer';
  if (type !== 'dpop')
    return `token type ${type}, which is no registered scheme: the library presents the token as Bearer`;
  return `token type ${type}, which the library does not support: it sends the token alone, without the proof that this type requires`;
}

/** Lifetimes outside these bounds are plausible but worth a warning. */
const SHORT_MS = 60_000;
const LONG_MS = 30 * 86_400_000;
const ABSURD_MS = 10 * 365 * 86_400_000;

function lifetimeOf({ lifetime, jwt }: ParsedAnswer, nowMs: number): CheckResult {
  const check = 'lifetime';
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  if (!lifetime) {
    if (jwtMs === undefined)
      return { check, status: 'warning', text: 'not stated; a registry assumes 300 s', facts: { field: null } };
    return {
      check,
      status: 'ok',
      text: `${seconds(jwtMs)}, from the claims of the JWT alone`,
      facts: { field: null, jwtMs },
    };
  }
  const { path, kind, form, unit, guess, lifetimeMs = Number.NaN } = lifetime;
  const facts = { field: at(path), kind, form, unit, unitGuessedBy: guess, lifetimeMs };
  if (kind === 'unusable')
    return { check, status: 'warning', text: `${at(path)} holds neither a duration nor a date`, facts };
  const isPlausible = lifetimeMs > 0 && lifetimeMs <= ABSURD_MS;
  if (!isPlausible) return { check, status: 'warning', text: `${at(path)} holds no plausible lifetime`, facts };
  const usual = path.length === 1 && path[0] === 'expires_in' && unit === 's';
  // RFC 6749 fixes the unit of `expires_in`.
  const basis = usual && guess === 'size' ? '' : GUESS_WORDS[guess ?? 'size'];
  const how = kind === 'instant' ? 'as a date' : `as a ${form} of ${UNIT_WORDS[unit ?? 's']}${basis}`;
  const odd = lifetimeMs < SHORT_MS ? ' (short)' : lifetimeMs > LONG_MS ? ' (long)' : '';
  const text = `${seconds(lifetimeMs)}${odd}, in ${at(path)} ${how}`;
  return { check, status: usual && !odd ? 'ok' : 'warning', text, facts };
}

const UNIT_WORDS = { s: 'seconds', ms: 'milliseconds', min: 'minutes' } as const;
const GUESS_WORDS = {
  jwt: ' (the JWT agrees)',
  name: ' (from the name)',
  size: ' (a guess from the number)',
} as const;

function formatOf({ lifetime, jwt }: ParsedAnswer, nowMs: number): CheckResult {
  const check = 'format';
  if (!jwt) return { check, status: 'ok', text: 'opaque', facts: { format: 'opaque' } };
  const hasIssued = jwt.issuedAtMs !== undefined;
  const hasEnd = jwt.expiresAtMs !== undefined;
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  const stated = lifetime?.lifetimeMs;
  const agrees = jwtMs === undefined || stated === undefined ? undefined : agree(stated, jwtMs);
  const facts = { format: 'jwt', hasExp: hasEnd, hasIat: hasIssued, ...(agrees !== undefined && { agrees }) };
  const claims = `JWT ${hasEnd ? 'with' : 'without'} exp, ${hasIssued ? 'with' : 'without'} iat`;
  if (agrees === undefined) return { check, status: 'ok', text: claims, facts };
  if (agrees) return { check, status: 'ok', text: `${claims}, consistent with the response`, facts };
  return {
    check,
    status: 'warning',
    text: `${claims}: ${seconds(jwtMs ?? 0)}, which contradicts the response; use the shorter`,
    facts,
  };
}

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`;

/** What the answer itself does not tell. */
export interface Observed {
  /** Whether a second token revoked the first, if that was tried. */
  readonly revokesPrevious: boolean | undefined;
  /** The shape of the request that brought the token. */
  readonly shape: RequestShape;
  /** The base URL, if it was not the one that was given. */
  readonly baseUrl: URL | undefined;
  /** What was sent: not to be printed. */
  readonly sent: readonly string[];
}

/** The options that an integration with this service should set, as lines of code; empty if the defaults fit. */
export function optionsFor(answer: ParsedAnswer, observed: Observed, nowMs: number): string[] {
  const { revokesPrevious, shape, baseUrl, sent } = observed;
  const expiry = expiryFor(answer, nowMs);
  const tokenRequest = shapeAsCode(shape, sent);
  return [
    ...(baseUrl ? [`baseUrl: ${textAsCode(baseUrl.href.replace(/\/$/, ''), sent)}`] : []),
    ...(tokenRequest ? [`tokenRequest: ${tokenRequest}`] : []),
    ...(isAt(answer.path, 'access_token') && isAt(answer.tokenType?.path, 'token_type')
      ? []
      : [parseResponseFor(answer)]),
    ...(expiry ? [`expiry: ${expiry}`] : []),
    ...(revokesPrevious ? ['source: new SharedTokens({ … })  // with more than one replica: docs/fleet.md'] : []),
  ];
}

function parseResponseFor({ path, tokenType }: ParsedAnswer): string {
  const type = tokenType ? `, tokenType: ${accessTo(tokenType.path)}` : '';
  return `parseResponse: (body) => ({ token: ${accessTo(path)}${type} })`;
}

const accessTo = (path: Path): string =>
  `body${path.map((name) => (/^\w+$/.test(name) ? `.${name}` : `['${name}']`)).join('')}`;

function expiryFor({ lifetime, jwt }: ParsedAnswer, nowMs: number): string | undefined {
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  const isJwtShorter = isUsable(lifetime) && jwtMs !== undefined && jwtMs > 0 && jwtMs < lifetime.lifetimeMs;
  if (isJwtShorter && !agree(lifetime.lifetimeMs, jwtMs)) return 'jwtExp()';
  if (isUsable(lifetime) && lifetime.kind === 'duration') {
    const { path, unit } = lifetime;
    if (isAt(path, 'expires_in') && unit === 's') return undefined;
    return `firstKnown(expiresIn({ field: '${at(path)}', unit: '${unit}' }), jwtExp())`;
  }
  if (jwtMs !== undefined && jwtMs > 0) return lifetime ? 'jwtExp()' : undefined;
  if (isUsable(lifetime)) {
    const { path } = lifetime;
    return `{ lifetimeMs: (issued) => … }  // ${at(path)} is a date: its epoch milliseconds − issued.requestedAtMs`;
  }
  return 'learnedLifetime()  // or untilRejected() if tokens never expire, or fixedLifetime(ms) if you know the lifetime';
}

function isUsable(lifetime: ParsedLifetime | undefined): lifetime is ParsedLifetime & { lifetimeMs: number } {
  const { lifetimeMs } = lifetime ?? {};
  return lifetimeMs !== undefined && lifetimeMs > 0 && lifetimeMs <= ABSURD_MS;
}

/** Options of a sandbox that answers like this service, and the differences that remain. */
export function sandboxLike(
  answer: ParsedAnswer,
  { revokesPrevious, shape }: Observed,
  nowMs: number,
): { sandbox: object; differences: string[] } {
  const { path, tokenType, lifetime, jwt } = answer;
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  const statedMs = isUsable(lifetime) ? lifetime.lifetimeMs : Number.POSITIVE_INFINITY;
  const lifetimeMs = jwtMs !== undefined && jwtMs > 0 ? Math.min(statedMs, jwtMs) : statedMs;
  const profile = {
    ...((shape.encoding ?? 'json') !== 'json' && { acceptForms: true }),
    ...shapeFor(answer),
    tokenFormat: jwt ? 'jwt' : 'opaque',
    ...(revokesPrevious !== undefined && { revokePrevious: revokesPrevious }),
  };
  const sandbox = {
    ...(lifetimeMs > 0 && lifetimeMs <= ABSURD_MS && { lifetimeSeconds: Math.round(lifetimeMs / 100) / 10 || 0.1 }),
    profile,
  };
  const fields = sandboxFields(profile);
  const differences = [
    ...(shape.path !== undefined && shape.path !== TOKEN_PATH ? ['the path of the token endpoint'] : []),
    ...(Object.values(shape.parameters ?? {}).some(Boolean) ? ['the names of the parameters'] : []),
    ...(hasAccessKey(shape) ? [] : ['no access key']),
    ...differenceOf('token', path, fields.token),
    ...differenceOf('token type', tokenType?.path, fields.type),
    ...differenceOf('lifetime', lifetime?.path, fields.lifetime),
    ...(lifetime && (lifetime.kind !== 'duration' || lifetime.unit === 'min') ? ['the format of the lifetime'] : []),
  ];
  return { sandbox, differences };
}

type Shape = {
  shape: 'rfc6749' | 'minimal' | 'odd';
  odd?: { lifetimeAs: string; camelCase: boolean; wrapped: boolean };
};

function shapeFor({ path, tokenType, lifetime }: ParsedAnswer): Shape {
  const isFlat = isAt(path, 'access_token');
  if (isFlat && !tokenType && !lifetime) return { shape: 'minimal' };
  const isNumber = lifetime?.form === 'number' && lifetime.unit === 's';
  if (isFlat && isAt(tokenType?.path, 'token_type') && (!lifetime || (isAt(lifetime.path, 'expires_in') && isNumber))) {
    return { shape: 'rfc6749' };
  }
  const lifetimeAs = lifetime?.unit === 'ms' ? 'milliseconds' : lifetime?.form === 'string' ? 'string' : 'number';
  return {
    shape: 'odd',
    odd: { lifetimeAs, camelCase: /[a-z][A-Z]/.test(path.at(-1) ?? ''), wrapped: path.length > 1 },
  };
}

/** The fields of the sandbox's answer in this shape. */
function sandboxFields({ shape, odd }: Shape): { token: string; type?: string; lifetime?: string } {
  if (shape === 'minimal') return { token: 'access_token' };
  const inside = odd?.wrapped ? 'data.' : '';
  const [token, type, lifetime] = odd?.camelCase
    ? ['accessToken', 'tokenType', 'expiresIn']
    : ['access_token', 'token_type', 'expires_in'];
  return { token: `${inside}${token}`, type: `${inside}${type}`, lifetime: `${inside}${lifetime}` };
}

function differenceOf(what: string, path: Path | undefined, field: string | undefined): string[] {
  const real = path && at(path);
  if (real === field) return [];
  return [`${what}: ${real ?? 'absent'} (sandbox: ${field ?? 'absent'})`];
}
