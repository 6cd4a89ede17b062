import { AsyncLocalStorage } from 'node:async_hooks';
import diagnostics from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from 'vitest';
import { Diagnostics, type Logger, type RequestMessage } from '../src/diagnostics.ts';
import { OwnerTokenError } from '../src/errors.ts';

type Line = [level: string, fields: object, message: string];

/** A voice whose log lines are kept. */
function voice() {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push([level, fields, message]);
  const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn') };
  return { lines, told: new Diagnostics(logger) };
}

/** What is published on a channel from now to the end of the test. */
const leaving: (() => void)[] = [];
afterEach(() => {
  for (const leave of leaving.splice(0)) leave();
});
function heardOn(name: string, heard: unknown[] = []): unknown[] {
  const listen = (message: unknown) => void heard.push(message);
  diagnostics.subscribe(name, listen);
  leaving.push(() => diagnostics.unsubscribe(name, listen));
  return heard;
}

const error = new OwnerTokenError('rate_limited', 'slow down', { status: 429, retryAtMs: 9, oauthError: 'slow_down' });
const request = (): RequestMessage => ({ owner: 'owner_x', reason: 'absent' });

describe('a lookup', () => {
  it('is told to those who listen, and to no log', () => {
    const { told, lines } = voice();
    expect(told.hearsLookups).toBe(false);
    told.lookup('owner_x', 'serve');
    const heard = heardOn('owner-token-registry:lookup');
    expect(told.hearsLookups).toBe(true);
    told.lookup('owner_x', 'wait');
    expect(heard).toEqual([{ owner: 'owner_x', outcome: 'wait' }]);
    expect(lines).toEqual([]);
  });
});

describe('a request', () => {
  const TRACE = 'tracing:owner-token-registry:request';

  it('is made and logged where nobody listens', async () => {
    const { told, lines } = voice();
    expect(await told.requestSent(request(), async () => 'sent')).toBe('sent');
    told.requestSucceeded({ ...request(), token: 'token_x', expiresAtMs: 5 });
    const failed = request();
    told.requestFailed(failed, error);
    expect(failed.error).toBe(error);
    expect(lines).toEqual([
      ['debug', { event: 'request.sent', owner: 'owner_x', reason: 'absent' }, 'token request sent'],
      [
        'debug',
        { event: 'request.succeeded', owner: 'owner_x', reason: 'absent', token: 'token_x', expiresAtMs: 5 },
        'token obtained',
      ],
      [
        'warn',
        {
          ...{ event: 'request.failed', owner: 'owner_x', reason: 'absent', code: 'rate_limited', status: 429 },
          ...{ failureScope: 'endpoint', oauthError: 'slow_down', retryAtMs: 9 },
        },
        'token request failed',
      ],
    ]);
  });

  it('is traced from start to end with one message, and what it calls runs within', async () => {
    const { told } = voice();
    const heard: string[] = [];
    const message = request();
    const store = new AsyncLocalStorage<unknown>();
    const { start } = diagnostics.tracingChannel('owner-token-registry:request');
    start.bindStore(store, (data) => data);
    leaving.push(() => start.unbindStore(store));
    for (const part of ['start', 'end', 'asyncStart', 'asyncEnd', 'error']) {
      const listen = (data: unknown) => void heard.push(data === message ? part : `${part} of another`);
      diagnostics.subscribe(`${TRACE}:${part}`, listen);
      leaving.push(() => diagnostics.unsubscribe(`${TRACE}:${part}`, listen));
    }
    const within = await told.requestSent(message, async () => {
      heard.push('sent');
      return store.getStore();
    });
    expect(within).toBe(message);
    expect(heard.splice(0)).toEqual(['start', 'sent', 'end']);
    told.requestSucceeded(message);
    expect(heard.splice(0)).toEqual(['asyncStart', 'asyncEnd']);
    told.requestFailed(message, error);
    expect(heard).toEqual(['error', 'asyncStart', 'asyncEnd']);
  });
});

describe('a rejection', () => {
  it('is told by fingerprints', () => {
    const { told, lines } = voice();
    const message = { owner: 'owner_x', token: 'token_x', wasHeld: true };
    told.rejected(message);
    const heard = heardOn('owner-token-registry:rejection');
    told.rejected(message);
    expect(heard).toEqual([message]);
    const line = ['info', { event: 'token.rejected', ...message }, 'token reported as refused'];
    expect(lines).toEqual([line, line]);
  });
});

describe('a pause', () => {
  it('of all owners is news; an owner’s own is told by its failed request', () => {
    const { told, lines } = voice();
    told.paused({ scope: 'owner', owner: 'owner_x', code: 'owner_refused' });
    expect(lines).toEqual([]);
    told.paused({ scope: 'client', code: 'client_refused', retryAtMs: 9 });
    expect(lines).toEqual([
      [
        'warn',
        { event: 'pause.began', scope: 'client', code: 'client_refused', retryAtMs: 9 },
        'token requests paused',
      ],
    ]);
    const heard = heardOn('owner-token-registry:pause');
    told.paused({ scope: 'owner', owner: 'owner_x' });
    told.paused({ scope: 'endpoint', retryAtMs: 9 });
    expect(heard).toEqual([
      { scope: 'owner', owner: 'owner_x', action: 'paused' },
      { scope: 'endpoint', retryAtMs: 9, action: 'paused' },
    ]);
  });

  it('that is lifted is told, with its owner where it was one’s own', () => {
    const { told, lines } = voice();
    told.lifted('client');
    const heard = heardOn('owner-token-registry:pause');
    told.lifted('owner', 'owner_x');
    told.lifted('endpoint');
    expect(heard).toEqual([
      { scope: 'owner', owner: 'owner_x', action: 'lifted' },
      { scope: 'endpoint', action: 'lifted' },
    ]);
    expect(lines.map(([level, fields]) => [level, fields])).toEqual([
      ['info', { event: 'pause.lifted', scope: 'client' }],
      ['info', { event: 'pause.lifted', scope: 'owner', owner: 'owner_x' }],
      ['info', { event: 'pause.lifted', scope: 'endpoint' }],
    ]);
  });
});

describe('what else is told', () => {
  it('is an owner dropped, and a registry closed', () => {
    const { told, lines } = voice();
    told.evicted('owner_x');
    told.closed(3);
    expect(lines).toEqual([
      ['debug', { event: 'owner.evicted', owner: 'owner_x' }, 'least recently used owner dropped'],
      ['info', { event: 'registry.closed', abandoned: 3 }, 'registry closed'],
    ]);
  });

  it('is a lifetime that is not known, once of each kind', () => {
    const { told, lines } = voice();
    for (const kind of ['absent', 'absurd', 'absent']) told.lifetimeUnknown('owner_x', kind, 300_000);
    expect(lines.map(([level, fields]) => [level, fields])).toEqual([
      ['warn', { event: 'lifetime.unknown', owner: 'owner_x', kind: 'absent', assumedMs: 300_000 }],
      ['warn', { event: 'lifetime.unknown', owner: 'owner_x', kind: 'absurd', assumedMs: 300_000 }],
    ]);
    expect(lines[0]?.[2]).toContain('docs/expiry.md');
  });

  it('is a hook that threw, once of each, without what it said', () => {
    const { told, lines } = voice();
    for (let n = 0; n < 2; n++) told.hookFailed('expiry.accepted', new RangeError('canary-7c1d'));
    told.hookFailed('source.close', 'canary-7c1d');
    expect(lines).toMatchObject([
      ['warn', { hook: 'expiry.accepted', cause: { name: 'RangeError' } }, 'expiry.accepted threw; it was ignored'],
      ['warn', { hook: 'source.close', cause: { name: 'Error' } }, 'source.close threw; it was ignored'],
    ]);
    expect(JSON.stringify(lines)).not.toContain('canary');
  });
});

describe('a logger', () => {
  it('that throws goes unheard', () => {
    const broken = () => {
      throw new Error('no');
    };
    expect(() => new Diagnostics({ debug: broken, info: broken, warn: broken }).closed(0)).not.toThrow();
  });

  it('may use `this`, as a class of one’s own does', () => {
    class Counting {
      lines = 0;
      debug() {}
      warn() {}
      info() {
        this.lines++;
      }
    }
    const logger = new Counting();
    new Diagnostics(logger).closed(0);
    expect(logger.lines).toBe(1);
  });

  // What one made here writes, and at which level, is held by `secrets.test.ts` in a process of its own.
  it.each([undefined, 'silent'] as const)('may be %s', (logger) => {
    expect(() => new Diagnostics(logger).closed(0)).not.toThrow();
    expect(() => new Diagnostics(logger).evicted('owner_x')).not.toThrow();
    expect(() => new Diagnostics(logger).hookFailed('source.close', 'x')).not.toThrow();
  });
});
