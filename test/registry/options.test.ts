import { describe, expect, it, vi } from 'vitest';
import type { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { fixedLifetime } from '../../src/expiry/policies.ts';
import { closeTimeoutMs, type OwnerTokenRegistryOptions, registrySettings } from '../../src/registry/options.ts';
import { jwt } from '../helpers/jwt.ts';
import { ManualClock } from '../helpers/manual-clock.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const source = new ScriptedSource();
const settingsOf = (options: Partial<OwnerTokenRegistryOptions> = {}) => registrySettings({ source, ...options });

/** What is wrong with these options, a line each. */
function problemsOf(options: object): string[] {
  try {
    registrySettings({ source, ...options } as OwnerTokenRegistryOptions);
  } catch (thrown) {
    expect((thrown as OwnerTokenError).code).toBe('invalid_options');
    return (thrown as OwnerTokenError).message.split('\n  - ').slice(1);
  }
  return [];
}

it('default options are those of the documentation', () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.25);
  const { random, expiry, fingerprints, time, sourceDefaults, ...settings } = settingsOf();
  expect(settings).toEqual({
    source,
    maxOwners: 10_000,
    concurrency: 100,
    requestsPerSecond: undefined,
    server: {},
    maxQueued: 10_000,
    maxQueueMs: 30_000,
    requestTimeoutMs: 30_000,
    longestRequestMs: 30_000,
    name: 'default',
    refreshWindow: [0.6, 0.8],
    responseFields: [],
    pauses: {
      owner: { baseMs: 1_000, capMs: 300_000 },
      client: { baseMs: 500, capMs: 30_000 },
      endpoint: { baseMs: 500, capMs: 30_000 },
    },
    calls: { origins: [], present: undefined, fetch: undefined },
    logger: undefined,
  });
  expect(fingerprints.nameOf('key-1')).toMatch(/^owner_/);
  expect(time.now().wallMs).toBeGreaterThan(0);
  expect(random()).toBe(0.25);
  expect(expiry.lifetimeMs({ token: 'opaque', response: { expires_in: 7 } })).toBe(7_000);
  const token = jwt({ iat: 5, exp: 9 });
  expect(expiry.lifetimeMs({ token, response: {} })).toBe(4_000);
  expect(expiry.lifetimeMs({ token, response: { expires_in: 7 } })).toBe(7_000);
});

it('default options are replaced by those given', () => {
  const expiry = fixedLifetime(5);
  const clock = new ManualClock();
  const given = settingsOf({ expiry, clock, maxOwners: 1, logger: 'info', ownerLabel: () => 'the label' });
  expect(given).toMatchObject({ expiry, maxOwners: 1, logger: 'info' });
  expect(given.time.now()).toMatchObject({ wallMs: clock.now(), monotonicMs: 0 });
  expect(given.fingerprints.nameOf('key-1')).toBe('the label');
});

it.each<[string, string, number | undefined]>([
  ['https://service.example', 'service.example', undefined],
  ['https://service.example:8443', 'service.example', 8443],
  ['http://127.0.0.1:1', '127.0.0.1', 1],
  ['https://[::1]', '::1', undefined],
  ['https://[2001:db8::1]:8443', '2001:db8::1', 8443],
])('the server of %s is %s, with port %s', (origin, address, port) => {
  expect(settingsOf({ source: Object.assign(new ScriptedSource(), { origin }) }).server).toEqual({ address, port });
});

it('calls go to the origin of the token endpoint by default, unless other origins are listed', () => {
  const origin = 'https://tokens.example.com';
  const withOrigin = Object.assign(new ScriptedSource(), { origin });
  expect(settingsOf({ source: withOrigin }).calls.origins).toEqual([origin]);
  const calls = { allowedOrigins: ['https://api.example.com'] };
  expect(settingsOf({ source: withOrigin, calls }).calls.origins).toEqual(calls.allowedOrigins);
});

it.each([
  ['0', () => 0, 0],
  ['a number below 1', () => 0.999, 0.999],
  ['1', () => 1, 0.5],
  ['a negative number', () => -0.1, 0.5],
  ['no number', () => Number.NaN, 0.5],
  [
    'an exception',
    () => {
      throw new Error('no');
    },
    0.5,
  ],
])('a random number from 0 to below 1 is drawn even when the option random gives %s', (_, random, drawn) => {
  expect(settingsOf({ random }).random()).toBe(drawn);
});

describe('options', () => {
  it.each<[string, unknown]>([
    ['maxOwners', 1],
    ['maxOwners', 10_000_000],
    ['concurrency', 1],
    ['concurrency', 10_000],
    ['requestsPerSecond', 0.1],
    ['requestsPerSecond', 1_000_000],
    ['maxQueued', 1],
    ['maxQueued', 10_000_000],
    ['maxQueueMs', 1],
    ['maxQueueMs', 3_600_000],
    ['refreshWindow', [0.0001, 1]],
    ['refreshWindow', [0.5, 0.5]],
    ['logger', 'silent'],
    ['logger', { debug() {}, info() {}, warn() {} }],
    ['fingerprintKey', new Uint8Array(16)],
    ['ownerLabel', () => ''],
    ['name', 'x'.repeat(100)],
    ['pauses', {}],
    ['pauses', { owner: { baseMs: 1, capMs: 1 }, client: { capMs: 500 } }],
    ['pauses', { endpoint: { baseMs: 3_600_000, capMs: 86_400_000 } }],
  ])('%s may be %j', (name, value) => {
    expect(problemsOf({ [name]: value })).toEqual([]);
  });

  const WINDOW = 'refreshWindow: expected two shares of the lifetime [from, to] with 0 < from <= to <= 1';
  const FIELDS = 'responseFields: expected a list of up to 16 different names';
  const LOGGER =
    'logger: expected a logger with debug, info and warn, or one of trace, debug, info, warn, error, fatal, silent';
  const NAME = 'name: expected a name of 1 to 100 characters';
  const KEY = 'fingerprintKey: expected a Uint8Array of at least 16 bytes';
  const BASE = 'pauses.owner.baseMs: expected an integer from 1 to 3600000';
  const CAP = 'pauses.owner.capMs: expected an integer from 1 to 86400000';
  it.each<[string, unknown, string]>([
    ['source', undefined, 'source: required: a TokenSource, such as a TokenEndpoint'],
    ['source', { requestToken: 7 }, 'source: expected a TokenSource, such as a TokenEndpoint'],
    ['expiry', {}, 'expiry: expected an ExpiryPolicy, such as fixedLifetime(60_000)'],
    ['maxOwners', 0, 'maxOwners: expected an integer from 1 to 10000000'],
    ['maxOwners', 10_000_001, 'maxOwners: expected an integer from 1 to 10000000'],
    ['concurrency', 0, 'concurrency: expected an integer from 1 to 10000'],
    ['concurrency', 10_001, 'concurrency: expected an integer from 1 to 10000'],
    ['requestsPerSecond', 0, 'requestsPerSecond: expected a number over 0, up to 1000000'],
    ['requestsPerSecond', Number.NaN, 'requestsPerSecond: expected a number over 0, up to 1000000'],
    ['requestsPerSecond', 1_000_001, 'requestsPerSecond: expected a number over 0, up to 1000000'],
    ['maxQueued', 0, 'maxQueued: expected an integer from 1 to 10000000'],
    ['maxQueued', 10_000_001, 'maxQueued: expected an integer from 1 to 10000000'],
    ['maxQueueMs', 0, 'maxQueueMs: expected an integer from 1 to 3600000'],
    ['maxQueueMs', 3_600_001, 'maxQueueMs: expected an integer from 1 to 3600000'],
    ['refreshWindow', [0, 1], WINDOW],
    ['refreshWindow', [0.5, 0.4], WINDOW],
    ['refreshWindow', [0.5, 1.1], WINDOW],
    ['refreshWindow', [0.5], WINDOW],
    ['refreshWindow', [0.5, 0.6, 0.7], WINDOW],
    ['refreshWindow', ['0.5', 0.6], WINDOW],
    ['refreshWindow', [0.5, '0.6'], WINDOW],
    ['refreshWindow', { 0: 0.5, 1: 0.6, length: 2 }, WINDOW],
    ['responseFields', 'scope', FIELDS],
    ['responseFields', [''], FIELDS],
    ['responseFields', [7], FIELDS],
    ['responseFields', ['scope', 'scope'], FIELDS],
    ['responseFields', Array.from({ length: 17 }, (_, n) => `f${n}`), FIELDS],
    ['logger', 'verbose', LOGGER],
    ['logger', { debug() {}, info() {} }, LOGGER],
    ['fingerprintKey', new Uint8Array(15), KEY],
    ['fingerprintKey', 'sixteen characters', KEY],
    ['name', '', `${NAME}; it is empty (is its environment variable set?)`],
    ['name', 'x'.repeat(101), NAME],
    ['name', 5, NAME],
    ['clock', { now: () => 0 }, 'clock: expected an object with now() and monotonic()'],
    ['ownerLabel', 'x', 'ownerLabel: expected a function'],
    ['random', 0.5, 'random: expected a function'],
    ['pauses', 5, 'pauses: expected an object'],
    [
      'pauses',
      { owners: {} },
      'pauses.owners: unknown option; expected one of owner, client, endpoint; did you mean owner?',
    ],
    ['pauses', { owner: { baseMs: 0.5, capMs: 5 } }, BASE],
    ['pauses', { owner: { baseMs: 3_600_001, capMs: 86_400_000 } }, BASE],
    ['pauses', { owner: { capMs: 999 } }, 'pauses.owner.capMs: expected at least baseMs, which is 1000'],
    ['pauses', { owner: { baseMs: 300_001 } }, 'pauses.owner.capMs: expected at least baseMs, which is 300001'],
    ['pauses', { owner: { baseMs: 5, capMs: 86_400_001 } }, CAP],
    ['pauses', { owner: { baseMs: 5, capMs: 4 } }, 'pauses.owner.capMs: expected at least baseMs, which is 5'],
    [
      'calls',
      { allowedOrigin: [] },
      'calls.allowedOrigin: unknown option; expected one of allowedOrigins, present, fetch; did you mean allowedOrigins?',
    ],
  ])('%s may not be %j', (name, value, problem) => {
    expect(problemsOf({ [name]: value })).toEqual([problem]);
  });
});

it('options of the registry are an object', () => {
  expect(() => registrySettings(null as never)).toThrow('options: expected an object');
});

it('close waits for 5 s by default', () => {
  expect(closeTimeoutMs({})).toBe(5_000);
  expect([0, 3_600_000].map((timeoutMs) => closeTimeoutMs({ timeoutMs }))).toEqual([0, 3_600_000]);
});

it.each([{ timeoutMs: -1 }, { timeoutMs: 3_600_001 }, { timeout: 5 }, null])(
  'close refuses the options %j',
  (options) => {
    expect(() => closeTimeoutMs(options as object)).toThrow(/^close: invalid options:/);
  },
);
