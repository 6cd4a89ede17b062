import nock from 'nock';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EndpointFailure } from '../../src/endpoint/classify-failure.ts';
import type { TokenEndpointOptions } from '../../src/endpoint/options.ts';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';
import type { TokenRequestShape } from '../../src/endpoint/token-request.ts';
import { basicAuthRequest, formRequest, jsonRequest } from '../../src/endpoint/token-request.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import type { IssuedToken } from '../../src/token-source.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf } from '../helpers/registries.ts';

const BASE_URL = 'https://service.example';

beforeEach(() => {
  if (!nock.isActive()) nock.activate();
  nock.disableNetConnect();
});

afterEach(() => {
  const pending = nock.pendingMocks();
  nock.abortPendingRequests();
  nock.cleanAll();
  // The files that this worker runs next use the network.
  nock.enableNetConnect();
  nock.restore();
  expect(pending).toEqual([]);
});

function endpoint(options: Partial<TokenEndpointOptions> = {}): TokenEndpoint {
  return new TokenEndpoint({ baseUrl: BASE_URL, clientId: 'the-id', clientSecret: 'the-secret', ...options });
}

/** The service answers one request so. */
function answer(status: number, body?: nock.Body, headers?: nock.ReplyHeaders): void {
  nock(BASE_URL).post('/auth/v1/token').reply(status, body, headers);
}

describe('the request', () => {
  it('is that of the specification: one POST of four fields as JSON', async () => {
    let seen: { body: unknown; headers: Record<string, unknown> } | undefined;
    nock(BASE_URL)
      .post('/auth/v1/token')
      .reply(function (_uri, body) {
        seen = { body, headers: this.req.headers };
        return [200, { access_token: 't' }];
      });
    await endpoint().requestToken('the key');
    expect(seen?.body).toEqual({
      grant_type: 'client_credentials',
      client_id: 'the-id',
      client_secret: 'the-secret',
      appliance_owner_scope: 'the key',
    });
    expect(seen?.headers).toMatchObject({
      'content-type': 'application/json',
      accept: 'application/json',
      'user-agent': 'owner-token-registry',
      'content-length': '119',
    });
  });

  it.each([
    ['https://service.example', '/auth/v1/token'],
    ['https://service.example/', '/auth/v1/token'],
    ['https://service.example/tenant/a', '/tenant/a/auth/v1/token'],
    ['https://service.example/tenant/a/', '/tenant/a/auth/v1/token'],
  ])('goes below the base URL %s', async (baseUrl, path) => {
    nock(BASE_URL).post(path).reply(200, { access_token: 't' });
    const made = endpoint({ baseUrl });
    expect(made.origin).toBe('https://service.example');
    await made.requestToken('key');
  });

  it.each(['', undefined, null, 7, ['key']])('is not made for %j', async (key) => {
    expect(await errorOf(endpoint().requestToken(key as string))).toMatchObject({ code: 'invalid_access_key' });
  });
});

describe('the shape of the request', () => {
  /** What arrives of one request. */
  async function sentWith(options: Partial<TokenEndpointOptions>) {
    let seen: { path: string; body: unknown; headers: Record<string, unknown> } | undefined;
    nock(BASE_URL)
      .post(/.*/)
      .reply(function (path, body) {
        seen = { path, body, headers: this.req.headers };
        return [200, { access_token: 't' }];
      });
    await endpoint(options).requestToken('the key');
    return seen;
  }

  it.each<[string, Partial<TokenEndpointOptions>]>([
    ['node:http', {}],
    ['fetch', { fetch }],
  ])('is what the option says, over %s', async (_transport, transport) => {
    const form = await sentWith({ tokenRequest: formRequest({ path: '/oauth/token' }), ...transport });
    expect(form).toMatchObject({
      path: '/oauth/token',
      body: 'grant_type=client_credentials&client_id=the-id&client_secret=the-secret&appliance_owner_scope=the+key',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    });
  });

  it('may send each owner to a path of its own', async () => {
    const made = endpoint({ tokenRequest: ({ accessKey }) => ({ path: `/${accessKey}`, body: '' }) });
    for (const key of ['a', 'b', 'a']) {
      nock(BASE_URL)
        .post(`/${key}`)
        .reply(200, { access_token: `token-of-${key}` });
      expect(await made.requestToken(key)).toMatchObject({ token: `token-of-${key}` });
    }
  });

  it('that leads elsewhere is source_failed, and nothing is sent', async () => {
    const tokenRequest: TokenRequestShape = () => ({ path: '//elsewhere.example/x', body: '' });
    const error = await errorOf(endpoint({ tokenRequest }).requestToken('key'));
    expect(error).toMatchObject({ code: 'source_failed', message: expect.stringMatching(/^tokenRequest .*path: /) });
  });

  it('that throws is source_failed without its message; one of our errors is passed on', async () => {
    const throwing = (thrown: Error) => () => {
      throw thrown;
    };
    const failed = await errorOf(endpoint({ tokenRequest: throwing(new RangeError('the-secret')) }).requestToken('k'));
    expect(failed).toMatchObject({
      code: 'source_failed',
      message: 'tokenRequest threw',
      cause: { name: 'RangeError' },
    });
    const own = new OwnerTokenError('owner_refused', 'mine');
    expect(await errorOf(endpoint({ tokenRequest: throwing(own) }).requestToken('key'))).toBe(own);
  });
});

describe('the issued token', () => {
  it('is the token with its type, the time before the request, and the answer as it came', async () => {
    const clock = new ManualClock();
    const atMs = clock.now();
    nock(BASE_URL)
      .post('/auth/v1/token')
      .reply(() => {
        clock.advance(8_000);
        return [200, { access_token: 'abc', token_type: 'bearer', expires_in: 10, extra: [1] }];
      });
    const expected: IssuedToken = {
      token: 'abc',
      tokenType: 'bearer',
      requestedAtMs: atMs,
      response: { access_token: 'abc', token_type: 'bearer', expires_in: 10, extra: [1] },
    };
    expect(await endpoint({ clock }).requestToken('key')).toEqual(expected);
    expect(clock.pendingTimers).toBe(0);
  });

  it('comes with any status from 200 to 299, and any content type', async () => {
    for (const status of [200, 201, 202, 299]) {
      answer(status, '{"access_token":"abc"}', { 'content-type': 'text/plain' });
      expect(await endpoint().requestToken('key')).toMatchObject({ token: 'abc' });
    }
  });

  it.each([300, 401, 500])('is not read from a response with status %d', async (status) => {
    answer(status, { access_token: 'abc' });
    expect(await errorOf(endpoint().requestToken('key'))).toMatchObject({ status });
  });

  it('is what parseResponse makes of the body, and no more', async () => {
    answer(200, { data: [{ jwt: 'abc' }] });
    const parseResponse = (body: unknown) => {
      const { data } = body as { data: { jwt: string }[] };
      return { token: data[0]?.jwt ?? '', tokenType: 'DPoP', requestedAtMs: 5, response: {} };
    };
    const issued = await endpoint({ parseResponse }).requestToken('key');
    expect(issued).toMatchObject({ token: 'abc', tokenType: 'DPoP', response: { data: [{ jwt: 'abc' }] } });
    expect(issued.requestedAtMs).not.toBe(5);
  });

  it('has no response where the body is no object', async () => {
    answer(200, '["abc"]');
    const issued = await endpoint({ parseResponse: (body) => ({ token: (body as string[])[0] ?? '' }) }).requestToken(
      'key',
    );
    expect(issued).toEqual({ token: 'abc', requestedAtMs: expect.any(Number) });
  });
});

it('an answer cannot be used if parseResponse makes an unusable token of it', async () => {
  for (const made of [undefined, 'a', {}, { token: 7 }, { token: 'a b' }, { token: 'a', tokenType: 7 }]) {
    answer(200, {});
    const parseResponse = () => made as unknown as { token: string };
    expect(await errorOf(endpoint({ parseResponse }).requestToken('key'))).toMatchObject({
      code: 'invalid_response',
    });
  }
});

it('a refusal is passed to classifyFailure with the parsed body, or its text, and gets the scope it returns', async () => {
  const seen: EndpointFailure[] = [];
  const classifyFailure = (failed: EndpointFailure) => {
    seen.push(failed);
    return 'endpoint' as const;
  };
  answer(400, { error: 'locked', hint: 'h' }, { 'retry-after': '5' });
  expect((await errorOf(endpoint({ classifyFailure }).requestToken('key'))).failureScope).toBe('endpoint');
  answer(502, 'bad gateway');
  await errorOf(endpoint({ classifyFailure }).requestToken('key'));
  answer(200, 'oops');
  await errorOf(endpoint({ classifyFailure }).requestToken('key'));
  expect(seen).toEqual([
    { kind: 'status', status: 400, oauthError: 'locked', retryAfterMs: 5_000, body: { error: 'locked', hint: 'h' } },
    { kind: 'status', status: 502, body: 'bad gateway' },
    { kind: 'body', status: 200, body: 'oops' },
  ]);
});

describe('a user function that fails', () => {
  const boom = () => {
    throw new RangeError('the-secret');
  };

  it('is source_failed if parseResponse throws, unless it threw one of our errors', async () => {
    answer(200, {});
    const error = await errorOf(endpoint({ parseResponse: boom }).requestToken('key'));
    expect(error).toMatchObject({ code: 'source_failed', failureScope: 'owner', cause: { name: 'RangeError' } });
    const own = new OwnerTokenError('client_refused', 'mine');
    answer(200, {});
    const parseResponse = () => {
      throw own;
    };
    expect(await errorOf(endpoint({ parseResponse }).requestToken('key'))).toBe(own);
  });

  it.each<[string, () => unknown, string, string?]>([
    ['throws', boom, 'threw', 'RangeError'],
    ['rejects', async () => boom(), 'threw', 'RangeError'],
    ['gives nothing', () => undefined, 'did not return a string'],
    ['gives an empty string', async () => '', 'returned an empty string (is its environment variable set?)'],
    ['gives no string', () => ({ secret: 'x' }), 'did not return a string'],
  ])(
    'is source_failed about the client, and nothing is sent, if clientSecret %s',
    async (_what, clientSecret, problem, cause) => {
      const clock = new ManualClock();
      const made = endpoint({ clock, clientSecret: clientSecret as () => string });
      for (const call of [made.requestToken('key'), made.identity()]) {
        const error = await errorOf(call);
        const message = `clientSecret() ${problem}`;
        expect(error).toMatchObject({ code: 'source_failed', message, failedAtMs: clock.now() });
        expect((error.cause as Error | undefined)?.name).toBe(cause);
        expect(OwnerTokenError.escalationOf(error)).toEqual({ scope: 'client', isGiven: false });
      }
    },
  );

  it('is source_failed at the deadline if clientSecret hangs', async () => {
    const clock = new ManualClock();
    const made = endpoint({ clock, clientSecret: () => new Promise<string>(() => {}), timeoutMs: 500 });
    for (const call of [made.requestToken('key'), made.identity()]) {
      const failed = errorOf(call);
      await settle();
      clock.advance(500);
      expect(await failed).toMatchObject({ code: 'source_failed', failureScope: 'owner' });
    }
    expect(clock.pendingTimers).toBe(0);
  });
});

it('identity is the same for the same service and client, and another for any other', async () => {
  const same = await endpoint().identity();
  expect(same).toMatch(/^[\w-]{43}$/);
  expect(await endpoint({ baseUrl: new URL(`${BASE_URL}/`), timeoutMs: 5 }).identity()).toBe(same);
  expect(await endpoint({ clientSecret: async () => 'the-secret' }).identity()).toBe(same);
  const others: Partial<TokenEndpointOptions>[] = [
    { baseUrl: `${BASE_URL}/tenant` },
    { clientId: 'other-id' },
    { clientSecret: 'other' },
    { clientId: 'the-idt', clientSecret: 'he-secret' },
    { clientId: 'the-id10:', clientSecret: 'the-secret'.slice(3) },
  ];
  const all = await Promise.all([{}, ...others].map((options) => endpoint(options).identity()));
  expect(new Set(all).size).toBe(all.length);
});

it('identity differs for requests of different shapes, and is the same for equal ones', async () => {
  const shapes: Partial<TokenEndpointOptions>[] = [
    ...[jsonRequest, formRequest, basicAuthRequest].flatMap((shape) => [
      { tokenRequest: shape() },
      { tokenRequest: shape({ path: '/oauth/token' }) },
      { tokenRequest: shape({ parameters: { accessKey: 'tenant' } }) },
    ]),
    { tokenRequest: (credentials) => ({ ...jsonRequest()(credentials), headers: { 'X-Version': '2' } }) },
  ];
  const all = await Promise.all(shapes.map((options) => endpoint(options).identity()));
  expect(new Set(all).size).toBe(all.length);
  expect(await endpoint({}).identity()).toBe(all[0]);
  expect(await endpoint({ tokenRequest: formRequest({ path: '/auth/v1/token' }) }).identity()).toBe(all[3]);
});

it('identity follows a rotated secret, and a shape that reads settings that change', async () => {
  const secrets = ['the-secret', 'rotated', 'the-secret', 'the-secret'];
  let scope = '';
  const tokenRequest: TokenRequestShape = (credentials) => jsonRequest(scope ? { extra: { scope } } : {})(credentials);
  const changing = endpoint({ clientSecret: () => secrets.shift() ?? '', tokenRequest });
  const [before, after, again] = [await changing.identity(), await changing.identity(), await changing.identity()];
  expect([before, again]).toEqual([await endpoint().identity(), before]);
  expect(after).not.toBe(before);
  scope = 'read';
  expect(await changing.identity()).not.toBe(before);
});

it('identity shows tokenRequest placeholders only, and fails as it does', async () => {
  const seen: unknown[] = [];
  const tokenRequest: TokenRequestShape = (credentials) => {
    seen.push(JSON.stringify(credentials));
    throw new Error('no such owner');
  };
  expect(await errorOf(endpoint({ tokenRequest }).identity())).toMatchObject({ code: 'source_failed' });
  expect(seen).toHaveLength(1);
  expect(seen[0]).not.toMatch(/the-id|the-secret/);
});

it('a request whose signal was aborted before it starts reads no secret and sends nothing', async () => {
  let asked = 0;
  const made = endpoint({ clientSecret: () => String(++asked) });
  expect(await errorOf(made.requestToken('key', { signal: AbortSignal.abort() }))).toMatchObject({
    code: 'closed',
  });
  expect(asked).toBe(0);
});

it('a request whose signal is aborted while the secret is awaited ends at once', async () => {
  const controller = new AbortController();
  const made = endpoint({ clientSecret: () => new Promise<string>(() => {}) });
  const failed = errorOf(made.requestToken('key', { signal: controller.signal }));
  controller.abort();
  expect(await failed).toMatchObject({ code: 'closed' });
});

it.each([
  ['in one batch, in a later turn of the event loop', {}, []],
  ['at once if the user gives a clock too', { clock: new ManualClock() }, ['a', 'b']],
])('delivers the results of a given fetch %s', async (_how, options, deliveredAtOnce) => {
  const made = endpoint({ ...options, fetch: async () => Response.json({ access_token: 't' }) });
  const delivered: string[] = [];
  const requested = ['a', 'b'].map(async (key) => {
    await made.requestToken(key);
    delivered.push(key);
  });
  // Node runs all of these before the next turn.
  const microtasks = async () => {
    for (let hop = 0; hop < 100; hop++) await Promise.resolve();
  };
  await microtasks();
  expect(delivered).toEqual(deliveredAtOnce);
  await requested[0];
  await microtasks();
  expect(delivered).toEqual(['a', 'b']);
  await Promise.all(requested);
});

it('a fetch that rejects with an error that cannot be read fails the request', async () => {
  const read = () => {
    throw new TypeError('unreadable');
  };
  const unreadable = Object.defineProperty(new Error(), 'message', { get: read });
  const failing = endpoint({ fetch: () => Promise.reject(unreadable) });
  await expect(failing.requestToken('key')).rejects.toThrow('unreadable');
});

it('an error of ours from a given fetch is passed on; any other is a broken connection', async () => {
  const own = new OwnerTokenError('rate_limited', 'mine', { retryAfterMs: 5_000 });
  const throwing = (error: unknown) => endpoint({ fetch: () => Promise.reject(error) });
  expect(await errorOf(throwing(own).requestToken('key'))).toBe(own);
  expect(await errorOf(throwing(new Error('?')).requestToken('key'))).toMatchObject({
    code: 'endpoint_unavailable',
  });
  expect(await errorOf(throwing(undefined).requestToken('key'))).toMatchObject({ code: 'endpoint_unavailable' });
});

describe('without certificate checks', () => {
  it.each([
    ['https://service.example', '0', 1],
    ['https://service.example', '1', 0],
    ['https://service.example', undefined, 0],
    ['http://127.0.0.1:1', '0', 0],
  ])('an endpoint at %s with NODE_TLS_REJECT_UNAUTHORIZED=%s warns %i times', (baseUrl, setting, times) => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', setting);
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
    new TokenEndpoint({ baseUrl, clientId: 'app', clientSecret: 'secret' });
    expect(warned).toHaveBeenCalledTimes(times);
    for (const [text] of warned.mock.calls) expect(text).toMatch(/client secret.*NODE_EXTRA_CA_CERTS/);
  });
});
