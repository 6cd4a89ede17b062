/** Values that a user's source may throw or return and that no sound one would, drawn at random. */

import { OwnerTokenError } from '../../src/index.ts';

type Random = () => number;

const pick = <T>(random: Random, values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;

const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

const throwing = (): never => {
  throw new Error('read me not');
};

/** Fields of tokens and errors, and those that the language itself looks for. */
const NAMES = [
  ...[
    'token',
    'tokenType',
    'requestedAtMs',
    'response',
    'expires_in',
    'code',
    'message',
    'failureScope',
    'retryAfterMs',
  ],
  ...['status', 'oauthError', 'cause', 'stack', 'name', 'then', 'constructor', 'toJSON', 'toString'],
  Symbol.toPrimitive,
  Symbol.for('owner-token-registry.error'),
  Symbol.toStringTag,
];

function primitive(random: Random): unknown {
  const values = [
    undefined,
    null,
    true,
    0,
    -1,
    Number.NaN,
    Infinity,
    1e308,
    7n,
    '',
    'a token',
    'line\r\nbreak',
    Symbol('x'),
  ];
  return pick(random, [...values, 'x'.repeat(20_000)]);
}

/** An object whose fields are values, accessors that throw, or accessors that change. */
function strangeObject(random: Random, depth: number): object {
  const target = pick(random, [
    () => ({}),
    () => Object.create(null),
    () => new Error('of a source'),
    () => [],
    () => () => {},
    () => new OwnerTokenError(pick(random, ['owner_refused', 'client_refused', 'rate_limited', 'source_failed']), 'no'),
  ])() as object;
  for (let count = Math.floor(random() * 6); count > 0; count--) {
    const value = strangeValue(random, depth + 1);
    let read = 0;
    const get = pick(random, [() => value, throwing, () => (read++ % 2 === 0 ? 'a-token' : value)]);
    try {
      Object.defineProperty(target, pick(random, NAMES), { get, configurable: true, enumerable: random() < 0.5 });
    } catch {
      // A field that cannot be replaced stays as it is.
    }
  }
  return target;
}

function strangeProxy(random: Random, depth: number): object {
  const handler: ProxyHandler<object> = {};
  const value = strangeValue(random, depth + 1);
  if (random() < 0.5) handler.get = pick(random, [throwing, () => value, Reflect.get]);
  if (random() < 0.3) handler.has = pick(random, [throwing, () => true, () => false]);
  if (random() < 0.3) handler.getPrototypeOf = pick(random, [throwing, () => OwnerTokenError.prototype, () => null]);
  if (random() < 0.3) handler.ownKeys = pick(random, [throwing, () => ['token']]);
  return new Proxy(strangeObject(random, depth), handler);
}

function strangeValue(random: Random, depth = 0): unknown {
  const kind = depth > 3 ? 0 : random();
  if (kind < 0.25) return primitive(random);
  if (kind < 0.3) return revoked();
  if (kind < 0.4) {
    // A thenable that rejects, throws, settles twice or never settles.
    const value = strangeValue(random, depth + 1);
    const never = () => {};
    const twice = (resolve: (value: unknown) => void, reject: (reason: unknown) => void) => {
      resolve(7);
      reject(value);
    };
    const rejects = (_: unknown, reject: (reason: unknown) => void) => reject(value);
    // biome-ignore lint/suspicious/noThenProperty: that is the point.
    return { then: pick(random, [throwing, twice, rejects, rejects, never]) };
  }
  return kind < 0.7 ? strangeObject(random, depth) : strangeProxy(random, depth);
}

export const strangeThrow = (random: Random): unknown => strangeValue(random);

/** Often close to a token, so that reading it gets far. */
export function strangeReturn(random: Random): unknown {
  if (random() < 0.5) return strangeValue(random);
  const near: Record<string, unknown> = { token: `token-${Math.floor(random() * 1e6)}` };
  for (const name of ['tokenType', 'requestedAtMs', 'response']) if (random() < 0.4) near[name] = strangeValue(random);
  return random() < 0.2 ? new Proxy(near, {}) : near;
}
