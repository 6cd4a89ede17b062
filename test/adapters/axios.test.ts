import { Agent } from 'node:https';
import { inspect } from 'node:util';
import axios, {
  type AxiosError,
  type AxiosInstance,
  type AxiosRequestConfig,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios';
import MockAdapter from 'axios-mock-adapter';
import axiosRetry from 'axios-retry';
import { describe, expect, it } from 'vitest';
import { attachOwnerTokens, ownerTokenAdapter } from '../../src/adapters/axios.ts';
import { callRules, type OwnerFetch, ownerFetchFor, rulesOfSource } from '../../src/calling/owner-fetch.ts';
import { isOwnerTokenError, OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { adapterSuite, type Client } from '../helpers/adapter-suite.ts';
import { NumberedTokens } from '../helpers/numbered-tokens.ts';
import type { RawCall } from '../helpers/print-suite.ts';
import { ResourceService } from '../helpers/resource-service.ts';

/** Errors for a status are answers, as the suite wants them. */
const clientOf =
  (client: AxiosInstance): Client =>
  async (url, { body, ...init } = {}) => {
    try {
      const { status, data } = await client.request({ url: url as string, ...init, ...(body && { data: body }) });
      return { status, body: data };
    } catch (error) {
      const { response } = error as AxiosError<string>;
      if (!response) throw error;
      return { status: response.status, body: response.data };
    }
  };
const makeClient = (call: OwnerFetch, options?: { ca?: string }) =>
  clientOf(axios.create({ adapter: ownerTokenAdapter(axios, call), httpsAgent: new Agent(options) }));

/** Calls that return and throw what axios itself does, with these settings. */
const rawCall =
  (settings: AxiosRequestConfig): RawCall =>
  (call, url, { signal, ca, timeoutMs = 0 }) => {
    const httpsAgent = new Agent({ ca, keepAlive: true });
    const client = axios.create({ adapter: ownerTokenAdapter(axios, call), httpsAgent, timeout: timeoutMs });
    return client.get(url, { signal, ...settings });
  };

const causeOf = (error: unknown) => (axios.isAxiosError(error) ? (error.cause ?? error) : error);

/** The rejection of a call, as a real code base handles it. */
const axiosErrorOf = async (call: Promise<unknown>): Promise<AxiosError> => {
  const error: unknown = await call.then(
    () => undefined,
    (thrown) => thrown,
  );
  if (!axios.isAxiosError(error)) throw new Error('not an AxiosError', { cause: error });
  return error;
};

describe('axios', () => {
  adapterSuite({
    makeClient,
    causeOf,
    raw: {
      'a call': rawCall({}),
      'a call that throws for no status': rawCall({ validateStatus: null }),
      'a call without redirects': rawCall({ maxRedirects: 0 }),
      'a stream': rawCall({ responseType: 'stream' }),
      'a bounded stream': rawCall({ responseType: 'stream', maxContentLength: 1, validateStatus: null }),
    },
  });

  const clientFor = (tokens: NumberedTokens, origin: string, config = {}) => {
    const call = ownerFetchFor(tokens, 'key', callRules(undefined, rulesOfSource(origin)));
    return axios.create({ baseURL: `${origin}/base`, adapter: ownerTokenAdapter(axios, call), ...config });
  };
  const accepting = (good: string) =>
    ResourceService.start(({ token, body }, response) => {
      response.writeHead(token === good ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ body }));
    });

  it('transforms and intercepts a call once, however often it is sent', async () => {
    await using service = await accepting('t2');
    const client = clientFor(new NumberedTokens(), service.origin);
    let intercepted = 0;
    const count = <T>(seen: T): T => {
      intercepted++;
      return seen;
    };
    client.interceptors.request.use(count);
    client.interceptors.response.use(count);
    const { data } = await client.post('/path', { a: 1 }, { params: { q: 1 } });
    expect(data).toEqual({ body: '{"a":1}' });
    expect(service.received.map(({ path }) => path)).toEqual(['/base/path?q=1', '/base/path?q=1']);
    expect(intercepted).toBe(2);
  });

  it('repeats a call after a 401 even if validateStatus accepts it', async () => {
    await using service = await accepting('t2');
    const client = clientFor(new NumberedTokens(), service.origin, { validateStatus: null });
    expect((await client.get('/')).status).toBe(200);
    await using refusing = await accepting('none');
    expect((await clientFor(new NumberedTokens(), refusing.origin, { validateStatus: null }).get('/')).status).toBe(
      401,
    );
  });

  it('gives an adapter that is a function a one-time body only once', async () => {
    const tokens = new NumberedTokens();
    const call = ownerFetchFor(tokens, 'key', callRules(undefined, rulesOfSource('https://api.example')));
    let sent = 0;
    const adapter = async (config: InternalAxiosRequestConfig) => {
      sent++;
      return { status: 401, statusText: '', data: '', headers: {}, config };
    };
    const client = axios.create({ adapter });
    attachOwnerTokens(axios, client, () => call);
    const body = (async function* () {
      yield 'part';
    })();
    await client.post('https://api.example/', body, { transformRequest: (data) => data });
    expect([sent, tokens.rejected]).toEqual([1, ['t1']]);
  });

  it('destroys the stream of a 401 response', async () => {
    let letGo = () => {};
    const closed = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    await using service = await ResourceService.start(({ token }, response) => {
      response.writeHead(token === 't2' ? 200 : 401);
      if (token === 't2') response.end('ok');
      else response.on('close', letGo).write('and so on');
    });
    const client = clientFor(new NumberedTokens(), service.origin, { responseType: 'stream' });
    const { status, data } = await client.get('/');
    expect(status).toBe(200);
    for await (const chunk of data) expect(String(chunk)).toBe('ok');
    await closed;
  });

  it('shows no token in the config of responses and errors', async () => {
    for (const good of ['t1', 'none']) {
      await using service = await accepting(good);
      const client = clientFor(new NumberedTokens(), service.origin);
      const outcome = await client.get('/').catch((error: AxiosError) => error);
      expect(outcome.config?.headers).toBeDefined();
      expect(JSON.stringify([outcome.config, (outcome as AxiosError).response?.config])).not.toMatch(/Bearer|\bt\d\b/);
      expect(inspect(outcome, { depth: 9 })).not.toContain('Bearer');
      expect(outcome.request).toBeDefined();
    }
    const failed = await clientFor(new NumberedTokens(), 'http://127.0.0.1:1')
      .get('/')
      .catch((error) => error);
    expect(failed).toMatchObject({ isAxiosError: true, code: 'ECONNREFUSED' });
    expect(JSON.stringify(failed.config)).not.toContain('Bearer');
    expect(inspect(failed, { depth: 9 })).not.toContain('Bearer');
  });

  it("sends the token in place of the caller's basic credentials", async () => {
    await using service = await accepting('t1');
    const client = clientFor(new NumberedTokens(), service.origin, { auth: { username: 'u', password: 'p' } });
    expect((await client.get('/', { headers: { Authorization: false } })).status).toBe(200);
  });

  it("checks the origin of an absolute URL, and calls the caller's beforeRedirect", async () => {
    const seen: unknown[] = [];
    await using service = await ResourceService.start(({ path }, response) => {
      if (path === '/base/from') response.writeHead(302, { location: '/to' });
      response.end();
    });
    const client = clientFor(new NumberedTokens(), service.origin);
    const beforeRedirect = (options: Record<string, unknown>) => seen.push(options.path);
    await client.get('/from', { beforeRedirect });
    expect(seen).toEqual(['/to']);
    expect(service.tokens).toEqual(['t1', 't1']);
    for (const url of ['https://elsewhere.example/', '//elsewhere.example/']) {
      await expect(client.get(url)).rejects.toThrow();
    }
  });

  it('sends no credentials of the caller to another allowed origin, not even to a subdomain', async () => {
    const allowedOrigins = ['https://api.example', 'https://files.api.example'];
    const call = ownerFetchFor(new NumberedTokens(), 'key', callRules({ allowedOrigins }, rulesOfSource(undefined)));
    // A redirect by a version of `follow-redirects` that keeps all headers.
    const next = { href: 'https://files.api.example/', headers: {}, auth: 'u:p' };
    const adapter = async (config: InternalAxiosRequestConfig) => {
      next.headers = { ...config.headers };
      config.beforeRedirect?.(next, { headers: {}, statusCode: 302 } as never, {} as never);
      return { status: 200, statusText: '', data: '', headers: {}, config };
    };
    const client = axios.create({ adapter });
    attachOwnerTokens(axios, client, () => call);
    const headers = { Cookie: 'a=b', 'Proxy-Authorization': 'Basic x', Authorization: 'Basic mine', 'X-Own': 'yes' };
    await client.get('https://api.example/', { headers });
    expect(next).toMatchObject({ headers: { 'X-Own': 'yes', authorization: 'Bearer t1' }, auth: undefined });
    expect(Object.keys(next.headers).join()).not.toMatch(/cookie|proxy/i);
  });

  it("checks the address of this call, not one made with axios's own defaults", async () => {
    await using evil = await ResourceService.start();
    await using service = await ResourceService.start();
    const call = ownerFetchFor(new NumberedTokens(), 'key', callRules(undefined, rulesOfSource(service.origin)));
    const client = axios.create({ adapter: ownerTokenAdapter(axios, call) });
    const given = { ...axios.defaults };
    try {
      Object.assign(axios.defaults, { baseURL: service.origin, allowAbsoluteUrls: false });
      await expect(client.get(evil.origin)).rejects.toThrow('refusing to send the token');
      expect((await client.get(`${service.origin}/x`)).status).toBe(200);
    } finally {
      Object.assign(axios.defaults, { baseURL: given.baseURL, allowAbsoluteUrls: given.allowAbsoluteUrls });
    }
    expect([service.received.map(({ path }) => path), evil.connections]).toEqual([['/x'], 0]);
  });

  it('sends a form again', async () => {
    await using service = await accepting('t2');
    const form = new FormData();
    form.append('name', 'value');
    expect((await clientFor(new NumberedTokens(), service.origin).post('/', form)).data.body).toContain('value');
    expect(service.tokens).toEqual(['t1', 't2']);
  });

  it('rejects a cancelled call with its own CanceledError', async () => {
    const tokens = new NumberedTokens();
    tokens.gate = new Promise(() => {});
    const aborting = new AbortController();
    const call = clientFor(tokens, 'https://api.example.com').get('/', { signal: aborting.signal });
    setImmediate(() => aborting.abort());
    expect(axios.isCancel(await call.catch((error) => error))).toBe(true);
  });
});

describe('a shared axios instance', () => {
  const ORIGIN = 'https://api.example.com';

  /** An instance with tokens of its own for each tenant, named in the config of a call. */
  const shared = (tokens: Record<string, NumberedTokens>, origin: string, options: CreateAxiosDefaults = {}) => {
    const client = axios.create({ baseURL: origin, ...options });
    const stop = attachOwnerTokens(axios, client, async ({ tenant }: Tenanted) => {
      const owned = tenant === undefined ? undefined : tokens[tenant];
      return owned && ownerFetchFor(owned, 'key', callRules(undefined, rulesOfSource(origin)));
    });
    return { client, stop };
  };
  type Tenanted = InternalAxiosRequestConfig & { tenant?: string };
  const as = (tenant: string): AxiosRequestConfig => ({ tenant }) as AxiosRequestConfig;
  // Its types are for CommonJS, where axios has a class of its own.
  const mocking = (client: AxiosInstance) => new MockAdapter(client as never);
  const twoTenants = () => ({ acme: new NumberedTokens(), beta: new NumberedTokens(5) });

  adapterSuite({
    makeClient: (call, options) => {
      const client = axios.create({ httpsAgent: new Agent(options) });
      attachOwnerTokens(axios, client, () => call);
      return clientOf(client);
    },
    causeOf,
    raw: {
      'a call': (call, url, { signal, ca, timeoutMs = 0 }) => {
        const client = axios.create({ httpsAgent: new Agent({ ca }), timeout: timeoutMs });
        attachOwnerTokens(axios, client, () => call);
        return client.get(url, { signal });
      },
    },
  });

  it('presents the token of the owner named in the config, and none without a name', async () => {
    await using service = await ResourceService.start();
    const { client, stop } = shared(twoTenants(), service.origin);
    await client.get('/', as('acme'));
    await client.get('/', as('beta'));
    await client.get('/public');
    stop();
    await client.get('/', as('acme'));
    expect(service.tokens).toEqual(['t1', 't5', undefined, undefined]);
  });

  it('rejects exactly the token that was sent, and shows interceptors one call', async () => {
    await using service = await ResourceService.start(({ token = '' }, response) => {
      response.writeHead(['t2', 't5'].includes(token) ? 200 : 401).end();
    });
    const tokens = twoTenants();
    const { client } = shared(tokens, service.origin);
    const statuses: number[] = [];
    client.interceptors.response.use((response) => {
      statuses.push(response.status);
      return response;
    });
    await Promise.all([client.get('/', as('acme')), client.get('/', as('beta'))]);
    expect(statuses).toEqual([200, 200]);
    expect([tokens.acme.rejected, tokens.beta.rejected]).toEqual([['t1'], []]);
  });

  it('leaves no token in a config that interceptors and logs see', async () => {
    await using service = await ResourceService.start((_, response) => response.writeHead(500).end());
    const { client } = shared(twoTenants(), service.origin);
    const error = await axiosErrorOf(client.get('/', as('acme')));
    expect(error.response?.status).toBe(500);
    expect(JSON.stringify([error, error.config])).not.toMatch(/Bearer|t1/);
  });

  it.each(['throws', 'rejects with'])(
    'rejects with an AxiosError if ownerFetchOf %s an OwnerTokenError',
    async (way) => {
      const client = axios.create({ baseURL: ORIGIN });
      const failure = new OwnerTokenError('invalid_access_key', 'the access key is empty');
      attachOwnerTokens(axios, client, () => {
        if (way === 'throws') throw failure;
        return Promise.reject(failure);
      });
      const error = await axiosErrorOf(client.get('/devices'));
      expect(error).toMatchObject({
        code: 'invalid_access_key',
        message: failure.message,
        config: { url: '/devices' },
      });
      expect([error.cause, error.response]).toEqual([failure, undefined]);
    },
  );

  it("passes on an error of the application's own from ownerFetchOf unchanged", async () => {
    for (const failure of [new Error('no such session'), 'text', undefined]) {
      const client = axios.create({ baseURL: ORIGIN });
      attachOwnerTokens(axios, client, () => Promise.reject(failure));
      const outcome = client.get('/devices').then(
        () => 'answered',
        (error) => ({ error }),
      );
      expect(await outcome).toEqual({ error: failure });
    }
  });

  describe('with axios-mock-adapter', () => {
    it('gets its answer from the mock, which sees its token, and sends nothing', async () => {
      const { client } = shared(twoTenants(), ORIGIN);
      const mock = mocking(client);
      mock.onGet('/devices').reply(200, { devices: [] });
      expect((await client.get('/devices', as('acme'))).data).toEqual({ devices: [] });
      expect(mock.history.get.map(({ headers }) => headers?.Authorization)).toEqual(['Bearer t1']);
      mock.restore();
    });

    it('repeats a call after a 401 of the mock, and after no other status', async () => {
      const tokens = twoTenants();
      const { client } = shared(tokens, ORIGIN);
      const mock = mocking(client);
      mock.onPost('/devices').replyOnce(401).onPost('/devices').reply(201, 'made');
      mock.onGet('/devices').reply(404);
      expect((await client.post('/devices', { a: 1 }, as('acme'))).data).toBe('made');
      expect(mock.history.post.map(({ data, headers }) => [data, headers?.Authorization])).toEqual([
        ['{"a":1}', 'Bearer t1'],
        ['{"a":1}', 'Bearer t2'],
      ]);
      expect((await axiosErrorOf(client.get('/devices', as('acme')))).response?.status).toBe(404);
      expect(tokens.acme).toMatchObject({ rejected: ['t1'], accepted: ['t2'] });
    });

    it('refuses another origin before the mock sees the call', async () => {
      const { client } = shared(twoTenants(), ORIGIN);
      const mock = mocking(client);
      mock.onAny().reply(200);
      const error = await axiosErrorOf(client.get('https://elsewhere.example/', as('acme')));
      expect(error).toMatchObject({ code: 'origin_refused', config: { url: 'https://elsewhere.example/' } });
      expect(mock.history.get).toEqual([]);
    });
  });

  describe('with axios-retry', () => {
    it('retries a 503 with the token, and does not count the repetition after a 401 as an attempt', async () => {
      const statuses = [503, 401, 200];
      await using service = await ResourceService.start((_, response) => {
        response.writeHead(statuses.shift() ?? 500).end();
      });
      const tokens = twoTenants();
      const { client } = shared(tokens, service.origin);
      axiosRetry(client, { retries: 1 });
      expect((await client.get('/', as('acme'))).status).toBe(200);
      expect(service.tokens).toEqual(['t1', 't1', 't2']);
      expect(tokens.acme.rejected).toEqual(['t1']);
    });

    it('sends at most two tokens for each attempt', async () => {
      await using service = await ResourceService.start((_, response) => response.writeHead(401).end());
      const { client } = shared(twoTenants(), service.origin);
      axiosRetry(client, { retries: 2, retryCondition: () => true });
      expect((await axiosErrorOf(client.get('/', as('acme')))).response?.status).toBe(401);
      expect(service.tokens).toEqual(['t1', 't2', 't3', 't4', 't5', 't6']);
    });

    it('distinguishes a token that cannot be obtained from a service that cannot be reached', async () => {
      const tokens = twoTenants();
      tokens.acme.failure = new OwnerTokenError('owner_refused', 'the service refuses this owner');
      const { client } = shared(tokens, ORIGIN);
      const mock = mocking(client);
      mock.onGet('/').networkError();
      const conditions: unknown[] = [];
      axiosRetry(client, {
        retryCondition(error) {
          conditions.push(isOwnerTokenError(error.cause));
          return axiosRetry.isNetworkOrIdempotentRequestError(error) && !isOwnerTokenError(error.cause);
        },
      });
      const error = await axiosErrorOf(client.get('/', as('acme')));
      expect(error).toMatchObject({ code: 'owner_refused', message: 'the service refuses this owner' });
      expect(error.cause).toBe(tokens.acme.failure);
      expect(error.response).toBeUndefined();
      expect(conditions).toEqual([true]);
      expect(tokens.acme.asked).toBe(1);
    });
  });
});
