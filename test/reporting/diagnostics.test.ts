import { AsyncLocalStorage } from 'node:async_hooks';
import diagnostics from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from 'vitest';
import { Time } from '../../src/clock.ts';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/errors/owner-token-error.ts';
import type { RequestMessage } from '../../src/reporting/channel-messages.ts';
import { Diagnostics, ReportedRequest } from '../../src/reporting/diagnostics.ts';
import type { Logger } from '../../src/reporting/logger.ts';
import { AccessToken } from '../../src/token.ts';
import type { RequestReason } from '../../src/token-source.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

type Line = [level: string, fields: Record<string, unknown>, message: string];

/** Diagnostics on a manual clock, with the lines they log. */
function reporting(server: { address?: string; port?: number } = { address: 'service.example' }) {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push([level, shortNames(fields), message]);
  const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  const clock = new ManualClock();
  const time = new Time(clock);
  const reports = new Diagnostics({ name: 'crm', logger, server, time });
  const newRequest = (reason: RequestReason = 'absent') => {
    const { monotonicMs } = time.now();
    return new ReportedRequest('crm', SLOT, reason, monotonicMs, monotonicMs);
  };
  return { lines, clock, reports, newRequest };
}

const leaving: (() => void)[] = [];
afterEach(() => {
  for (const leave of leaving.splice(0)) leave();
});

/** Listens to a channel to the end of the test. */
function listenTo(name: string, listen: (message: unknown) => void): void {
  diagnostics.subscribe(name, listen);
  leaving.push(() => diagnostics.unsubscribe(name, listen));
}

/** What is published on a channel from now to the end of the test. */
function publishedOn(name: string): unknown[] {
  const heard: unknown[] = [];
  listenTo(name, (message) => heard.push(message));
  return heard;
}

const SLOT = Object.freeze({ owner: 'owner_x' });
const failure = (options: OwnerTokenErrorOptions = {}) =>
  new OwnerTokenError('endpoint_unavailable', 'it broke', options);
const TOKEN = new AccessToken({
  value: 'v',
  tokenType: 'Bearer',
  fingerprint: 'token_x',
  issuedAtMs: 0,
  refreshAtMs: 3,
  expiresAtMs: 5,
});
const until = (retryAtMonotonicMs: number) => ({ retryAtMonotonicMs });

describe('a request', () => {
  const TRACE = 'tracing:owner-token-registry:request';

  it('that succeeds is logged with its duration', async () => {
    const { reports, lines, clock, newRequest } = reporting();
    const message = newRequest();
    expect(await reports.requestSent(message, async () => 'sent')).toBe('sent');
    clock.advance(250);
    reports.requestSucceeded(message, TOKEN, SLOT, clock.monotonic());
    const request = { registry: 'crm', owner: 'owner_x', reason: 'absent' };
    expect(lines).toEqual([
      ['debug', { event: 'request.sent', ...request }, 'token request sent'],
      [
        'debug',
        { event: 'request.succeeded', ...request, durationMs: 250, token: 'token_x', expiresAtMs: 5 },
        'token issued',
      ],
    ]);
    expect(message.durationMs).toBe(250);
  });

  it('that fails is logged with all facts that distinguish causes', async () => {
    const { reports, lines, clock, newRequest } = reporting();
    const message = newRequest('refresh');
    await reports.requestSent(message, async () => {});
    clock.advance(120);
    const dns = new TypeError('fetch failed', { cause: Object.assign(new Error('?'), { code: 'ENOTFOUND' }) });
    const retryAtMs = clock.now() + 1_500;
    const error = failure({ cause: dns, status: 503, oauthError: 'slow_down', retryAtMs, owner: 'owner_x' });
    reports.requestFailed(message, error);
    expect(message).toMatchObject({ error, durationMs: 120 });
    expect(lines[1]).toEqual([
      'debug',
      {
        event: 'request.failed',
        registry: 'crm',
        owner: 'owner_x',
        reason: 'refresh',
        message: 'it broke',
        code: 'endpoint_unavailable',
        causeCode: 'ENOTFOUND',
        status: 503,
        oauthError: 'slow_down',
        address: 'service.example',
        durationMs: 120,
        failureScope: 'owner',
        retryInMs: 1_500,
        retryAt: new Date(retryAtMs).toISOString(),
      },
      'token request failed',
    ]);
  });

  it('is traced from start to end with one message, and what it calls runs within', async () => {
    const { reports, clock, newRequest } = reporting();
    const heard: string[] = [];
    const message = newRequest();
    const store = new AsyncLocalStorage<unknown>();
    const { start } = diagnostics.tracingChannel('owner-token-registry:request');
    start.bindStore(store, (data) => data);
    leaving.push(() => start.unbindStore(store));
    for (const part of ['start', 'end', 'asyncStart', 'asyncEnd', 'error']) {
      listenTo(`${TRACE}:${part}`, (data) => heard.push(data === message ? part : `${part} of another`));
    }
    const within = await reports.requestSent(message, async () => {
      heard.push('sent');
      return store.getStore();
    });
    expect(within).toBe(message);
    expect(heard.splice(0)).toEqual(['start', 'sent', 'end']);
    reports.requestSucceeded(message, TOKEN, SLOT, clock.monotonic());
    expect(heard.splice(0)).toEqual(['asyncStart', 'asyncEnd']);
    expect(message).toMatchObject({ token: 'token_x', expiresAtMs: 5 });
    reports.requestFailed(message, failure());
    expect(heard).toEqual(['error', 'asyncStart', 'asyncEnd']);
  });

  it.each(['start', 'asyncStart', 'asyncEnd', 'error'])(
    'has its owner in a copy of the message if %s is the only channel with a subscriber',
    async (part) => {
      const { reports, newRequest } = reporting();
      const copies: object[] = [];
      listenTo(`${TRACE}:${part}`, (data) => copies.push({ ...(data as object) }));
      const message = newRequest();
      await reports.requestSent(message, async () => {});
      reports.requestFailed(message, failure());
      expect(copies).toMatchObject([{ registry: 'crm', owner: 'owner_x', reason: 'absent' }]);
    },
  );

  it('may be frozen by a subscriber once it has failed', () => {
    const { reports, newRequest } = reporting();
    const ended = publishedOn(`${TRACE}:asyncEnd`);
    listenTo(`${TRACE}:error`, Object.freeze);
    const message = newRequest();
    reports.requestFailed(message, failure());
    expect(ended).toEqual([message]);
  });

  it('runs inside what a subscriber to its start asks for, such as a span', async () => {
    const { reports, newRequest } = reporting();
    const order: string[] = [];
    listenTo(`${TRACE}:start`, (data) => {
      (data as RequestMessage).run = (send) => {
        order.push('span');
        return send();
      };
    });
    await reports.requestSent(newRequest(), async () => void order.push('sent'));
    expect(order).toEqual(['span', 'sent']);
  });
});

it('a rejection is reported by fingerprints', () => {
  const { reports, lines } = reporting();
  const rejection = { owner: 'owner_x', token: 'token_x', wasHeld: true };
  const report = () => reports.rejected({ owner: 'owner_x' }, 'token_x', true);
  report();
  const heard = publishedOn('owner-token-registry:rejection');
  report();
  expect(heard).toEqual([{ registry: 'crm', ...rejection }]);
  const line = ['info', { event: 'token.rejected', registry: 'crm', ...rejection }, 'token reported as rejected'];
  expect(lines).toEqual([line, line]);
});

it('a pause is one line however many requests fail into it, and another when it is extended', () => {
  const { reports, lines } = reporting();
  const heard = publishedOn('owner-token-registry:pause');
  const refused = new OwnerTokenError('client_refused', 'wrong secret', { retryAtMs: 5_000 });
  for (let n = 0; n < 20; n++) reports.paused('client', until(1_000), refused);
  reports.paused('client', until(900), refused);
  reports.paused('client', until(3_000), refused);
  expect(lines.map(([level, { event, code }]) => [level, event, code])).toEqual(
    Array(2).fill(['error', 'pause.began', 'client_refused']),
  );
  const message = { registry: 'crm', scope: 'client', action: 'paused', code: 'client_refused', retryAtMs: 5_000 };
  expect(heard).toEqual([message, message]);
});

it('a pause of each owner is one of its own, though two have the same label', () => {
  const { reports, lines } = reporting();
  for (const slot of [{ owner: 'label' }, { owner: 'label' }]) reports.paused(slot, until(1_000), failure());
  expect(lines).toHaveLength(2);
});

it.each([
  ['client', 1_000, 'error'],
  ['endpoint', 300_000, 'warn'],
  [SLOT, 300_000, 'warn'],
] as const)('a pause of %j for %i ms is logged as %s', (paused, ms, level) => {
  const { reports, lines, clock } = reporting();
  reports.paused(paused, until(1), failure({ retryAtMs: clock.now() + ms }));
  expect(lines.map(([at]) => at)).toEqual([level]);
});

it('a pause that is lifted says how long it lasted and how many calls it refused', () => {
  const { reports, lines, clock } = reporting();
  const heard = publishedOn('owner-token-registry:pause');
  reports.paused('endpoint', until(1_000), failure());
  reports.refused('endpoint');
  clock.advance(700);
  reports.paused('endpoint', until(3_000), failure());
  reports.refused('endpoint', 4);
  clock.advance(300);
  reports.lifted('endpoint');
  const over = { durationMs: 1_000, refused: 5 };
  const fields = { event: 'pause.lifted', registry: 'crm', failureScope: 'endpoint', ...over };
  expect(lines[2]).toEqual(['info', fields, 'token requests resumed']);
  expect(heard[2]).toEqual({ registry: 'crm', scope: 'endpoint', action: 'lifted', ...over });
  reports.lifted('endpoint');
  expect(heard[3]).toEqual({ registry: 'crm', scope: 'endpoint', action: 'lifted' });
});

it('a pause of an owner ends with its next success, which is reported like its failure', async () => {
  const { reports, lines, clock, newRequest } = reporting();
  const message = newRequest();
  await reports.requestSent(message, async () => {});
  clock.advance(100);
  reports.requestFailed(message, failure());
  reports.paused(SLOT, until(1_000), failure(), message);
  reports.refused(SLOT);
  clock.advance(2_000);
  const heard = publishedOn('owner-token-registry:pause');
  for (let n = 0; n < 2; n++) {
    reports.requestSucceeded(newRequest(), TOKEN, SLOT, clock.monotonic());
    reports.recovered(SLOT);
  }
  const fields = { event: 'pause.lifted', failureScope: 'owner', owner: 'owner_x', durationMs: 2_100, refused: 1 };
  expect(lines.filter(([level]) => level !== 'debug').slice(1)).toEqual([
    ['info', { registry: 'crm', ...fields }, 'token requests resumed'],
  ]);
  expect(heard).toMatchObject([{ scope: 'owner', owner: 'owner_x', action: 'lifted', durationMs: 2_100 }]);
});

describe('where the API rejects new tokens too', () => {
  const rejected = new OwnerTokenError('token_rejected', 'two in a row', { owner: 'owner_x', retryAtMs: 5_000 });

  it('the log says that a token is kept, names no server, and at the end speaks of no requests', () => {
    const { reports, lines, clock } = reporting({ address: 'service.example', port: 8443 });
    reports.paused(SLOT, until(1_000), rejected);
    reports.paused(SLOT, until(2_000), rejected);
    clock.advance(500);
    reports.recovered(SLOT);
    const kept = 'rejected token kept: the API rejects new ones too';
    expect(lines.map(([level, { event }, message]) => [level, event, message])).toEqual([
      ['warn', 'pause.began', kept],
      ['warn', 'pause.began', kept],
      ['info', 'pause.lifted', 'streak of rejected tokens ended'],
    ]);
    expect(lines[0]?.[1]).toMatchObject({ owner: 'owner_x', code: 'token_rejected', failureScope: 'owner' });
    for (const [, fields] of lines) expect(Object.keys(fields)).not.toContain('address');
    for (const [, fields] of lines) expect(Object.keys(fields)).not.toContain('port');
  });

  it.each([
    ['before', true],
    ['after', false],
  ])('a failed request %s that pauses requests, of the token service', (_, isFirst) => {
    const { reports, lines, newRequest } = reporting();
    const pauses = [
      (untilMs: number) => reports.paused(SLOT, until(untilMs), failure(), newRequest()),
      (untilMs: number) => reports.paused(SLOT, until(untilMs), rejected),
    ];
    for (const [index, pause] of (isFirst ? pauses : pauses.reverse()).entries()) pause(1_000 * (1 + index));
    reports.recovered(SLOT);
    const failed = lines.find(([, { code }]) => code === 'endpoint_unavailable');
    expect(failed).toMatchObject(['warn', { address: 'service.example' }, 'token requests paused']);
    expect(lines.at(-1)?.[2]).toBe('token requests resumed');
  });

  it('a source that fails with that code pauses requests', () => {
    const { reports, lines, newRequest } = reporting();
    reports.paused(SLOT, until(1_000), rejected, newRequest());
    expect(lines).toMatchObject([['warn', { address: 'service.example' }, 'token requests paused']]);
  });
});

it('evicted owners and closed registries are logged', () => {
  const { reports, lines } = reporting();
  reports.emit('owner.evicted', () => SLOT);
  reports.emit('registry.closed', () => ({ abandoned: 3 }));
  expect(lines).toEqual([
    ['debug', { event: 'owner.evicted', registry: 'crm', owner: 'owner_x' }, 'least recently used owner evicted'],
    ['info', { event: 'registry.closed', registry: 'crm', abandoned: 3 }, 'registry closed'],
  ]);
});

it('a hook that throws is logged once for each kind, without its message', () => {
  const { reports, lines } = reporting();
  for (let n = 0; n < 2; n++) reports.hookFailed('expiry.accepted', new RangeError('canary-7c1d'));
  reports.hookFailed('source.close', 'canary-7c1d');
  expect(lines).toMatchObject([
    ['warn', { hook: 'expiry.accepted', cause: { name: 'RangeError' } }, 'a hook threw; the error was ignored'],
    ['warn', { hook: 'source.close', cause: { name: 'Error' } }, 'a hook threw; the error was ignored'],
  ]);
  expect(JSON.stringify(lines)).not.toContain('canary');
});

it('a log line leaves out fields that are not known', () => {
  const { reports, lines } = reporting({});
  reports.paused('endpoint', until(1), failure());
  expect(Object.keys(lines[0]?.[1] ?? {})).toEqual([...['event', 'registry', 'code', 'message', 'failureScope']]);
});

it('a logger that throws, also when asked for its level, fails no call', () => {
  const throwing = () => {
    throw new Error('no');
  };
  const lines: unknown[] = [];
  const good = { debug() {}, info: (...line: unknown[]) => void lines.push(line), warn() {} };
  for (const logger of [
    { ...good, info: throwing },
    { ...good, isLevelEnabled: throwing },
    { ...good, isLevelEnabled: (level: string) => level !== 'info' },
  ]) {
    const reports = new Diagnostics({ name: 'crm', logger, server: {}, time: new Time() });
    reports.emit('registry.closed', () => ({}));
  }
  expect(lines).toEqual([]);
});
