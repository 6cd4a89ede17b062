/**
 * Finds the token and its lifetime in an answer of any common shape. Pure. The result is safe to print: it holds field
 * names only from the lists below, values only if they are numbers, and nothing that was sent.
 */

/** Field names in lower case without `-` and `_`, in order of preference. */
const TOKEN_NAMES = ['accesstoken', 'token', 'bearertoken', 'authtoken', 'jwt'];
const WRAPPER_NAMES = ['data', 'result', 'results', 'response', 'payload', 'body', 'content', 'token', 'auth', 'oauth'];
const TYPE_NAMES = ['tokentype'];
const LIFETIME_NAMES = ['expiresin', 'expiresinseconds', 'expiresinms', 'ttl', 'lifetime', 'validfor'];
const END_NAMES = ['expiresat', 'expireson', 'expirationtime', 'expiration', 'expires', 'expiry', 'exp'];

/** How many wrapper objects are searched. */
const MAX_DEPTH = 2;

export type Path = readonly string[];

/** The fields of an answer, and where they are. */
export interface ParsedAnswer {
  readonly token: string;
  readonly path: Path;
  readonly tokenType?: { readonly value: string; readonly path: Path };
  readonly lifetime?: ParsedLifetime;
  readonly jwt?: JwtTimes;
}

export interface ParsedLifetime {
  readonly path: Path;
  /** `unusable`: the field holds neither a duration nor an instant. */
  readonly kind: 'duration' | 'instant' | 'unusable';
  readonly form: 'number' | 'string';
  readonly unit?: 'ms' | 's' | 'min';
  /** The basis for the unit. */
  readonly guess?: 'jwt' | 'name' | 'size';
  readonly lifetimeMs?: number;
}

/** The time claims of a JWT, unverified. */
export interface JwtTimes {
  readonly issuedAtMs?: number;
  readonly expiresAtMs?: number;
}

/**
 * Searches a body for the token, the top level first and then the usual wrapper objects. A string that was sent is an
 * echo, not a token. Returns undefined without a token.
 */
export function parseAnswer(
  body: unknown,
  { sent, nowMs }: { sent: readonly string[]; nowMs: number },
): ParsedAnswer | undefined {
  for (const { path, object } of containersOf(body)) {
    const isToken = (value: unknown) => typeof value === 'string' && value !== '' && !sent.includes(value);
    const token = fieldOf(object, TOKEN_NAMES, isToken);
    if (!token) continue;
    const value = token.value as string;
    const type = fieldOf(object, TYPE_NAMES, (found) => typeof found === 'string' && found !== '');
    const jwt = jwtOf(value);
    const isLifetime = (found: unknown) => found !== null && !sent.includes(String(found));
    const lifetime = fieldOf(object, [...LIFETIME_NAMES, ...END_NAMES], isLifetime);
    return {
      token: value,
      path: [...path, token.name],
      ...(type && { tokenType: { value: type.value as string, path: [...path, type.name] } }),
      ...(lifetime && { lifetime: lifetimeOf({ ...lifetime, path: [...path, lifetime.name] }, jwt, nowMs) }),
      ...(jwt && { jwt }),
    };
  }
  return undefined;
}

const normalized = (name: string): string => name.toLowerCase().replaceAll(/[-_]/g, '');
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The body and the wrapper objects inside it, outermost first. */
function containersOf(body: unknown): { path: string[]; object: Record<string, unknown> }[] {
  const found = isObject(body) ? [{ path: [] as string[], object: body }] : [];
  for (const { path, object } of found) {
    if (path.length === MAX_DEPTH) continue;
    for (const [name, value] of Object.entries(object)) {
      if (isObject(value) && WRAPPER_NAMES.includes(normalized(name)))
        found.push({ path: [...path, name], object: value });
    }
  }
  return found;
}

function fieldOf(object: Record<string, unknown>, names: readonly string[], passes: (value: unknown) => boolean) {
  const entries = Object.entries(object);
  for (const wanted of names) {
    const entry = entries.find(([name, value]) => normalized(name) === wanted && passes(value));
    if (entry) return { name: entry[0], value: entry[1] };
  }
  return undefined;
}

const TEN_YEARS_MS = 10 * 365 * 86_400_000;

function lifetimeOf(
  { name, value, path }: { name: string; value: unknown; path: Path },
  jwt: JwtTimes | undefined,
  nowMs: number,
): ParsedLifetime {
  const form = typeof value === 'number' ? 'number' : 'string';
  const number = numberOf(value);
  const endMs = instantOf(value, number, nowMs);
  if (endMs !== undefined) return { path, form, kind: 'instant', lifetimeMs: endMs - nowMs };
  if (Number.isNaN(number)) return { path, form, kind: 'unusable' };
  const { unit, guess } = unitOf(normalized(name), number, jwtLifetimeMs(jwt, nowMs));
  return { path, form, kind: 'duration', unit, guess, lifetimeMs: number * UNITS_MS[unit] };
}

const UNITS_MS = { ms: 1, s: 1000, min: 60_000 } as const;

function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^[+-]?\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : Number.NaN;
}

/** The epoch milliseconds of a date, or of a number that lies within the next ten years as epoch seconds or milliseconds. */
function instantOf(value: unknown, number: number, nowMs: number): number | undefined {
  const isDate = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:?\d\d)$/.test(value);
  const candidates = isDate ? [Date.parse(value)] : [number * 1000, number];
  return candidates.find((atMs) => atMs > nowMs - 60_000 && atMs < nowMs + TEN_YEARS_MS);
}

/**
 * The unit of a lifetime: the one that agrees with the JWT's own times, else the one in the field's name, else a guess
 * from the number. A number of at least 60,000 that is a whole number of minutes as milliseconds, and not a whole number
 * of days as seconds, is taken as milliseconds.
 */
function unitOf(
  name: string,
  value: number,
  jwtMs: number | undefined,
): Required<Pick<ParsedLifetime, 'unit' | 'guess'>> {
  for (const unit of ['s', 'ms', 'min'] as const) {
    if (jwtMs !== undefined && agree(value * UNITS_MS[unit], jwtMs)) return { unit, guess: 'jwt' };
  }
  if (name.endsWith('seconds')) return { unit: 's', guess: 'name' };
  if (name.endsWith('ms')) return { unit: 'ms', guess: 'name' };
  const areMs = value >= 60_000 && value % 60_000 === 0 && value % 86_400 !== 0;
  return { unit: areMs ? 'ms' : 's', guess: 'size' };
}

/** Whether two lifetimes differ by no more than rounding and processing time explain. */
export function agree(aMs: number, bMs: number): boolean {
  return Math.abs(aMs - bMs) <= Math.max(2_000, bMs * 0.01);
}

export function jwtLifetimeMs(jwt: JwtTimes | undefined, nowMs: number): number | undefined {
  return jwt?.expiresAtMs === undefined ? undefined : jwt.expiresAtMs - (jwt.issuedAtMs ?? nowMs);
}

/** The time claims of a JWT; undefined for an opaque token. */
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
