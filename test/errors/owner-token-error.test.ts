import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  codeInScope,
  ERROR_CODES,
  OwnerTokenError,
  type OwnerTokenErrorCode,
} from '../../src/errors/owner-token-error.ts';
import { ScrubbedCause } from '../../src/errors/scrubbed-cause.ts';

const CANARY = 'canary-7c1d';

describe('the meaning of a code', () => {
  it.each([
    ['owner_refused', 'owner', 'client', false],
    ['client_refused', 'owner', 'client', false],
    ['rate_limited', 'owner', 'endpoint', true],
    ['endpoint_unavailable', 'owner', 'endpoint', true],
    ['invalid_response', 'owner', 'endpoint', true],
    ['redirect_refused', 'owner', 'endpoint', false],
    ['token_rejected', 'owner', 'owner', true],
    ['source_failed', 'owner', 'client', true],
    ['queue_full', undefined, 'owner', true],
    ['queue_timeout', undefined, 'owner', true],
    ['origin_refused', undefined, 'owner', false],
    ['insecure_url', undefined, 'owner', false],
    ['invalid_options', undefined, 'owner', false],
    ['invalid_access_key', undefined, 'owner', false],
    ['closed', undefined, 'owner', false],
  ] as const)('%s stops %s, and may escalate to %s', (code, failureScope, scope, retryable) => {
    const error = new OwnerTokenError(code, 'why');
    expect(error).toMatchObject({ name: 'OwnerTokenError', code, message: 'why', failureScope, retryable });
    expect(OwnerTokenError.escalationOf(error)).toEqual({ scope, isGiven: false });
  });

  it('is known for every code', () => {
    expect(ERROR_CODES).toHaveLength(15);
    for (const code of ERROR_CODES) expect(() => new OwnerTokenError(code, '')).not.toThrow();
  });

  it.each([CANARY, 'constructor', 'toString', '__proto__'])(
    'is not known for %s, which JavaScript may give',
    (name) => {
      const make = () => new OwnerTokenError(name as OwnerTokenErrorCode, '');
      expect(make).toThrow(/^unknown OwnerTokenError code; expected one of owner_refused, /);
      expect(make).not.toThrow(name);
    },
  );

  it('follows the scope that a failure is attributed to, unless it names its own cause', () => {
    const inScopes = (code: OwnerTokenErrorCode) =>
      (['owner', 'client', 'endpoint'] as const).map((scope) => codeInScope(code, scope));
    for (const code of ['owner_refused', 'client_refused', 'endpoint_unavailable', 'invalid_response'] as const) {
      expect(inScopes(code)).toEqual([code, 'client_refused', 'endpoint_unavailable']);
    }
    for (const fixed of ['rate_limited', 'redirect_refused', 'token_rejected', 'source_failed'] as const) {
      expect(inScopes(fixed)).toEqual([fixed, fixed, fixed]);
    }
  });

  it.each(['owner', 'client', 'endpoint'] as const)('says what a given scope says: %s', (failureScope) => {
    const error = new OwnerTokenError('endpoint_unavailable', '', { failureScope, oauthError: 'invalid_grant' });
    expect(error.failureScope).toBe(failureScope);
    expect(OwnerTokenError.escalationOf(error)).toEqual({ scope: failureScope, isGiven: true });
  });
});

describe('an error', () => {
  const facts = {
    failedAtMs: 5,
    retryAtMs: 9,
    retryAfterMs: 4_000,
    status: 503,
    owner: 'owner_x',
    oauthError: 'temporarily_unavailable',
    cause: new RangeError(CANARY),
  };

  it('keeps the facts it was given, and dates itself where it got no date', () => {
    const { cause: _, ...kept } = facts;
    expect(new OwnerTokenError('rate_limited', 'why', facts)).toMatchObject({ ...kept, cause: { name: 'RangeError' } });
    const before = Date.now();
    const { failedAtMs, ...bare } = new OwnerTokenError('closed', 'why');
    expect(failedAtMs).toBeGreaterThanOrEqual(before);
    expect(failedAtMs).toBeLessThanOrEqual(Date.now());
    expect(bare.cause).toBeUndefined();
  });

  it('drops a malformed OAuth error', () => {
    expect(new OwnerTokenError('owner_refused', '', { oauthError: CANARY }).oauthError).toBeUndefined();
  });

  it.each([
    [5_000, 5_000],
    [1, 1_000],
    [0, undefined],
    [-5, undefined],
    [1e12, 3_600_000],
    [Number.POSITIVE_INFINITY, undefined],
    [Number.NaN, undefined],
    ['5000', undefined],
  ])('takes a retryAfterMs of %s as %s', (given, kept) => {
    expect(new OwnerTokenError('rate_limited', '', { retryAfterMs: given as number }).retryAfterMs).toBe(kept);
  });

  it.each([null, 'nobody', 'constructor', 7, ['client']])('refuses the failure scope %j', (failureScope) => {
    const wrong = { failureScope: failureScope as 'owner' };
    expect(() => new OwnerTokenError('rate_limited', '', wrong)).toThrow('unknown failureScope; expected one of owner');
  });

  it('reads each option once, so that a changing getter smuggles nothing in', () => {
    let reads = 0;
    const changing = {
      get oauthError() {
        return ++reads > 1 ? CANARY : 'invalid_grant';
      },
      get retryAfterMs() {
        return ++reads > 2 ? Number.NaN : 5_000;
      },
    };
    const error = new OwnerTokenError('owner_refused', '', changing);
    expect(error).toMatchObject({ oauthError: 'invalid_grant', retryAfterMs: 5_000 });
  });

  it('is complete as JSON, with its message', () => {
    const shown = JSON.parse(JSON.stringify(new OwnerTokenError('rate_limited', 'why', facts)));
    expect(shown).toMatchObject({ name: 'OwnerTokenError', code: 'rate_limited', message: 'why', status: 503 });
    expect(JSON.stringify(shown)).not.toContain(CANARY);
  });

  it('is restated with other facts of place and time, and all else as it was', () => {
    const error = new OwnerTokenError('rate_limited', 'why', facts);
    const again = OwnerTokenError.restated(error, { message: 'again', owner: 'owner_y', retryAtMs: undefined });
    expect(again).not.toBe(error);
    const { stack: _, message, ...kept } = { ...error, message: 'again', stack: '' };
    expect({ ...again }).toEqual({ ...kept, owner: 'owner_y', retryAtMs: undefined });
    expect(again.message).toBe(message);
    expect(again.cause).toBe(error.cause);
    expect(OwnerTokenError.restated(error, {}).message).toBe('why');
  });

  it('escalates after restating like the original, unless its scope was given then or before', () => {
    const timeout = new OwnerTokenError('endpoint_unavailable', '');
    const again = OwnerTokenError.restated(timeout, {});
    expect(again.failureScope).toBe('owner');
    expect(OwnerTokenError.escalationOf(again)).toEqual({ scope: 'endpoint', isGiven: false });
    const escalated = OwnerTokenError.restated(timeout, { failureScope: 'client' });
    expect(escalated).toMatchObject({ code: 'client_refused', failureScope: 'client' });
    expect(OwnerTokenError.escalationOf(escalated)).toEqual({ scope: 'client', isGiven: true });
    const onPurpose = OwnerTokenError.restated(OwnerTokenError.restated(timeout, { failureScope: 'owner' }), {});
    expect(onPurpose).toMatchObject({ code: 'endpoint_unavailable', failureScope: 'owner' });
    expect(OwnerTokenError.escalationOf(onPurpose)).toEqual({ scope: 'owner', isGiven: true });
    expect(OwnerTokenError.restated(new OwnerTokenError('closed', ''), {}).failureScope).toBeUndefined();
  });
});

it('a scrubbed cause keeps name, code and frames, and no text', () => {
  const thrown = Object.assign(new TypeError(`says ${CANARY}\n    at ${CANARY} (/x.js:1:1)`), { code: 'ECONNRESET' });
  const scrubbed = ScrubbedCause.of(thrown);
  expect(scrubbed).toMatchObject({ name: 'TypeError', code: 'ECONNRESET' });
  expect(scrubbed.frames?.length).toBeGreaterThan(0);
  expect(scrubbed.frames?.length).toBeLessThanOrEqual(8);
  expect(scrubbed.frames?.[0]).toMatch(/^at .*owner-token-error\.test\.ts:\d+:\d+\)?$/);
  expect(inspect(scrubbed, { depth: 9, showHidden: true })).not.toContain(CANARY);
});

it.each([
  ['a string', CANARY],
  ['undefined', undefined],
  ['null', null],
  ['a function', () => CANARY],
  ['an object without anything', {}],
  ['names that are none', { name: CANARY, code: CANARY, cause: CANARY, stack: 7, message: 7 }],
  ['names that are longer than names are', { name: `${'E'.repeat(42)}Error`, code: 'E'.repeat(42) }],
  [
    'getters that throw',
    new Proxy(
      {},
      {
        get: () => {
          throw new Error(CANARY);
        },
      },
    ),
  ],
  ['a message that is not in its stack', { message: CANARY, stack: 'at f (/x.js:1:1)' }],
  ['a stack without a message', { stack: 'at f (/x.js:1:1)' }],
  ['a message without a stack', { message: CANARY }],
])('a scrubbed cause is a plain Error, of %s', (_, thrown) => {
  expect({ ...ScrubbedCause.of(thrown) }).toEqual({ name: 'Error' });
});

it('a scrubbed cause takes from a stack only the frames after the message', () => {
  const frames = ['    at a (/a.js:1:2)', `    at ${'x'.repeat(301)}:1:2`, `    ${CANARY}`, '  at /b.js:3:4'];
  const stack = ['Error: why', ...frames].join('\n');
  expect(ScrubbedCause.of({ message: 'why', stack }).frames).toEqual(['at a (/a.js:1:2)', 'at /b.js:3:4']);
});

it('a scrubbed cause takes no frames from a stack that does not begin with the message: they may be text', () => {
  const frame = `at ${CANARY} (/a.js:1:2)`;
  const framesOf = (message: string, stack: string) => ScrubbedCause.of({ message, stack }).frames;
  expect(framesOf('why', `Error: why it was\n    ${frame}`)).toBeUndefined();
  expect(framesOf('why', `Error: said\n    ${frame}\nError: why\n    ${frame}`)).toBeUndefined();
  expect(framesOf('', `Error: said\n    ${frame}`)).toBeUndefined();
  expect(framesOf('', 'Error\n    at f (/a.js:1:2)')).toEqual(['at f (/a.js:1:2)']);
  expect(framesOf('why', 'TypeError [ERR_X]: why\n    at f (/a.js:1:2)')).toEqual(['at f (/a.js:1:2)']);
});

it('a scrubbed cause is made in linear time, however long message and stack are', () => {
  // A search for the message anywhere in this stack compares it 2,000,000 times.
  const message = 'a'.repeat(1_000_000);
  const stack = `Error: ${message}b${'a'.repeat(3_000_000)}b`;
  expect(ScrubbedCause.of({ message, stack }).frames).toBeUndefined();
  const many = `Error: ${message}\n${'at :1'.repeat(1_000_000)}\n${'    at f (/a.js:1:2)\n'.repeat(1_000_000)}`;
  expect(ScrubbedCause.of({ message, stack: many }).frames).toBeUndefined();
});

it('a scrubbed cause keeps eight frames and four causes', () => {
  const frame = '    at f (/x.js:1:1)';
  const stack = ['Error: why', ...Array(20).fill(frame)].join('\n');
  expect(ScrubbedCause.of({ message: 'why', stack }).frames).toHaveLength(8);
  const endless: { name: string; cause?: object } = { name: 'Error' };
  endless.cause = endless;
  let depth = 0;
  for (let each: ScrubbedCause | undefined = ScrubbedCause.of(endless); each; each = each.cause) depth++;
  expect(depth).toBe(4);
});

it('a scrubbed cause keeps only causes that are objects', () => {
  expect(ScrubbedCause.of({ cause: null }).cause).toBeUndefined();
  expect(ScrubbedCause.of({ cause: 'x' }).cause).toBeUndefined();
});

it('instanceof is false for a value that throws when it is looked at', () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect((proxy as unknown) instanceof OwnerTokenError).toBe(false);
});
