/** Canary secrets that are easy to find, and every output in which they might appear. */

import diagnostics from 'node:diagnostics_channel';
import { format, inspect } from 'node:util';
import { pino } from 'pino';
import { OwnerTokenError } from '../../src/index.ts';

/** Plain words, so that no pattern for secrets would catch them. */
export const SECRETS = {
  clientSecret: 'canarySecret4Zq7Yw2Kx9Lm1',
  accessKey: 'canaryKey8Jh5Tn3Rb6Vc0Pd',
  otherAccessKey: 'canaryOther7Wd2Fg9Sk4Qa1',
  token: 'canaryToken6Mx1Bv8Zr5Ne3Uo',
} as const;

const NEEDLES = Object.values(SECRETS).flatMap((secret) => [
  secret,
  Buffer.from(secret).toString('base64').replace(/=+$/, '').slice(0, 24),
  Buffer.from(secret).toString('hex'),
  [...secret].reverse().join(''),
]);

/** The secrets that appear in a text: in clear, in Base64, in hex or reversed. */
export const leaksIn = (text: string): string[] => NEEDLES.filter((needle) => text.includes(needle));

/** Every diagnostics channel of the registry. */
export const CHANNELS = [
  ...['lookup', 'rejection', 'pause'].map((name) => `owner-token-registry:${name}`),
  ...['start', 'end', 'asyncStart', 'asyncEnd', 'error'].map((name) => `tracing:owner-token-registry:request:${name}`),
];

/** A value in every form in which it can be logged or serialized. */
export function writtenDown(value: unknown): string {
  const lines: string[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  const ways: (() => unknown)[] = [
    () => inspect(value),
    () => inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true, getters: true }),
    () => inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true, customInspect: false, showProxy: true }),
    () => inspect([{ deep: { inside: value } }], { depth: 9 }),
    () => JSON.stringify(value),
    () => JSON.stringify({ ...(value as object) }),
    () => String(value),
    () => `${value}`,
    () => format('%s %o %O %j', value, value, value, value),
    () => inspect(structuredClone(value), { depth: 9, showHidden: true }),
    () =>
      value instanceof Error ? [value.message, value.stack, inspect(value.cause, { depth: 9, showHidden: true })] : '',
    // An application logs what it caught, in each way that pino offers.
    () => logger.error(value as object),
    () => logger.error({ err: value, value }, 'failed'),
    () => logger.child({ value }).warn('child'),
  ];
  const written = ways.map((way) => {
    try {
      return String(way());
    } catch {
      return ''; // Not every value can be serialized in every way.
    }
  });
  return [...written, ...lines].join('\n');
}

/** Records everything emitted while it listens: log lines of every level, channel messages, thrown errors. */
export class Emissions implements Disposable {
  readonly written: string[] = [];
  readonly events = new Set<string>();
  readonly codes = new Set<string>();
  readonly #listener = (message: unknown) => this.add(message);
  /** A real logger at level `trace`. */
  readonly logger = pino({ level: 'trace' }, { write: (line: string) => this.#line(line) });

  constructor() {
    for (const name of CHANNELS) diagnostics.subscribe(name, this.#listener);
  }

  add(value: unknown): void {
    if (value instanceof OwnerTokenError) this.codes.add(value.code);
    this.written.push(writtenDown(value));
  }

  /** Waits for a promise to settle, and records its value or error. */
  async outcome(promise: Promise<unknown>): Promise<void> {
    this.add(await promise.catch((error: unknown) => error));
  }

  get leaks(): string[] {
    return this.written.flatMap((text) => leaksIn(text).map((needle) => `${needle} in ${text.slice(0, 2_000)}`));
  }

  [Symbol.dispose](): void {
    for (const name of CHANNELS) diagnostics.unsubscribe(name, this.#listener);
  }

  #line(line: string): void {
    this.written.push(line);
    this.events.add(JSON.parse(line)['owner_token.event']);
  }
}
