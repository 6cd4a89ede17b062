/**
 * What an answer with a token says, whatever its shape: pure, and told in a vocabulary that is fixed here. A field's name
 * is repeated only if it is one of those looked for; a value only if it is a number, and nothing that was sent.
 */

/** Names as they are without case, `-` and `_`; those before go first. */
const TOKEN_NAMES = ['accesstoken', 'token', 'bearertoken', 'authtoken', 'jwt'];
const WRAPPER_NAMES = ['data', 'result', 'results', 'response', 'payload', 'body', 'content', 'token', 'auth', 'oauth'];
const TYPE_NAMES = ['tokentype'];
const LIFETIME_NAMES = ['expiresin', 'expiresinseconds', 'expiresinms', 'ttl', 'lifetime', 'validfor'];
const END_NAMES = ['expiresat', 'expireson', 'expirationtime', 'expiration', 'expires', 'expiry', 'exp'];

/** How many objects an answer's token may be wrapped in. */
const MAX_DEPTH = 2;

export type Path = readonly string[];

/** What was found, and where. */
export interface SeenAnswer {
  readonly token: string;
  readonly path: Path;
  readonly tokenType?: { readonly value: string; readonly path: Path };
  readonly lifetime?: SeenLifetime;
  readonly jwt?: JwtTimes;
}

export interface SeenLifetime {
  readonly path: Path;
  /** `unusable`: there is something, and it is no time. */
  readonly kind: 'duration' | 'instant' | 'unusable';
  readonly form: 'number' | 'string';
  readonly unit?: 'ms' | 's' | 'min';
  /** By what the unit was guessed. */
  readonly guess?: 'jwt' | 'name' | 'size';
  readonly lifetimeMs?: number;
}

/** What a JWT states of itself, unverified. */
export interface JwtTimes {
  readonly issuedAtMs?: number;
  readonly expiresAtMs?: number;
}

/**
 * Looks for the token at the top of a body first, then inside what services wrap answers in. A string that was sent is
 * an echo and no token. Undefined where there is none.
 */
export function seenIn(
  body: unknown,
  { sent, nowMs }: { sent: readonly string[]; nowMs: number },
): SeenAnswer | undefined {
  for (const { path, object } of containersOf(body)) {
    const isToken = (value: unknown) => typeof value === 'string' && value !== '' && !sent.includes(value);
    const token = fieldOf(object, TOKEN_NAMES, isToken);
    if (!token) continue;
    const value = token.value as string;
    const type = fieldOf(object, TYPE_NAMES, (found) => typeof found === 'string' && found !== '');
    const jwt = jwtOf(value);
    const isStated = (found: unknown) => found !== null && !sent.includes(String(found));
    const life = fieldOf(object, [...LIFETIME_NAMES, ...END_NAMES], isStated);
    return {
      token: value,
      path: [...path, token.name],
      ...(type && { tokenType: { value: type.value as string, path: [...path, type.name] } }),
      ...(life && { lifetime: lifetimeOf({ ...life, path: [...path, life.name] }, jwt, nowMs) }),
      ...(jwt && { jwt }),
    };
  }
  return undefined;
}

const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_]/g, '');
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A body, and the objects that may be wrapped in it, the outer ones first. */
function containersOf(body: unknown): { path: string[]; object: Record<string, unknown> }[] {
  const found = isObject(body) ? [{ path: [] as string[], object: body }] : [];
  for (const { path, object } of found) {
    if (path.length === MAX_DEPTH) continue;
    for (const [name, value] of Object.entries(object)) {
      if (isObject(value) && WRAPPER_NAMES.includes(plain(name))) found.push({ path: [...path, name], object: value });
    }
  }
  return found;
}

function fieldOf(object: Record<string, unknown>, names: readonly string[], passes: (value: unknown) => boolean) {
  const entries = Object.entries(object);
  for (const wanted of names) {
    const entry = entries.find(([name, value]) => plain(name) === wanted && passes(value));
    if (entry) return { name: entry[0], value: entry[1] };
  }
  return undefined;
}

const TEN_YEARS_MS = 10 * 365 * 86_400_000;

function lifetimeOf(
  { name, value, path }: { name: string; value: unknown; path: Path },
  jwt: JwtTimes | undefined,
  nowMs: number,
): SeenLifetime {
  const form = typeof value === 'number' ? 'number' : 'string';
  const number = numberOf(value);
  const endMs = instantOf(value, number, nowMs);
  if (endMs !== undefined) return { path, form, kind: 'instant', lifetimeMs: endMs - nowMs };
  if (Number.isNaN(number)) return { path, form, kind: 'unusable' };
  const { unit, guess } = unitOf(plain(name), number, jwtLifetimeMs(jwt, nowMs));
  return { path, form, kind: 'duration', unit, guess, lifetimeMs: number * UNITS_MS[unit] };
}

const UNITS_MS = { ms: 1, s: 1000, min: 60_000 } as const;

function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^[+-]?\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : Number.NaN;
}

/** A date, or a number that as seconds or milliseconds since 1970 lies within the next ten years. */
function instantOf(value: unknown, number: number, nowMs: number): number | undefined {
  const isDate = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:?\d\d)$/.test(value);
  const candidates = isDate ? [Date.parse(value)] : [number * 1000, number];
  return candidates.find((atMs) => atMs > nowMs - 60_000 && atMs < nowMs + TEN_YEARS_MS);
}

/**
 * In what a lifetime is stated: as a JWT's own times have it, as its name says, or else by its size. Over a minute's
 * worth of milliseconds, a number that is whole minutes of them, and no whole days of seconds, is hardly in seconds.
 */
function unitOf(
  name: string,
  value: number,
  jwtMs: number | undefined,
): Required<Pick<SeenLifetime, 'unit' | 'guess'>> {
  for (const unit of ['s', 'ms', 'min'] as const) {
    if (jwtMs !== undefined && agree(value * UNITS_MS[unit], jwtMs)) return { unit, guess: 'jwt' };
  }
  if (name.endsWith('seconds')) return { unit: 's', guess: 'name' };
  if (name.endsWith('ms')) return { unit: 'ms', guess: 'name' };
  const areMs = value >= 60_000 && value % 60_000 === 0 && value % 86_400 !== 0;
  return { unit: areMs ? 'ms' : 's', guess: 'size' };
}

/** Two lifetimes that differ by no more than rounding and the making of an answer explain. */
export function agree(aMs: number, bMs: number): boolean {
  return Math.abs(aMs - bMs) <= Math.max(2_000, bMs * 0.01);
}

export function jwtLifetimeMs(jwt: JwtTimes | undefined, nowMs: number): number | undefined {
  return jwt?.expiresAtMs === undefined ? undefined : jwt.expiresAtMs - (jwt.issuedAtMs ?? nowMs);
}

/** The times in a JWT; undefined for an opaque token. */
function jwtOf(token: string): JwtTimes | undefined {
  const encoded = /^[\w-]+\.([\w-]+)\.[\w-]*$/.exec(token)?.[1];
  if (encoded === undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'));
    if (!isObject(claims)) return undefined;
    const { iat, exp } = claims;
    return {
      ...(typeof iat === 'number' && { issuedAtMs: iat * 1000 }),
      ...(typeof exp === 'number' && { expiresAtMs: exp * 1000 }),
    };
  } catch {
    return undefined;
  }
}
