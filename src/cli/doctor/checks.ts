/** What a seen answer means for an integrator: findings, options of the library, and a sandbox that answers alike. */

import { agree, jwtLifetimeMs, type Path, type SeenAnswer, type SeenLifetime } from './answer.ts';
import type { Finding } from './report.ts';

/** Types that are repeated: what else stands in that place may be anything. */
const KNOWN_TYPES = ['bearer', 'mac', 'dpop', 'n_a'];

const at = (path: Path): string => path.join('.');

/** Whether the library finds this without being told where it is. */
const isAt = (path: Path | undefined, name: string): boolean => path === undefined || at(path) === name;

/** In what shape the answer was, how long the token lives, what kind it is. */
export function findingsOf(seen: SeenAnswer, nowMs: number): Finding[] {
  return [shapeOf(seen), lifetimeOf(seen, nowMs), formatOf(seen, nowMs)];
}

function shapeOf({ path, tokenType }: SeenAnswer): Finding {
  const type = tokenType?.value.toLowerCase();
  const isKnown = type !== undefined && KNOWN_TYPES.includes(type);
  const named =
    type === undefined ? 'no token type is stated, so it is Bearer' : `type ${isKnown ? type : 'of its own'}`;
  const facts = {
    tokenField: at(path),
    typeField: tokenType ? at(tokenType.path) : null,
    tokenType: isKnown ? type : null,
  };
  const isUsual = isAt(path, 'access_token') && isAt(tokenType?.path, 'token_type');
  const text = `${isUsual ? 'as RFC 6749 has it' : 'not that of RFC 6749'}: the token is in ${at(path)}; ${named}`;
  const status = isUsual && (isKnown || type === undefined) ? 'ok' : 'warning';
  return { check: 'shape', status, text, facts };
}

/** Lifetimes beyond these are believed, and worth a word. */
const SHORT_MS = 60_000;
const LONG_MS = 30 * 86_400_000;
const ABSURD_MS = 10 * 365 * 86_400_000;

function lifetimeOf({ lifetime, jwt }: SeenAnswer, nowMs: number): Finding {
  const check = 'lifetime';
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  if (!lifetime) {
    if (jwtMs === undefined)
      return { check, status: 'warning', text: 'none is stated: 300 s are assumed', facts: { field: null } };
    return {
      check,
      status: 'ok',
      text: `${seconds(jwtMs)}, by the token's own times alone`,
      facts: { field: null, jwtMs },
    };
  }
  const { path, kind, form, unit, guess, lifetimeMs = Number.NaN } = lifetime;
  const facts = { field: at(path), kind, form, unit, unitGuessedBy: guess, lifetimeMs };
  if (kind === 'unusable') return { check, status: 'warning', text: `${at(path)} holds no time`, facts };
  const isPlausible = lifetimeMs > 0 && lifetimeMs <= ABSURD_MS;
  if (!isPlausible) return { check, status: 'warning', text: `${at(path)} holds no plausible lifetime`, facts };
  const how =
    kind === 'instant' ? 'as an instant' : `as a ${form}, ${UNIT_WORDS[unit ?? 's']}${GUESS_WORDS[guess ?? 'size']}`;
  const odd = lifetimeMs < SHORT_MS ? ', which is short' : lifetimeMs > LONG_MS ? ', which is long' : '';
  const usual = path.length === 1 && path[0] === 'expires_in' && unit === 's';
  const text = `${seconds(lifetimeMs)}${odd}, stated in ${at(path)} ${how}`;
  return { check, status: usual && !odd ? 'ok' : 'warning', text, facts };
}

const UNIT_WORDS = { s: 'in seconds', ms: 'in milliseconds', min: 'in minutes' } as const;
const GUESS_WORDS = {
  jwt: ' (the token says the same)',
  name: ' (by its name)',
  size: ' (by its size: a guess)',
} as const;

function formatOf({ lifetime, jwt }: SeenAnswer, nowMs: number): Finding {
  const check = 'format';
  if (!jwt) return { check, status: 'ok', text: 'opaque', facts: { format: 'opaque' } };
  const hasIssued = jwt.issuedAtMs !== undefined;
  const hasEnd = jwt.expiresAtMs !== undefined;
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  const stated = lifetime?.lifetimeMs;
  const agrees = jwtMs === undefined || stated === undefined ? undefined : agree(stated, jwtMs);
  const facts = { format: 'jwt', hasExp: hasEnd, hasIat: hasIssued, ...(agrees !== undefined && { agrees }) };
  const claims = `a JWT ${hasEnd ? 'with' : 'without'} exp, ${hasIssued ? 'with' : 'without'} iat`;
  if (agrees === undefined) return { check, status: 'ok', text: claims, facts };
  if (agrees) return { check, status: 'ok', text: `${claims}, which say the same as the answer`, facts };
  return { check, status: 'warning', text: `${claims}, which say ${seconds(jwtMs ?? 0)}, unlike the answer`, facts };
}

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`;

/** The options that an integration with this service should set, as lines of code. None: the defaults fit. */
export function optionsFor(seen: SeenAnswer, revokesPrevious: boolean | undefined, nowMs: number): string[] {
  const expiry = expiryFor(seen, nowMs);
  return [
    ...(isAt(seen.path, 'access_token') && isAt(seen.tokenType?.path, 'token_type') ? [] : [parseGrantFor(seen)]),
    ...(expiry ? [`expiry: ${expiry}`] : []),
    ...(revokesPrevious
      ? ['source: new SharedTokens({ … })  // if there is more than one replica: docs/fleet.md']
      : []),
  ];
}

function parseGrantFor({ path, tokenType }: SeenAnswer): string {
  const type = tokenType ? `, tokenType: ${accessTo(tokenType.path)}` : '';
  return `parseResponse: (body) => ({ token: ${accessTo(path)}${type} })`;
}

const accessTo = (path: Path): string =>
  `body${path.map((name) => (/^\w+$/.test(name) ? `.${name}` : `['${name}']`)).join('')}`;

function expiryFor({ lifetime, jwt }: SeenAnswer, nowMs: number): string | undefined {
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  if (isUsable(lifetime) && lifetime.kind === 'duration') {
    const { path, unit } = lifetime;
    if (isAt(path, 'expires_in') && unit === 's') return undefined;
    return `firstKnown(expiresIn({ field: '${at(path)}', unit: '${unit}' }), jwtExp())`;
  }
  if (jwtMs !== undefined && jwtMs > 0) return lifetime ? 'jwtExp()' : undefined;
  if (isUsable(lifetime)) {
    const { path } = lifetime;
    return `{ lifetimeMs: (grant) => … }  // ${at(path)} is an instant: its epoch milliseconds − grant.requestedAtMs`;
  }
  return 'learnedLifetime()  // or untilRejected(), if tokens end only by being refused; fixedLifetime(ms), if you know';
}

function isUsable(lifetime: SeenLifetime | undefined): lifetime is SeenLifetime & { lifetimeMs: number } {
  const { lifetimeMs } = lifetime ?? {};
  return lifetimeMs !== undefined && lifetimeMs > 0 && lifetimeMs <= ABSURD_MS;
}

/** Options of a sandbox that answers as this service does, and in what it cannot. */
export function sandboxLike(
  seen: SeenAnswer,
  revokesPrevious: boolean | undefined,
  nowMs: number,
): { sandbox: object; differences: string[] } {
  const { path, tokenType, lifetime, jwt } = seen;
  const jwtMs = jwtLifetimeMs(jwt, nowMs);
  const lifetimeMs = isUsable(lifetime) ? lifetime.lifetimeMs : jwtMs;
  const profile = {
    ...shapeFor(seen),
    tokenFormat: jwt ? 'jwt' : 'opaque',
    ...(revokesPrevious !== undefined && { revokePrevious: revokesPrevious }),
  };
  const sandbox = {
    ...(lifetimeMs !== undefined &&
      lifetimeMs > 0 &&
      lifetimeMs <= ABSURD_MS && { lifetimeSeconds: Math.round(lifetimeMs / 100) / 10 || 0.1 }),
    profile,
  };
  const said = sandboxFields(profile);
  const differences = [
    ...differenceOf('the token', path, said?.token),
    ...differenceOf('its type', tokenType?.path, said?.type),
    ...differenceOf('its lifetime', lifetime?.path, said?.lifetime),
    ...(lifetime && (lifetime.kind !== 'duration' || lifetime.unit === 'min') ? ['how the lifetime is stated'] : []),
  ];
  return { sandbox, differences };
}

type Shape = {
  shape: 'rfc6749' | 'minimal' | 'odd';
  odd?: { lifetimeAs: string; camelCase: boolean; wrapped: boolean };
};

function shapeFor({ path, tokenType, lifetime }: SeenAnswer): Shape {
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

/** Where the sandbox puts what, in this shape. */
function sandboxFields({ shape, odd }: Shape): { token: string; type?: string; lifetime?: string } {
  if (shape === 'minimal') return { token: 'access_token' };
  const inside = odd?.wrapped ? 'data.' : '';
  const [token, type, lifetime] = odd?.camelCase
    ? ['accessToken', 'tokenType', 'expiresIn']
    : ['access_token', 'token_type', 'expires_in'];
  return { token: `${inside}${token}`, type: `${inside}${type}`, lifetime: `${inside}${lifetime}` };
}

function differenceOf(what: string, path: Path | undefined, said: string | undefined): string[] {
  const real = path && at(path);
  if (real === said) return [];
  return [`${what} is ${real ? `in ${real}` : 'not stated'}, in the sandbox ${said ? `in ${said}` : 'not stated'}`];
}
