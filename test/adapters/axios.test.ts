import { inspect } from 'node:util';
import axios, { type AxiosError } from 'axios';
import { describe, expect, it } from 'vitest';
import { ownerTokenAdapter } from '../../src/adapters/axios.ts';
import { callRules, type OwnerFetch, ownerFetchFor, rulesOfSource } from '../../src/calling/owner-fetch.ts';
import { adapterSuite, type Client } from '../helpers/adapter-suite.ts';
import { NumberedTokens } from '../helpers/numbered-tokens.ts';
import { ResourceService } from '../helpers/resource-service.ts';

/** An axios whose errors for a status are answers, as the suite wants them. */
const makeClient =
  (call: OwnerFetch): Client =>
  async (url, { body, ...init } = {}) => {
    const client = axios.create({ adapter: ownerTokenAdapter(axios, call) });
    try {
      const { status, data } = await client.request({ url, ...init, ...(body && { data: body }) });
      return { status, body: data };
    } catch (error) {
      const { response } = error as AxiosError<string>;
      if (!response) throw error;
      return { status: response.status, body: response.data };
    }
  };

describe('axios', () => {
  adapterSuite({ makeClient, followsRedirects: true });

  const clientFor = (tokens: NumberedTokens, origin: string, config = {}) => {
    const call = ownerFetchFor(tokens, 'key', callRules(undefined, rulesOfSource(origin)));
    return axios.create({ baseURL: `${origin}/base`, adapter: ownerTokenAdapter(axios, call), ...config });
  };
  const accepting = (good: string) =>
    ResourceService.start(({ token, body }, response) => {
      response.writeHead(token === good ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ body }));
    });

  it('transforms once and intercepts once, however often it is sent', async () => {
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

  it('takes a 401 that is no error to it for one all the same', async () => {
    await using service = await accepting('t2');
    const client = clientFor(new NumberedTokens(), service.origin, { validateStatus: null });
    expect((await client.get('/')).status).toBe(200);
    await using refusing = await accepting('none');
    expect((await clientFor(new NumberedTokens(), refusing.origin, { validateStatus: null }).get('/')).status).toBe(
      401,
    );
  });

  it('lets go of a 401 that is streamed', async () => {
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

  it('shows no token in the settings of answers and errors', async () => {
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

  it("is not led astray by the caller's other credentials", async () => {
    await using service = await accepting('t1');
    const client = clientFor(new NumberedTokens(), service.origin, { auth: { username: 'u', password: 'p' } });
    expect((await client.get('/', { headers: { Authorization: false } })).status).toBe(200);
  });

  it('follows the rules for an absolute URL, and calls what the caller wants to see of redirects', async () => {
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

  it('sends a form again', async () => {
    await using service = await accepting('t2');
    const form = new FormData();
    form.append('name', 'value');
    expect((await clientFor(new NumberedTokens(), service.origin).post('/', form)).data.body).toContain('value');
    expect(service.tokens).toEqual(['t1', 't2']);
  });

  it('cancels in the way of axios', async () => {
    const tokens = new NumberedTokens();
    tokens.gate = new Promise(() => {});
    const aborting = new AbortController();
    const call = clientFor(tokens, 'https://api.example.com').get('/', { signal: aborting.signal });
    setImmediate(() => aborting.abort());
    expect(axios.isCancel(await call.catch((error) => error))).toBe(true);
  });
});
