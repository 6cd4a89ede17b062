import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  type ClassifyOptions,
  classify,
  type EndpointFailure,
  oauthErrorOf,
  type UnusableBody,
} from '../../src/endpoint/classify-failure.ts';
import { type ExchangeResult, redirected } from '../../src/endpoint/http-exchange.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { HTML, VERDICTS } from '../helpers/verdicts.ts';

const NOW_MS = Date.UTC(2030, 0, 1);

/** An exchange that failed, with its body read. */
type Failed = Omit<ExchangeResult, 'body'> & UnusableBody;

function errorFor({ body, problem, ...result }: Failed, options: Partial<ClassifyOptions> = {}): OwnerTokenError {
  return classify(result, { body, problem }, { nowMs: NOW_MS, ...options });
}

/** Code, the scope that the failure may escalate to, and whether `classifyFailure` gave it. */
function classified(failed: Failed, options?: Partial<ClassifyOptions>): unknown[] {
  const error = errorFor(failed, options);
  const { scope, isGiven } = OwnerTokenError.escalationOf(error);
  expect(error.failureScope).toBe(isGiven ? scope : 'owner');
  return [error.code, scope, isGiven];
}

/** What `classifyFailure` is given. */
function shown(failed: Failed): EndpointFailure {
  let seen: EndpointFailure | undefined;
  const classifyFailure = (failure: EndpointFailure) => {
    seen = failure;
    return undefined;
  };
  errorFor(failed, { classifyFailure });
  return seen as EndpointFailure;
}

function errorWith(code: string | undefined): Error {
  return Object.assign(new Error('a secret may be in here'), { code });
}

const UNAVAILABLE = ['endpoint_unavailable', 'endpoint', false];
const BAD_ANSWER = ['invalid_response', 'endpoint', false];

it('an answer is classified by its status and body, as the table says', () => {
  const verdicts = VERDICTS.map(({ status, body }) => {
    const error = errorFor(status === 200 ? { status, body, problem: 'it has no token' } : { status, body });
    const { code, status: answered, oauthError, failureScope } = error;
    const { scope, isGiven } = OwnerTokenError.escalationOf(error);
    return { answered, oauthError, code, scope, isGiven, failureScope };
  });
  expect(verdicts).toEqual(
    VERDICTS.map(({ status, body, code, scope }) => ({
      answered: status,
      oauthError: typeof body === 'object' ? body.error : undefined,
      code,
      scope,
      isGiven: false,
      failureScope: 'owner',
    })),
  );
});

it.each([600, 999])('an answer of %i, which no standard has, is the endpoint’s', (status) => {
  expect(classified({ status })).toEqual(UNAVAILABLE);
});

it('an error that is no code counts as none', () => {
  expect(classified({ status: 404, body: { error: 'Not Found' } })).toEqual(['owner_refused', 'client', false]);
});

it('an answer of 4xx with an HTML page is that of a gateway', () => {
  expect(errorFor({ status: 400, body: HTML })).toMatchObject({
    message:
      'the token endpoint responded with 400 and an HTML page: a gateway answered, not the service; check baseUrl',
    retryable: true,
  });
  expect(shown({ status: 400, body: HTML }).kind).toBe('status');
});

it('an answer of 404 without a code may mean that the address is wrong', () => {
  expect(errorFor({ status: 404 }).message).toBe('the token endpoint responded with 404: check baseUrl');
  expect(errorFor({ status: 404, body: { error: 'not_found' } }).message).toMatch(/404 \(not_found\): check baseUrl/);
  expect(errorFor({ status: 404, body: { error: 'invalid_grant' } }).message).not.toContain('baseUrl');
});

describe('a refusal of credentials with white space', () => {
  const body = { error: 'invalid_client' };
  const messageFor = (credentials: Record<string, string>, failed: Failed = { status: 401, body }) =>
    errorFor(failed, { credentials }).message;
  const good = { clientId: 'id', clientSecret: 's e c', 'the access key': 'key' };

  it.each(['x\n', 'x\r\n', ' x', 'x\t', '\u00a0x', 'x\u200b', '\ufeffx', '\n'])(
    'names them without their value: %j',
    (value) => {
      expect(messageFor({ ...good, clientSecret: value })).toBe(
        'the token endpoint responded with 401 (invalid_client); leading or trailing white space in clientSecret',
      );
    },
  );

  it('names all of them, whichever scope the failure was given', () => {
    const credentials = { clientId: 'id\n', clientSecret: 'secret', 'the access key': ' key' };
    const named = 'leading or trailing white space in clientId and the access key';
    expect(messageFor(credentials, { status: 400, body: { error: 'invalid_grant' } })).toContain(named);
    for (const failureScope of ['owner', 'client', 'endpoint'] as const) {
      const classifyFailure = () => failureScope;
      expect(errorFor({ status: 401, body }, { credentials, classifyFailure }).message).toContain(named);
    }
  });

  it('a refusal of credentials without white space does not mention it, nor does a failure that is no refusal', () => {
    expect(messageFor(good)).not.toContain('white space');
    for (const failed of [
      { status: 503 },
      { status: 429 },
      { error: errorWith('ETIMEDOUT') },
      { status: 200, problem: 'empty' },
    ]) {
      expect(messageFor({ ...good, clientId: 'x\n' }, failed)).not.toContain('white space');
    }
  });
});

it('an answer that redirects is refused, whether its status is known or not', () => {
  const expected = ['redirect_refused', 'endpoint', false];
  expect(classified({ status: 302, error: redirected() })).toEqual(expected);
  expect(classified({ error: redirected() })).toEqual(expected);
  expect(shown({ error: redirected() }).kind).toBe('status');
});

it.each([
  ['ECONNRESET', 'network', UNAVAILABLE],
  [undefined, 'network', UNAVAILABLE],
  ['CERT_HAS_EXPIRED', 'tls', UNAVAILABLE],
  ['ETIMEDOUT', 'timeout', UNAVAILABLE],
  ['Z_DATA_ERROR', 'body', BAD_ANSWER],
])(
  'an exchange that broke off with %s is of the kind %s, whether an answer had begun or not',
  (code, kind, expected) => {
    const error = errorWith(code);
    for (const failed of [{ error }, { status: 200, error }]) expect(classified(failed)).toEqual(expected);
    expect(shown({ error })).toEqual({ kind });
  },
);

describe('a complete answer with a problem', () => {
  const problem = 'the token is empty';

  it('is a bad answer, and the message names the problem', () => {
    const failed = { status: 200, problem, body: { error: 'no_such_error' } };
    expect(classified(failed)).toEqual(BAD_ANSWER);
    expect(errorFor(failed)).toMatchObject({ status: 200, message: expect.stringContaining(problem) });
  });

  it('is named by its OAuth code if it has one that is known', () => {
    expect(errorFor({ status: 200, problem, body: { error: 'invalid_grant' } }).message).toBe(
      'the token endpoint responded with 200 (invalid_grant)',
    );
  });
});

it.each<[string, object, string | undefined]>([
  ['a broken header', { code: 'HPE_INVALID_HEADER_TOKEN', reason: 'Invalid header' }, '(Invalid header); with the'],
  ['another parse error', { code: 'HPE_INVALID_VERSION', reason: 'Invalid version' }, '(Invalid version)'],
  ['a parse error without a reason', { code: 'HPE_INTERNAL' }, undefined],
  ['an error of another kind', { code: 'ECONNRESET', reason: 'secret words' }, undefined],
  ['an error without a code', { reason: 'secret words' }, undefined],
])('only the reason of Node’s HTTP parser is quoted: %s', (_what, fields, quoted) => {
  const { message } = errorFor({ status: 200, error: Object.assign(new Error('x'), fields) });
  if (quoted === undefined) expect(message).not.toMatch(/parser|secret|undefined/);
  else expect(message).toContain(`Node's HTTP parser refuses it ${quoted}`);
});

it.each([
  [{ status: 500 }, 'owner', 'endpoint_unavailable'],
  [{ status: 429 }, 'owner', 'rate_limited'],
  [{ status: 405 }, 'owner', 'owner_refused'],
  [{ status: 400, body: { error: 'invalid_client' } }, 'owner', 'owner_refused'],
  [{ status: 405 }, 'client', 'client_refused'],
  [{ status: 500 }, 'client', 'client_refused'],
  [{ status: 429 }, 'client', 'rate_limited'],
  [{ status: 400, body: { error: 'invalid_grant' } }, 'client', 'client_refused'],
  [{ status: 400, body: { error: 'invalid_grant' } }, 'endpoint', 'endpoint_unavailable'],
] as const)('classifyFailure of %j that returns %s gives that scope, and the code %s', (failed, scope, code) => {
  expect(classified(failed, { classifyFailure: () => scope })).toEqual([code, scope, true]);
});

it('classifyFailure that throws, or returns anything but a scope, is source_failed', () => {
  const boom = () => {
    throw new RangeError('secret words');
  };
  const error = errorFor({ status: 503, retryAfter: '9' }, { classifyFailure: boom });
  expect(error).toMatchObject({ code: 'source_failed', failureScope: 'owner', status: 503, retryAfterMs: 9_000 });
  expect(error.message).toBe('classifyFailure threw, or returned something other than a failure scope');
  expect(error.cause?.name).toBe('RangeError');
  for (const said of ['nobody', 1, null, Promise.resolve('owner')]) {
    expect(classified({ status: 503 }, { classifyFailure: () => said as 'owner' })[0]).toBe('source_failed');
  }
});

it.each([[null], ['invalid_grant'], [[]], [{}], [{ error: 7 }], [{ error: 'Invalid Grant' }], [{ error: '' }]])(
  'the OAuth code is not in %j',
  (body) => {
    expect(oauthErrorOf(body)).toBeUndefined();
  },
);

it('an OAuth code that repeats a credential is shown to classifyFailure alone', () => {
  const failed = { status: 400, body: { error: 'no_fridge_door' } };
  const error = errorFor(failed, { credentials: { clientId: 'x', 'the access key': 'Fridge-Door' } });
  expect(error).toMatchObject({ oauthError: undefined, message: 'the token endpoint responded with 400' });
  expect(errorFor(failed, { credentials: { clientId: 'x' } })).toMatchObject({
    oauthError: 'no_fridge_door',
    message: 'the token endpoint responded with 400 (no_fridge_door)',
  });
  expect(shown(failed).oauthError).toBe('no_fridge_door');
});

it('the words of the service are in nothing but the body that classifyFailure sees', () => {
  const body = { error: 'invalid_grant', error_description: 'The contract has ended.', error_uri: 'https://x.example' };
  const error = errorFor({ status: 400, body });
  expect(inspect(error, { depth: null, showHidden: true })).not.toMatch(/contract|example/);
  expect(shown({ status: 400, body })).toEqual({ kind: 'status', status: 400, oauthError: 'invalid_grant', body });
});

it('the error holds only facts (time, status, code, wait), and no text of its cause', () => {
  const error = errorFor({ status: 200, error: errorWith('ECONNRESET'), body: { a: 'secret' }, retryAfter: '3' });
  expect(error).toMatchObject({ failedAtMs: NOW_MS, status: 200, retryAfterMs: 3_000 });
  expect(error.cause).toMatchObject({ name: 'Error', code: 'ECONNRESET' });
  expect(JSON.stringify(error)).not.toContain('secret');
});
