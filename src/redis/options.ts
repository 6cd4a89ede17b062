/** The options of a shared source and their validation. */

import type { Clock } from '../clock.ts';
import type { OptionRule, OptionRules } from '../option-check.ts';
import { aClock, aFunction, checkOptions, hasMethods, integer } from '../option-check.ts';
import { aLogger, aName, type Level, type Logger } from '../reporting/logger.ts';
import type { TokenSource } from '../token-source.ts';
import type { RedisPort } from './ports.ts';
import { SEALING_KEY_BYTES } from './sealing.ts';

/**
 * Options of {@link SharedTokens}.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis';
 *
 * const client = new Redis('redis://cache:6379', { socketTimeout: 2_000 });
 * const options: SharedTokensOptions = {
 *   source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
 *   redis: fromIoredis(client, { subscriber: client.duplicate() }),
 *   sealingKeys: [Buffer.from(process.env.SEALING_KEY ?? '', 'hex')], // openssl rand -hex 32
 * };
 * ```
 */
export interface SharedTokensOptions {
  /**
   * The source to share, usually a `TokenEndpoint`. Must have `identity()`, which keeps different clients apart, unless the
   * option `identity` is given.
   */
  source: TokenSource;
  /** The user's own client: `fromNodeRedis(client, …)`, `fromIoredis(client, …)`, or a port of your own. */
  redis: RedisPort;
  /** 1 to 16 keys of 32 random bytes, the same in every replica. The first seals, all open. */
  sealingKeys: Uint8Array[];
  /** Keys the digests that name the records. At least 32 random bytes. Default: derived from the last sealing key. */
  namingKey?: Uint8Array | undefined;
  /** Begins all keys and the channel. 1 to 64 letters, digits, `_`, `.` and `-`. Default: `otr`. */
  prefix?: string | undefined;
  /**
   * How long a reply of Redis may take before the call requests its own token, in milliseconds: 10 to 5,000. Over 1,000
   * only where the replicas get too little CPU time. Default: 250.
   */
  redisTimeoutMs?: number | undefined;
  /**
   * The length of the first lease, in milliseconds: 500 to 60,000. A follower waits for another replica's request that long, and
   * then leads as well, with a lease twice as long. Default: 3,000.
   */
  leaseMs?: number | undefined;
  /**
   * The service's quota: token requests per second of all replicas together, without bursts; 0.01 to 10,000. Each replica
   * keeps to its share: the quota divided by the number of replicas, of which at most 2,000 are counted. Set it here and not on the registries, each of which
   * would apply the whole quota to itself, and to shared tokens too. Default: none.
   */
  requestsPerSecond?: number | undefined;
  /**
   * Used in place of the source's `identity()`, the same in every replica: a text of 1 to 1,000 characters that differs for
   * other clients and token URLs, or a function that returns one. For a source that cannot derive one, such as a
   * `TokenEndpoint` whose `tokenRequest` fails for placeholder values. If it does not change with the client secret, tokens
   * from before a rotation are shared until they expire. Default: the source's.
   */
  identity?: string | (() => string | Promise<string>) | undefined;
  /**
   * What the other replicas, and pages that show the fleet, call this one, such as the name of its pod. A random suffix is
   * added. 1 to 64 letters, digits, `_`, `.` and `-`; stored in Redis in the clear. Default: `replica`.
   */
  replica?: string | undefined;
  /** For logs and channel messages. Default: the registry's `name`. */
  name?: string | undefined;
  /** A logger or a level. Default: the registry's. */
  logger?: Logger | Level | undefined;
  /** Default: the registry's. */
  clock?: Clock | undefined;
  /** Returns numbers from 0 up to 1; all jitter is drawn from it. Default: the registry's. */
  random?: (() => number) | undefined;
}

const aWord: OptionRule = {
  passes: (value) => typeof value === 'string' && /^[\w.-]{1,64}$/.test(value),
  expected: '1 to 64 letters, digits, _ . -',
};

const OPTIONS: OptionRules<SharedTokensOptions> = {
  source: {
    passes: (value) => hasMethods(value, 'requestToken'),
    expected: 'an object with requestToken()',
    isRequired: true,
  },
  redis: {
    passes: isPort,
    expected: 'fromNodeRedis(client), fromIoredis(client), or a RedisPort of your own',
    isRequired: true,
  },
  sealingKeys: {
    passes: isKeyRing,
    expected: `1 to 16 keys, each a Uint8Array of ${SEALING_KEY_BYTES} random bytes, such as Buffer.from(hex, 'hex')`,
    isRequired: true,
  },
  namingKey: {
    passes: (value) => isBytes(value) && value.length >= 32,
    expected: 'a Uint8Array of at least 32 random bytes',
  },
  prefix: aWord,
  redisTimeoutMs: integer(10, 5_000),
  leaseMs: integer(500, 60_000),
  requestsPerSecond: {
    passes: (value) => typeof value === 'number' && value >= 0.01 && value <= 10_000,
    expected: 'a number from 0.01 to 10000',
  },
  identity: {
    passes: (value) => typeof value === 'function' || (typeof value === 'string' && /^.{1,1000}$/s.test(value)),
    expected: 'a text of 1 to 1000 characters, or a function that returns one',
  },
  replica: aWord,
  name: aName,
  logger: aLogger,
  clock: aClock,
  random: aFunction,
};

/** The checked options. @throws `invalid_options`, listing every problem. */
export function checkSharedTokensOptions(options: SharedTokensOptions): SharedTokensOptions {
  return checkOptions('SharedTokens', options, OPTIONS, ({ source, identity }, problems) => {
    if (identity !== undefined || !hasMethods(source, 'requestToken') || hasMethods(source, 'identity')) return;
    problems.push('source: expected identity(), or the option identity: without them, clients would share tokens');
  });
}

function isPort(value: unknown): boolean {
  if (!hasMethods(value, 'run')) return false;
  const { subscribe, subscribeSharded, isReady } = value as Record<string, unknown>;
  return [subscribe, subscribeSharded, isReady].every((method) => method === undefined || typeof method === 'function');
}

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;

/** Rejects keys of one repeated byte, usually a buffer that was never filled. */
function isKeyRing(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > 16) return false;
  return value.every((key) => isBytes(key) && key.length === SEALING_KEY_BYTES && new Set(key).size > 1);
}
