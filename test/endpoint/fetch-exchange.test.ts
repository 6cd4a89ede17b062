import { Readable } from 'node:stream';
import zlib from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Deadline } from '../../src/cancellation.ts';
import { postByFetch } from '../../src/endpoint/fetch-exchange.ts';
import { type ExchangeResult, targetBelow } from '../../src/endpoint/http-exchange.ts';
import { LoopbackService, status } from '../helpers/loopback-service.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

let service: LoopbackService;
const never = new Promise(() => {});

beforeEach(async () => {
  service = await LoopbackService.start();
});

afterEach(() => service.close());

/** Posts through this `fetch`, until the signal aborts. */
function post(through: typeof fetch, signal?: AbortSignal): Promise<ExchangeResult> {
  const deadline = new Deadline(new ManualClock(), 10_000, signal);
  const target = targetBelow(new URL(service.url), '/auth/v1/token');
  const request = { target, headers: { 'X-Test': 'yes' }, body: '{"a":"ä"}' };
  return postByFetch({ ...request, maxResponseBytes: 1_000, deadline }, through);
}

/** A fetch of somebody’s own making. */
function answering(make: (init: RequestInit) => Response | Promise<Response>): typeof fetch {
  return async (_url, init) => await make(init as RequestInit);
}

/** A body of these parts, which tells when it is let go of. */
function streamOf(...parts: unknown[]): { stream: ReadableStream; letGo: Promise<void> } {
  let stream!: ReadableStream;
  const letGo = new Promise<void>((resolve) => {
    stream = new ReadableStream({
      pull(controller) {
        if (parts.length > 0) controller.enqueue(parts.shift());
      },
      cancel: () => resolve(),
    });
  });
  return { stream, letGo };
}

it('the request is one POST with the body, which follows no redirect and is not cached', async () => {
  let seen: RequestInit | undefined;
  await post(
    answering((init) => {
      seen = init;
      return new Response('{}');
    }),
  );
  expect(seen).toMatchObject({ method: 'POST', redirect: 'manual', cache: 'no-store', body: '{"a":"ä"}' });
});

it('an answer may be empty', async () => {
  const received = await post(answering(() => new Response(null, { status: 204 })));
  expect(received).toMatchObject({ status: 204, body: Buffer.alloc(0) });
});

it('an answer may be as long as the cap, once it is decoded', async () => {
  service.next(status(200, zlib.gzipSync(Buffer.alloc(1_000)), { 'content-encoding': 'gzip' }));
  expect((await post(fetch)).body).toHaveLength(1_000);
});

it('an answer whose body is not bytes is refused, and its stream is cancelled', async () => {
  const { stream, letGo } = streamOf('text');
  const received = await post(answering(() => new Response(stream)));
  expect(received.error).toBeInstanceOf(Error);
  await letGo;
});

describe('an answer that is no standard Response', () => {
  const TOKEN = '{"access_token":"t"}';
  const pieces = (...texts: string[]) => Readable.from(texts.map((text) => Buffer.from(text)));
  const unread = () => expect.fail('read');
  const answered = (response: object) => post(answering(() => response as Response));

  it.each<[string, object]>([
    ['a stream of Node', { body: pieces(TOKEN.slice(0, 9), TOKEN.slice(9)), text: unread }],
    ['a generator', { body: pieces(TOKEN)[Symbol.asyncIterator]() }],
    ['text()', { text: async () => TOKEN, json: unread }],
    ['text() beside a body that is no stream', { body: Buffer.from(TOKEN), text: async () => TOKEN }],
    ['json()', { ok: true, json: async () => ({ access_token: 't' }) }],
    ['json() that returns at once', { body: null, json: () => ({ access_token: 't' }) }],
  ])('is read by %s', async (_what, response) => {
    const received = await answered({ status: 200, ...response });
    expect(received).toEqual({ status: 200, body: Buffer.from(TOKEN), retryAfter: undefined, date: undefined });
  });

  it.each<[string, object]>([
    ['no body', {}],
    ['a text() without a text', { text: async () => undefined }],
    ['a json() without a value', { json: async () => undefined }],
  ])('with %s has a status and no JSON', async (_what, response) => {
    const received = await answered({ status: 401, ...response });
    expect(received).toMatchObject({ status: 401, body: expect.any(Buffer) });
    expect(() => JSON.parse(String(received.body))).toThrow();
  });

  it.each(['text', 'json'])('has a status even if %s() fails', async (name) => {
    const error = new SyntaxError('Unexpected token');
    expect(await answered({ status: 401, [name]: () => Promise.reject(error) })).toMatchObject({ status: 401, error });
  });

  it.each<[string, unknown]>([
    ['Headers', new Headers({ 'Retry-After': '7', Date: 'now' })],
    [
      'a map',
      new Map<string, unknown>([
        ['retry-after', 7],
        ['date', 'now'],
      ]),
    ],
    ['an object', { 'Retry-After': '7', date: 'now' }],
    ['an object of lists', { 'retry-after': ['7'], date: ['now'] }],
  ])('has its headers in %s', async (_what, headers) => {
    expect(await answered({ status: 429, headers })).toMatchObject({ status: 429, retryAfter: '7', date: 'now' });
  });

  it('is refused at the limit of its size: a stream when it is reached', async () => {
    const endless = new Readable({ read: () => void endless.push(Buffer.alloc(600)) });
    const received = await answered({ status: 200, body: endless });
    expect(received).toMatchObject({ status: 200, error: { code: 'ERR_UNUSABLE_BODY' } });
    expect(endless.destroyed).toBe(true);
  });

  it.each<[string, object]>([
    ['its stated length, unread', { headers: { 'Content-Length': '1001' }, text: unread, json: unread }],
    ['its length as text', { text: async () => 'ä'.repeat(501) }],
    ['its length as JSON', { json: async () => 'x'.repeat(999) }],
  ])('is refused by %s', async (_what, response) => {
    const tooLong = { message: 'the body exceeds maxResponseBytes', code: 'ERR_UNUSABLE_BODY' };
    expect(await answered({ status: 200, ...response })).toMatchObject({ status: 200, error: tooLong });
  });

  it.each<[string, () => object]>([
    ['a stream of Node', () => ({ body: new Readable({ read: () => {} }) })],
    ['an iterator without end', () => ({ body: { [Symbol.asyncIterator]: () => ({ next: () => never }) } })],
    ['text()', () => ({ text: () => never })],
    ['json()', () => ({ json: () => never })],
  ])('is abandoned by an abort while it is read: %s', async (_what, response) => {
    const controller = new AbortController();
    const pending = post(
      answering(() => ({ status: 200, ...response() }) as unknown as Response),
      controller.signal,
    );
    await settle();
    controller.abort();
    expect(await pending).toMatchObject({ status: 200, error: { code: 'closed' } });
  });

  it('is released unread if it redirects or comes too late', async () => {
    const redirect = pieces('{}');
    expect(await answered({ status: 302, body: redirect })).toMatchObject({ error: { code: 'ERR_REDIRECTED' } });
    expect(redirect.destroyed).toBe(true);
    const late = pieces('{}');
    const controller = new AbortController();
    const pending = post(
      answering(async () => {
        controller.abort();
        return { status: 200, body: late } as unknown as Response;
      }),
      controller.signal,
    );
    expect(await pending).toMatchObject({ error: { code: 'closed' } });
    await settle();
    expect(late.destroyed).toBe(true);
  });

  it('may fail to be released', async () => {
    const body = Object.assign(pieces('{}'), { destroy: () => Promise.reject(new Error('broken')) });
    expect(await answered({ status: 302, body })).toMatchObject({ error: { code: 'ERR_REDIRECTED' } });
    await settle();
  });
});

describe('a redirect', () => {
  it('that the fetch hid, or followed all the same, is refused without a status', async () => {
    const hidden = Object.defineProperty(new Response(null), 'type', { value: 'opaqueredirect' });
    const followed = Object.defineProperty(new Response('{}'), 'redirected', { value: true });
    for (const response of [hidden, followed]) {
      const received = await post(answering(() => response));
      expect(received).toMatchObject({ error: { code: 'ERR_REDIRECTED' } });
      expect(received.status).toBeUndefined();
    }
  });
});

it('a fetch that fails is reported, whether it rejects, throws or gives no response', async () => {
  const boom = new TypeError('fetch failed');
  const failing: (typeof fetch)[] = [
    () => Promise.reject(boom),
    () => {
      throw boom;
    },
  ];
  for (const each of failing) expect(await post(each)).toEqual({ error: boom });
  const none = answering(() => undefined as unknown as Response);
  expect((await post(none)).error).toBeInstanceOf(TypeError);
});

it('an abort cancels the body of a fetch that ignores it, and never takes the part it got for the whole', async () => {
  const controller = new AbortController();
  const { stream, letGo } = streamOf(Buffer.from('{"begun":'));
  const pending = post(
    answering(() => new Response(stream)),
    controller.signal,
  );
  await settle();
  controller.abort();
  const received = await pending;
  expect(received).toMatchObject({ status: 200, error: { code: 'closed' } });
  expect(received).not.toHaveProperty('body');
  await letGo;
});

it('an abort cancels an answer that a fetch that ignores it returns afterwards', async () => {
  const controller = new AbortController();
  const { stream, letGo } = streamOf();
  let bring!: (response: Response) => void;
  const late = new Promise<Response>((resolve) => {
    bring = resolve;
  });
  const pending = post(
    answering(() => late),
    controller.signal,
  );
  controller.abort();
  bring(new Response(stream));
  await letGo;
  expect(await pending).toMatchObject({ error: { code: 'closed' } });
});

describe('a proxy that requires authentication', () => {
  const rejecting = (error: unknown) => answering(() => Promise.reject(error));
  /** As undici's `ProxyAgent` reports it. */
  const refused = (status: number) =>
    new TypeError('fetch failed', {
      cause: new Error('Request was cancelled.', {
        cause: new Error(`Proxy response (${status}) !== 200 when HTTP Tunneling`),
      }),
    });

  it('is reported as status 407, and no other refusal by a proxy as an answer of the service', async () => {
    expect((await post(rejecting(refused(407)))).status).toBe(407);
    expect((await post(rejecting(refused(403)))).status).toBeUndefined();
  });

  it('is looked for in a few causes only, and in errors only', async () => {
    const ring = new Error('around');
    ring.cause = ring;
    const odd = Object.defineProperty(new Error('x'), 'message', { value: 7 });
    for (const error of [ring, odd, 'Proxy response (407)', undefined]) {
      expect((await post(rejecting(error))).status).toBeUndefined();
    }
  });
});
