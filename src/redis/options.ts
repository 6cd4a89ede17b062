/** What a shared source is made with, and how that is checked. */

import type { Clock } from '../clock.ts';
import type { Logger } from '../logger.ts';
import { hasMethods, isClock, OptionCheck } from '../option-check.ts';
import type { TokenSource } from '../token.ts';
import type { RedisPort } from './ports.ts';
import { SEALING_KEY_BYTES } from './sealing.ts';

export interface SharedTokensOptions {
  /** Who is asked when a request is this replica's to make: as a rule a `TokenEndpoint`. Must have `identity()`. */
  source: TokenSource;
  /** The user's own client: `fromNodeRedis(client, …)` or `fromIoredis(client, …)`. */
  redis: RedisPort;
  /** 32 random bytes each, 1 to 16 of them. The first seals, all open. See `docs/fleet.md` for how to rotate them. */
  sealingKeys: Uint8Array[];
  /** At least 32 random bytes; derived from the last sealing key when absent, the one that stays longest. */
  namingKey?: Uint8Array | undefined;
  /** What all keys and the channel begin with. 1 to 64 of letters, digits and `_ . -`; `otr`. */
  prefix?: string | undefined;
  /** How long Redis may take for one operation, in milliseconds: 10 to 5,000; 250. */
  redisTimeoutMs?: number | undefined;
  /** After how long the request of a replica that died is another's, in milliseconds: 500 to 60,000; 3,000. */
  leaseMs?: number | undefined;
  /** How long one replica may keep others waiting for its request, in milliseconds: 1,000 to 120,000; 15,000. */
  maxHoldMs?: number | undefined;
  /** How long a call waits for other replicas in all before it asks alone, in milliseconds: 1,000 to 300,000; 20,000. */
  maxWaitMs?: number | undefined;
  /** A pino logger, or any with its `info` and `warn`. */
  logger?: Pick<Logger, 'info' | 'warn'> | undefined;
  /** The registry's, if that has one of its own. */
  clock?: Clock | undefined;
  /** [0, 1); jitter comes from here alone. */
  random?: (() => number) | undefined;
}

const KNOWN = ['source', 'redis', 'sealingKeys', 'namingKey', 'prefix', 'redisTimeoutMs', 'leaseMs', 'maxHoldMs'];
const MORE = ['maxWaitMs', 'logger', 'clock', 'random'];

/** Throws `invalid_options` with all that is wrong. */
export function checkSharedTokensOptions(options: SharedTokensOptions): void {
  const check = new OptionCheck('SharedTokens', options, [...KNOWN, ...MORE]);
  const named = 'a token source with identity(): without it, replicas of different clients would share tokens';
  check.required('source', (value) => hasMethods(value, 'requestToken', 'identity'), named);
  check.required('redis', (value) => hasMethods(value, 'run'), 'fromNodeRedis(client) or fromIoredis(client)');
  const keys = `1 to 16 keys, each a Uint8Array of ${SEALING_KEY_BYTES} random bytes`;
  check.required('sealingKeys', isKeyRing, keys);
  check.when('namingKey', (value) => isBytes(value) && value.length >= 32, 'a Uint8Array of at least 32 random bytes');
  check.when('prefix', (value) => typeof value === 'string' && /^[\w.-]{1,64}$/.test(value), 'letters, digits, _ . -');
  check.integer('redisTimeoutMs', 10, 5_000);
  check.integer('leaseMs', 500, 60_000);
  check.integer('maxHoldMs', 1_000, 120_000);
  check.integer('maxWaitMs', 1_000, 300_000);
  check.when('logger', (value) => hasMethods(value, 'info', 'warn'), 'a logger with info and warn');
  check.when('clock', isClock, 'a clock with now() and monotonic()');
  check.functions('random');
  check.done();
}

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;

/** Keys of one byte over and over are no keys: a buffer that was never filled, as a rule. */
function isKeyRing(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > 16) return false;
  return value.every((key) => isBytes(key) && key.length === SEALING_KEY_BYTES && new Set(key).size > 1);
}
