import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import ky from 'ky';
import { createFetch } from 'ofetch';
import createClient from 'openapi-fetch';
import * as undici from 'undici';
import { describe, expect, it, vi } from 'vitest';
import {
  callRules,
  type OwnerFetch,
  type OwnerFetchOptions,
  ownerFetchFor,
  rulesOfSource,
} from '../../src/calling/owner-fetch.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { adapterSuite } from '../helpers/adapter-suite.ts';
import { settle } from '../helpers/manual-clock.ts';
import { NumberedTokens } from '../helpers/numbered-tokens.ts';
import { oddAddresses } from '../helpers/odd-addresses.ts';
import { errorOf } from '../helpers/registries.ts';
import { ResourceService } from '../helpers/resource-service.ts';

/** A fetch for one owner whose tokens may go to this service. */
function fetchFor(tokens: NumberedTokens, origin: string | undefined, options?: OwnerFetchOptions): OwnerFetch {
  return ownerFetchFor(tokens, 'key', callRules(options, rulesOfSource(origin)));
}

/** A service that refuses every token but the ones listed. */
const accepting = (...good: string[]) =>
  ResourceService.start(({ token = '' }, response) => {
    if (!good.includes(token)) response.statusCode = 401;
    response.end(good.includes(token) ? 'ok' : 'refused');
  });

/** The same tokens, each after some turns of the event loop. */
function takingTheirTime(tokens: NumberedTokens): NumberedTokens {
  const getToken = tokens.getToken.bind(tokens);
  tokens.getToken = async (...args) => {
    for (let round = 0; round < 50; round++) await settle();
    return getToken(...args);
  };
  return tokens;
}

describe('ownerFetch', () =>
  adapterSuite({
    makeClient:
      (call, connect) =>
      async (url, { body, ...init } = {}) => {
        const sent =
          body instanceof Readable ? { body: Readable.toWeb(body) as ReadableStream, duplex: 'half' } : { body };
        const dispatcher = connect && new undici.Agent({ connect });
        const response = await call(url, { ...init, ...sent, dispatcher } as object);
        return { status: response.status, body: await response.text() };
      },
    raw: {
      'the global fetch': (call, url, { signal, ca, timeoutMs = 300_000 }) => {
        const dispatcher = new undici.Agent({ connect: { ca }, headersTimeout: timeoutMs });
        return call(url, { signal, dispatcher } as object);
      },
    },
  }));

describe('presenting the token', () => {
  it('replaces an Authorization header of the caller, whose objects are left alone', async () => {
    await using service = await ResourceService.start();
    const call = fetchFor(new NumberedTokens(), service.origin);
    const headers = new Headers({ authorization: 'Bearer stale', accept: 'text/plain' });
    const init = Object.freeze({ headers, method: 'PUT', body: 'x' });
    await call(service.origin, init);
    expect(service.received[0]).toMatchObject({
      method: 'PUT',
      body: 'x',
      token: 't1',
      headers: { accept: 'text/plain' },
    });
    expect(Object.fromEntries(headers)).toEqual({ authorization: 'Bearer stale', accept: 'text/plain' });
  });

  it('fails with source_failed if present() throws, without the message of the error', async () => {
    const tokens = new NumberedTokens();
    const present = (token: { value: string }) => {
      throw new Error(`cannot present ${token.value}`);
    };
    const error = await errorOf(fetchFor(tokens, 'http://127.0.0.1:1', { present })('http://127.0.0.1:1'));
    expect(error).toMatchObject({ name: 'OwnerTokenError', code: 'source_failed' });
    expect(JSON.stringify([error, error.stack])).not.toContain('t1');
  });
});

it('ownerFetch calls http and https alone: a blob: URL has the origin of its creator', async () => {
  const origin = 'https://api.example.com';
  const call = fetchFor(new NumberedTokens(), origin);
  for (const url of [`blob:${origin}/1b9d6bcd`, new URL(`blob:${origin}/1b9d6bcd`)]) {
    expect(new URL(url).origin).toBe(origin);
    expect(await errorOf(call(url))).toMatchObject({ code: 'origin_refused' });
  }
});

it('ownerFetch refuses a URL that only looks like one of an allowed origin', async () => {
  const tokens = new NumberedTokens();
  const call = fetchFor(tokens, 'https://api.example.com');
  for (const url of [
    'https://api.example.com.evil.example/',
    'https://api.example.com@evil.example/',
    'https://api.example.com:443@evil.example/',
    'https://api.example.com\\@evil.example:1/../',
    'https://evil.example/https://api.example.com/',
    'https://evil.example\\@api.example.com/',
    '\thttps://evil.example/',
    '//api.example.com/',
  ]) {
    const origin = URL.canParse(url) ? new URL(url).origin : undefined;
    if (origin === 'https://api.example.com') continue;
    await expect(call(url), url).rejects.toMatchObject({ code: origin ? 'origin_refused' : 'ERR_INVALID_URL' });
  }
  expect(tokens.asked).toBe(0);
  for (const url of ['HTTPS://API.example.com:443/x', ' https://api.example.com/x', 'https:api.example.com?q']) {
    expect(() => call.check(url), url).not.toThrow();
  }
});

it("ownerFetch gives a fetch of the caller's own no address that another parser may take for one of another origin", async () => {
  const [good, evil] = ['127.0.0.1:8080', '127.0.0.2:8080'];
  const origin = `http://${good}`;
  const sent: unknown[] = [];
  const record = async (url: unknown) => {
    sent.push(url);
    return new Response('ok');
  };
  const call = fetchFor(new NumberedTokens(), origin, { fetch: record });
  let parsed = 0;
  for (const address of [origin, ...oddAddresses({ good, evil })]) {
    for (const input of [address, { headers: new Headers(), url: address } as object as Request]) {
      sent.length = 0;
      await call(input).catch(() => {});
      if (sent.length === 0) continue;
      const isPlain = address === origin || address.startsWith(`${origin}/`);
      expect(sent, address).toEqual([isPlain ? address : new URL(address).href]);
      if (!isPlain) parsed++;
    }
  }
  expect(parsed).toBeGreaterThan(50);
});

it('ownerFetch calls the origins in allowedOrigins instead of the one of the source', async () => {
  await using service = await ResourceService.start();
  const tokens = new NumberedTokens();
  const call = fetchFor(tokens, 'https://api.example.com', { allowedOrigins: [`${service.origin}/`] });
  expect((await call(new URL(service.origin))).status).toBe(200);
  expect(await errorOf(call('https://api.example.com'))).toMatchObject({ code: 'origin_refused' });
});

it('ownerFetch calls nothing without allowed origins', async () => {
  await using service = await ResourceService.start();
  const tokens = new NumberedTokens();
  const error = await errorOf(fetchFor(tokens, undefined)(service.origin));
  expect(error).toMatchObject({ code: 'origin_refused', message: expect.stringContaining('set allowedOrigins') });
  expect(await errorOf(fetchFor(tokens, service.origin, { allowedOrigins: [] })(service.origin))).toMatchObject({
    code: 'origin_refused',
  });
  expect(tokens.asked).toBe(0);
});

it('ownerFetch throws what fetch throws for anything that is not a URL', async () => {
  await expect(fetchFor(new NumberedTokens(), 'https://api.example.com')('/relative')).rejects.toThrow(TypeError);
});

it('a short 401 is read to its end, and its connection reused', async () => {
  await using service = await accepting('t2');
  // A new token takes a round trip as a rule; by then a short answer has been read.
  const call = fetchFor(takingTheirTime(new NumberedTokens()), service.origin);
  expect(await (await call(service.origin)).text()).toBe('ok');
  expect(service.connections).toBe(1);
});

it('a 401 whose body stalls is not waited for, and its socket is closed', async () => {
  await using service = await ResourceService.start(({ token }, response) => {
    if (token === 't2') response.end('ok');
    else response.writeHead(401).write('and so on');
  });
  expect((await fetchFor(new NumberedTokens(), service.origin)(service.origin)).status).toBe(200);
  const [stalled] = service.sockets;
  await once(stalled as Socket, 'close');
  expect(service.sockets).not.toContain(stalled);
});

it('a failure of the network rejects a call as it does with fetch', async () => {
  const service = await ResourceService.start();
  await service[Symbol.asyncDispose]();
  const error: unknown = await fetchFor(new NumberedTokens(), service.origin)(service.origin).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(TypeError);
  expect(error).toMatchObject({ message: 'fetch failed', cause: { code: 'ECONNREFUSED' } });
});

describe('a request body', () => {
  const form = new FormData();
  form.append('file', new File(['content'], 'name.txt'));
  form.append('field', 'value');

  for (const [name, body, sent] of [
    ['string', 'text', 'text'],
    ['URLSearchParams', new URLSearchParams({ a: 'b' }), 'a=b'],
    ['Blob', new Blob(['blob']), 'blob'],
    ['ArrayBuffer', new TextEncoder().encode('buffer').buffer, 'buffer'],
    ['a view of part of a buffer', Buffer.from('a view').subarray(2), 'view'],
    ['FormData', form, expect.stringContaining('filename="name.txt"')],
  ] as const) {
    it(`is sent again after a 401: ${name}`, async () => {
      await using service = await accepting('t2');
      const call = fetchFor(new NumberedTokens(), service.origin);
      expect((await call(service.origin, { method: 'POST', body })).status).toBe(200);
      expect(service.received.map((received) => received.body)).toEqual([sent, sent]);
      expect(service.received[0]?.headers['content-length']).toBe(service.received[1]?.headers['content-length']);
    });
  }

  it('that is a stream is cancelled if it is never sent', async () => {
    const tokens = new NumberedTokens();
    tokens.failure = new OwnerTokenError('owner_refused', 'no');
    for (const url of ['https://api.example', 'https://elsewhere.example']) {
      const cancel = vi.fn();
      const init = { method: 'POST', body: new ReadableStream({ cancel }), duplex: 'half' } as RequestInit;
      const error = await errorOf(fetchFor(tokens, 'https://api.example')(url, init));
      expect(cancel.mock.calls).toEqual([[error]]);
    }
  });

  it('that is an async generator is not sent again', async () => {
    const body = (async function* () {
      yield new TextEncoder().encode('streamed');
    })();
    await using service = await accepting('t2');
    const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
    expect((await fetchFor(new NumberedTokens(), service.origin)(service.origin, init)).status).toBe(401);
    expect(service.received.map((received) => received.body)).toEqual(['streamed']);
  });

  it('is sent again as it was when the call began, as are the URL and the headers', async () => {
    await using service = await ResourceService.start();
    const tokens = new NumberedTokens();
    let open = () => {};
    tokens.gate = new Promise((resolve) => {
      open = resolve;
    });
    const call = fetchFor(tokens, service.origin);
    const url = new URL('/before', service.origin);
    const headers = new Headers({ 'x-when': 'before' });
    const params = new URLSearchParams({ when: 'before' });
    const bytes = Buffer.from('before');
    const file = new FormData();
    for (const when of ['before', 'just before']) file.append('when', when);
    const buffer = new TextEncoder().encode('before').buffer;
    const calls = [params, bytes, buffer, file].map((body) => call(url, { method: 'POST', headers, body }));
    url.pathname = '/after';
    headers.set('x-when', 'after');
    params.set('when', 'after');
    bytes.write('after!');
    Buffer.from(buffer).write('after!');
    file.set('when', 'after');
    open();
    await Promise.all(calls);
    expect(service.received).toHaveLength(4);
    for (const { path, headers: sent, body } of service.received) {
      expect(`${path} ${sent['x-when']} ${body}`).toMatch(/^\/before before .*before/s);
      expect(body).not.toContain('after');
    }
    expect(service.received.filter(({ body }) => /before.*just before/s.test(body))).toHaveLength(1);
  });
});

it('a Request is sent with all its settings, also when sent again', async () => {
  await using service = await accepting('t2');
  const request = new Request(`${service.origin}/path`, {
    method: 'POST',
    body: JSON.stringify({ a: 1 }),
    headers: { 'content-type': 'application/json', 'x-own': 'yes', authorization: 'Bearer stale' },
  });
  expect((await fetchFor(new NumberedTokens(), service.origin)(request)).status).toBe(200);
  expect(request.headers.get('authorization')).toBe('Bearer stale');
  expect(service.tokens).toEqual(['t1', 't2']);
  for (const { method, path, headers, body } of service.received) {
    expect({ method, path, body }).toEqual({ method: 'POST', path: '/path', body: '{"a":1}' });
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'x-own': 'yes', 'content-length': '7' });
  }
});

it('a Request gives way to the options given beside it', async () => {
  await using service = await accepting('t2');
  const call = fetchFor(new NumberedTokens(), service.origin);
  const request = new Request(service.origin, { method: 'POST', body: 'of the request', headers: { 'x-a': '1' } });
  await call(request, { method: 'PUT', body: 'beside it', headers: { 'x-b': '2' } });
  for (const { method, body, headers } of service.received) {
    expect({ method, body }).toEqual({ method: 'PUT', body: 'beside it' });
    expect(headers).toMatchObject({ 'x-b': '2' });
    expect(headers).not.toHaveProperty('x-a');
  }
  expect(service.received).toHaveLength(2);
});

it('a Request may serve as the options for another URL, as with fetch', async () => {
  await using service = await accepting('t2');
  const call = fetchFor(new NumberedTokens(), service.origin);
  const like = new Request('https://elsewhere.example', { method: 'POST', body: 'x', headers: { 'x-a': '1' } });
  expect(((await call(service.origin, { ...like })) && (await call(service.origin, like))).status).toBe(200);
  expect(service.received.at(-1)).toMatchObject({ method: 'POST', body: 'x', headers: { 'x-a': '1' } });
});

it('a Request with a body too long to keep is sent whole, and not again', async () => {
  for (const [size, statuses] of [
    [1_048_576, 200],
    [1_048_577, 401],
  ] as const) {
    await using service = await accepting('t2');
    const request = new Request(service.origin, { method: 'POST', body: 'x'.repeat(size) });
    const response = await fetchFor(new NumberedTokens(), service.origin)(request);
    expect(response.status).toBe(statuses);
    for (const { body, headers } of service.received) {
      expect([body.length, headers['content-length']]).toEqual([size, String(size)]);
    }
  }
});

it('a Request whose body breaks fails as it does with fetch', async () => {
  await using service = await ResourceService.start();
  const body = new ReadableStream({ pull: (controller) => controller.error(new Error('broken off')) });
  const request = new Request(service.origin, { method: 'POST', body, duplex: 'half' } as RequestInit);
  await expect(fetchFor(new NumberedTokens(), service.origin)(request)).rejects.toThrow();
});

describe('a look-alike of a Request', () => {
  /** Requests whose URL is `first` when it is read for the first time, and `then` ever after. */
  const changing: [string, (first: string, then: string) => Request][] = [
    [
      'a subclass with a getter',
      (first, then) => {
        class ChangingRequest extends Request {}
        Object.defineProperty(ChangingRequest.prototype, 'url', { get: alternating(first, then) });
        return new ChangingRequest(then);
      },
    ],
    [
      'a Request with a getter of its own',
      (first, then) => Object.defineProperty(new Request(then), 'url', { get: alternating(first, then) }),
    ],
    [
      'a proxy',
      (first, then) => {
        const next = alternating(first, then);
        return new Proxy(new Request(then), {
          get: (request, name) => (name === 'url' ? next() : Reflect.get(request, name, request)),
        });
      },
    ],
    [
      'an object',
      (first, then) => {
        const next = alternating(first, then);
        return {
          headers: new Headers(),
          get url() {
            return next();
          },
          toString: () => then,
        } as object as Request;
      },
    ],
  ];

  function alternating(first: string, then: string): () => string {
    let reads = 0;
    return () => (reads++ === 0 ? first : then);
  }

  for (const [name, make] of changing) {
    it(`whose URL changes after the check is sent to the URL that was checked: ${name}`, async () => {
      await using service = await ResourceService.start();
      await using elsewhere = await ResourceService.start();
      for (const given of [fetch, (input: Request | string | URL, init?: RequestInit) => fetch(urlIn(input), init)]) {
        const call = fetchFor(new NumberedTokens(), service.origin, { fetch: given as typeof fetch });
        await call(make(`${service.origin}/here`, `${elsewhere.origin}/there`));
      }
      expect(service.received).toMatchObject([
        { path: '/here', token: 't1' },
        { path: '/here', token: 't1' },
      ]);
      expect(elsewhere.connections).toBe(0);
    });
  }

  it('whose URL is an object is sent to the URL that was checked, even if that changes while the token is awaited', async () => {
    const tokens = new NumberedTokens();
    const sent: string[] = [];
    const record = async (url: unknown) => {
      sent.push(String(url));
      return new Response('ok');
    };
    const call = fetchFor(tokens, 'https://api.example', { fetch: record });
    const url = new URL('https://api.example/here');
    const calling = call({ headers: new Headers(), url } as object as Request);
    url.href = 'https://elsewhere.example/';
    await calling;
    expect(sent).toEqual(['https://api.example/here']);
  });

  const urlIn = (input: Request | string | URL) => (input instanceof Request ? input.url : input);

  it('from a package is sent with all its settings, also when sent again', async () => {
    await using service = await accepting('t2');
    const call = fetchFor(new NumberedTokens(), service.origin, { fetch: undici.fetch as never });
    const headers = { 'content-type': 'text/plain', 'x-own': 'yes' };
    const request = new undici.Request(`${service.origin}/path`, { method: 'PUT', headers, body: 'hello' });
    expect((await call(request as never)).status).toBe(200);
    const sent = { method: 'PUT', path: '/path', body: 'hello', headers };
    expect(service.received).toMatchObject([
      { ...sent, token: 't1' },
      { ...sent, token: 't2' },
    ]);
  });

  it('ends with its own signal, unless another is given', async () => {
    await using service = await ResourceService.start();
    const call = fetchFor(new NumberedTokens(), service.origin, { fetch: undici.fetch as never });
    const request = new undici.Request(service.origin, { signal: AbortSignal.abort('enough') });
    expect(await call(request as never).catch((reason: unknown) => reason)).toBe('enough');
    expect((await call(request as never, { signal: null })).status).toBe(200);
  });
});

describe('redirects', () => {
  /** Redirects to `/end` of an origin (its own by default) with this status, and answers there. */
  const redirecting = (status: number, to: () => string = () => '') =>
    ResourceService.start(({ path }, response) => {
      if (path === '/end') response.end('end');
      else response.writeHead(status, { location: `${to()}/end` }).end('moved');
    });

  it('within the allowed origins are followed, and the token is presented at each hop', async () => {
    await using target = await ResourceService.start();
    await using service = await redirecting(302, () => target.origin);
    const tokens = new NumberedTokens();
    const allowedOrigins = [service.origin, target.origin];
    const call = fetchFor(tokens, undefined, { allowedOrigins });
    const headers = { cookie: 'a=b', 'proxy-authorization': 'Basic x', 'x-own': 'yes' };
    const response = await call(service.origin, { headers });
    expect(response).toMatchObject({ status: 200, redirected: true, url: `${target.origin}/end` });
    expect([...service.tokens, ...target.tokens]).toEqual(['t1', 't1']);
    expect(service.received[0]?.headers).toMatchObject(headers);
    expect(target.received[0]?.headers).toMatchObject({ 'x-own': 'yes', host: new URL(target.origin).host });
    expect(target.received[0]?.headers).not.toHaveProperty('cookie');
    expect(target.received[0]?.headers).not.toHaveProperty('proxy-authorization');
    // A redirect is no acceptance: the first of two exchanges said nothing of the token.
    expect(tokens.accepted).toEqual(['t1']);
  });

  it('with a body that does not end are broken off', async () => {
    let brokenOff = () => {};
    const broken = new Promise<void>((resolve) => {
      brokenOff = resolve;
    });
    // Node's own fetch would break it off too, whenever it collects the response as garbage.
    const body = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(16_384)), cancel: brokenOff });
    const redirects = async (url: unknown) =>
      String(url).endsWith('/end')
        ? new Response('end')
        : new Response(body, { status: 302, headers: { location: '/end' } });
    const call = fetchFor(new NumberedTokens(), 'https://api.example.com', { fetch: redirects });
    expect(await (await call('https://api.example.com')).text()).toBe('end');
    await broken;
  });

  for (const [status, method, becomes] of [
    [301, 'GET', 'GET'],
    [301, 'POST', 'GET'],
    [301, 'PUT', 'PUT'],
    [302, 'POST', 'GET'],
    [302, 'post', 'GET'],
    [302, 'PATCH', 'PATCH'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [307, 'POST', 'POST'],
    [308, 'PUT', 'PUT'],
  ] as const) {
    it(`of status ${status} turn ${method} into ${becomes}, exactly as fetch does`, async () => {
      await using service = await redirecting(status);
      const body = ['GET', 'HEAD'].includes(method) ? {} : { body: 'text' };
      const ofBody = { 'content-encoding': 'identity', 'content-language': 'en', 'content-location': '/text' };
      const init = { method, ...body, headers: { ...ofBody, 'x-own': 'yes', cookie: 'a=b' } };
      await fetchFor(new NumberedTokens(), service.origin)(service.origin, init);
      await fetchFor(new NumberedTokens(), service.origin)(new Request(service.origin, init));
      await fetch(service.origin, { ...init, headers: { ...init.headers, authorization: 'Bearer t1' } });
      const [, ours, , ofRequest, , theirs] = service.received;
      expect(ours).toEqual(theirs);
      expect(ofRequest).toEqual(theirs);
      expect(theirs?.method).toBe(becomes);
    });
  }

  it.each([301, 302, 303, 307])(
    'of status %i repeat the method given beside a Request, as fetch does',
    async (status) => {
      await using service = await redirecting(status);
      const request = () => new Request(service.origin, { method: 'POST', body: 'text' });
      const init = { method: 'PUT', body: 'text' };
      await fetchFor(new NumberedTokens(), service.origin)(request(), init);
      await fetch(request(), init);
      const methods = service.received.map(({ method, body }) => `${method} ${body}`);
      expect(methods).toHaveLength(4);
      expect(methods.slice(0, 2)).toEqual(methods.slice(2));
    },
  );

  it.each(['/käse?q=ü', '/日本語', '/k%C3%A4se', '/a b', Buffer.from('/k\xe4se', 'latin1')])(
    'lead to the same address as with fetch: %s',
    async (location) => {
      await using service = await ResourceService.start(({ path }, response) => {
        if (path !== '/') response.end();
        else response.writeHead(302, { location: Buffer.from(location).toString('latin1') }).end();
      });
      await fetchFor(new NumberedTokens(), service.origin)(service.origin);
      await fetch(service.origin);
      const [, ours, , theirs] = service.received.map(({ path }) => path);
      expect(ours).toBe(theirs);
      expect(service.received).toHaveLength(4);
    },
  );

  it('that need a stream to be sent again fail, as with fetch', async () => {
    await using service = await redirecting(307);
    const stream = () => ({ method: 'POST', body: new Blob(['x']).stream(), duplex: 'half' }) as RequestInit;
    await expect(fetch(service.origin, stream())).rejects.toThrow(TypeError);
    await expect(fetchFor(new NumberedTokens(), service.origin)(service.origin, stream())).rejects.toThrow(TypeError);
    expect(service.received.map(({ path }) => path)).toEqual(['/', '/']);
  });

  it('are left to the caller with redirect: manual, and fail with redirect: error', async () => {
    await using service = await redirecting(302, () => 'https://elsewhere.example');
    const call = fetchFor(new NumberedTokens(), service.origin);
    for (const args of [
      [service.origin, { redirect: 'manual' }],
      [new Request(service.origin, { redirect: 'manual' }), undefined],
    ] as const) {
      const response = await call(args[0], args[1]);
      expect([response.status, response.headers.get('location')]).toEqual([302, 'https://elsewhere.example/end']);
    }
    await expect(call(service.origin, { redirect: 'error' })).rejects.toThrow(TypeError);
    await expect(call(new Request(service.origin, { redirect: 'error' }))).rejects.toThrow(TypeError);
  });

  it('are followed 20 times and no more', async () => {
    for (const count of [20, 21]) {
      await using service = await ResourceService.start((_, response, index) => {
        if (index < count) response.writeHead(302, { location: `/${index + 1}` });
        response.end();
      });
      const call = fetchFor(new NumberedTokens(), service.origin)(service.origin);
      if (count === 20) expect((await call).url).toBe(`${service.origin}/20`);
      else await expect(call).rejects.toThrow('too many redirects');
      expect(service.received).toHaveLength(21);
    }
  });

  it('are resumed at the hop that refused the token, not from the start', async () => {
    await using service = await ResourceService.start(({ path, token }, response) => {
      if (path === '/orders') response.writeHead(303, { location: '/orders/1' }).end();
      else response.writeHead(token === 't2' ? 200 : 401).end();
    });
    const call = fetchFor(new NumberedTokens(), service.origin);
    expect((await call(`${service.origin}/orders`, { method: 'POST', body: 'one' })).status).toBe(200);
    expect(service.received.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /orders',
      'GET /orders/1',
      'GET /orders/1',
    ]);
  });

  it('without a location are returned, and those to an invalid URL fail', async () => {
    const locations = [undefined, 'http://'];
    await using service = await ResourceService.start((_, response, index) => {
      const location = locations[index];
      response.writeHead(302, location === undefined ? {} : { location }).end('moved');
    });
    const call = fetchFor(new NumberedTokens(), service.origin);
    expect(await (await call(service.origin)).text()).toBe('moved');
    await expect(call(service.origin)).rejects.toThrow('has an invalid URL');
  });

  /** A fetch that redirects along these URLs, and the headers that it got at each. */
  function along(...targets: string[]) {
    const sent: Record<string, string>[] = [];
    const redirects: typeof fetch = async (_, init) => {
      sent.push(Object.fromEntries(new Headers(init?.headers)));
      const location = targets[sent.length - 1];
      return new Response('end', location === undefined ? {} : { status: 307, headers: { location } });
    };
    return { fetch: redirects, sent };
  }

  it("to another allowed origin carry none of the caller's headers that are meant for the first", async () => {
    const allowedOrigins = ['https://api.example', 'https://files.example'];
    const { fetch, sent } = along('https://api.example/2', 'https://files.example');
    const call = fetchFor(new NumberedTokens(), undefined, { allowedOrigins, fetch });
    const own = { host: 'virtual.example', cookie: 'a=b', 'proxy-authorization': 'Basic x' };
    await call('https://api.example', { headers: { ...own, accept: 'x' } });
    const others = { accept: 'x', authorization: 'Bearer t1' };
    expect(sent).toEqual([{ ...own, ...others }, { ...own, ...others }, others]);
  });

  it('that lead away carry no header that holds the token, not even one of the caller', async () => {
    const { fetch, sent } = along('https://files.example');
    const present = (token: { value: string }, headers: Headers) => headers.append('x-tokens', token.value);
    const call = fetchFor(new NumberedTokens(), 'https://api.example.com', { fetch, present });
    await call('https://api.example.com', { headers: { 'x-tokens': 'mine', 'x-copy': 't1', accept: 'x' } });
    expect(sent).toEqual([{ 'x-tokens': 'mine, t1', 'x-copy': 't1', accept: 'x' }, { accept: 'x' }]);
  });

  it('hidden by the fetch in use are refused', async () => {
    const hidden = { type: 'opaqueredirect', status: 0, headers: new Headers() } as Response;
    const call = fetchFor(new NumberedTokens(), 'https://api.example.com', { fetch: async () => hidden });
    expect(await errorOf(call('https://api.example.com'))).toMatchObject({ code: 'origin_refused' });
    expect(await call('https://api.example.com', { redirect: 'manual' })).toBe(hidden);
  });
});

describe("the caller's signal", () => {
  const reason = new Error('enough');

  it('ends the wait for the second token', async () => {
    const aborting = new AbortController();
    const tokens = new NumberedTokens();
    await using service = await ResourceService.start((_, response) => {
      tokens.gate = new Promise(() => {});
      response.writeHead(401).end();
    });
    const reject = tokens.reject.bind(tokens);
    tokens.reject = (...args) => {
      setImmediate(() => aborting.abort(reason));
      return reject(...args);
    };
    const call = fetchFor(tokens, service.origin)(service.origin, { signal: aborting.signal });
    await expect(call).rejects.toBe(reason);
    expect(service.received).toHaveLength(1);
  });

  it('ends the exchange, a redirect and the reading of the body', async () => {
    for (const phase of ['exchange', 'redirect', 'request redirect', 'body']) {
      const aborting = new AbortController();
      const { signal } = aborting;
      await using service = await ResourceService.start(({ path }, response) => {
        if (phase.includes('redirect') && path === '/') response.writeHead(302, { location: '/next' }).end();
        else if (phase !== 'body') aborting.abort(reason);
        else response.write('part');
      });
      const call = fetchFor(new NumberedTokens(), service.origin);
      const input = phase.startsWith('request') ? new Request(service.origin, { signal }) : service.origin;
      const reading = call(input, phase.startsWith('request') ? {} : { signal }).then((response) => {
        aborting.abort(reason);
        return response.text();
      });
      // What reading a broken body rejects with is up to the fetch in use.
      if (phase === 'body') await expect(reading).rejects.toThrow();
      else await expect(reading, phase).rejects.toBe(reason);
    }
  });

  it('rejects at once if it is already aborted; null beside a Request replaces that of the Request', async () => {
    await using service = await ResourceService.start();
    const call = fetchFor(new NumberedTokens(), service.origin);
    const signal = AbortSignal.abort(reason);
    await expect(call(service.origin, { signal })).rejects.toBe(reason);
    expect(service.connections).toBe(0);
    expect((await call(new Request(service.origin, { signal }), { signal: null })).status).toBe(200);
  });
});

describe('for clients that take no fetch', () => {
  it('authorize checks the origin, obtains a token and presents it', async () => {
    const tokens = new NumberedTokens();
    const call = fetchFor(tokens, 'https://api.example.com');
    const headers = new Headers();
    expect((await call.authorize('https://api.example.com/x', headers)).value).toBe('t1');
    expect(headers.get('authorization')).toBe('Bearer t1');
    expect(await errorOf(call.authorize('https://elsewhere.example', headers))).toMatchObject({
      code: 'origin_refused',
    });
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(call.authorize(new URL('https://api.example.com'), headers, { signal })).rejects.toThrow('enough');
  });
});

describe('for clients that take a fetch', () => {
  const clients: Record<string, (fetch: OwnerFetch, origin: string) => Promise<unknown>> = {
    ky: (fetch, origin) =>
      ky
        .create({ fetch })
        .post(`${origin}/path`, { json: { a: 1 } })
        .json(),
    ofetch: (fetch, origin) =>
      createFetch({ fetch, Headers, AbortController })(`${origin}/path`, { method: 'POST', body: { a: 1 } }),
    'openapi-fetch': async (fetch, baseUrl) => {
      type Paths = {
        '/path': { post: { requestBody: { content: { 'application/json': { a: number } } }; responses: object } };
      };
      return (await createClient<Paths>({ baseUrl, fetch }).POST('/path', { body: { a: 1 } })).data;
    },
  };
  for (const [name, post] of Object.entries(clients)) {
    it(`${name} over ownerFetch sends its body again after a 401, and passes on errors of the registry`, async () => {
      await using service = await ResourceService.start(({ token, body }, response) => {
        response.setHeader('content-type', 'application/json');
        response.writeHead(token === 't2' ? 200 : 401).end(JSON.stringify({ received: JSON.parse(body) }));
      });
      const tokens = new NumberedTokens();
      expect(await post(fetchFor(tokens, service.origin), service.origin)).toEqual({ received: { a: 1 } });
      expect(service.tokens).toEqual(['t1', 't2']);
      expect(service.received[1]).toMatchObject({ method: 'POST', path: '/path' });
      tokens.failure = new OwnerTokenError('owner_refused', 'no');
      const sent = post(fetchFor(tokens, service.origin), service.origin);
      const thrown = (await sent.catch((error) => error)) as Error;
      expect([thrown, thrown.cause]).toContain(tokens.failure);
    });
  }
});
