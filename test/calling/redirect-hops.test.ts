/** What a hop is made of. What calls come to with it, over redirects and refused tokens, is in `owner-fetch.test.ts`. */

import { Readable } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { cancelBody, discard, fetchFailed, firstHop, nextHop, retryOf } from '../../src/calling/redirect-hops.ts';
import { settle } from '../helpers/manual-clock.ts';

const URL_A = 'https://a.example/start';

/** An answer that leads elsewhere. */
const redirect = (status: number, location?: string) =>
  new Response(null, { status, ...(location !== undefined && { headers: { location } }) });

/** A body that is read only once, with what becomes of it. */
function stream(chunks: number, bytes = 1000) {
  const seen = { pulled: 0, cancelled: false };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (seen.pulled++ >= chunks) return controller.close();
        controller.enqueue(new Uint8Array(bytes));
      },
      cancel() {
        seen.cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { seen, body };
}

describe('the first hop', () => {
  it('is a GET without anything, whose redirects are ours to follow', () => {
    const hop = firstHop(URL_A);
    expect(hop).toMatchObject({ target: URL_A, method: 'GET', follow: true, init: { redirect: 'manual' } });
    expect([String(hop.url), hop.headers, hop.signal, hop.body()]).toEqual([URL_A, undefined, undefined, null]);
  });

  it('leaves redirects to fetch where the caller says so', () => {
    for (const mode of ['manual', 'error'] as const) {
      expect(firstHop(URL_A, { redirect: mode })).toMatchObject({ follow: false, init: { redirect: mode } });
      expect(firstHop(new Request(URL_A, { redirect: mode }))).toMatchObject({ follow: false });
    }
  });

  it('takes each part from the init, else from the request', () => {
    const { signal } = new AbortController();
    const request = new Request(URL_A, { method: 'PUT', headers: { a: '1' }, body: 'x', signal });
    const own = firstHop(request);
    expect(own).toMatchObject({ target: request, method: 'PUT' });
    expect(own.headers?.get('a')).toBe('1');
    expect(own.signal).toBe(request.signal);
    const other = firstHop(request, { method: 'PATCH', headers: { b: '2' }, signal: null });
    expect([other.method, other.headers?.get('a'), other.headers?.get('b'), other.signal]).toEqual([
      ...['PATCH', null, '2', null],
    ]);
  });

  it('takes settings from behind accessors too', () => {
    const hop = firstHop(URL_A, new Request(URL_A, { method: 'PUT', headers: { a: '1' } }));
    expect([hop.method, hop.headers?.get('a')]).toEqual(['PUT', '1']);
    const bare = Object.assign(Object.create(null), { method: 'PUT' });
    expect(firstHop(URL_A, bare).method).toBe('PUT');
  });

  it('shares nothing with the caller that the caller may change', () => {
    const url = new URL(URL_A);
    const headers = new Headers({ a: '1' });
    const init = { method: 'PUT', headers, body: new URLSearchParams('a=1') };
    const hop = firstHop(url, init);
    url.pathname = '/other';
    headers.set('a', '2');
    init.body.set('a', '2');
    init.method = 'POST';
    expect([String(hop.url), hop.headers?.get('a'), String(hop.body()), hop.method]).toEqual([
      ...[URL_A, '1', 'a=1', 'PUT'],
    ]);
  });

  it('copies a body that may change, and keeps one that does not', async () => {
    const bytes = new Uint8Array([0, 1, 2, 3]);
    const bodyOf = (body: NonNullable<RequestInit['body']> | null) => firstHop(URL_A, { method: 'PUT', body }).body();
    const copies = [bodyOf(bytes.buffer), bodyOf(bytes.subarray(1, 3)), bodyOf(new DataView(bytes.buffer, 2))];
    bytes.fill(9);
    expect(copies.map((copy) => [...new Uint8Array(copy as ArrayBuffer)])).toEqual([
      [0, 1, 2, 3],
      [1, 2],
      [2, 3],
    ]);
    const form = new FormData();
    form.append('a', '1');
    form.append('a', '2');
    const copy = bodyOf(form) as FormData;
    form.append('a', '3');
    expect(copy.getAll('a')).toEqual(['1', '2']);
    const blob = new Blob(['x']);
    expect([bodyOf(blob), bodyOf('x'), bodyOf(null)]).toEqual([blob, 'x', null]);
  });
});

describe('another sending', () => {
  it('has the same body, where that can be sent again', () => {
    expect(retryOf(firstHop(URL_A, { method: 'PUT', body: 'x' }))?.init.body).toBe('x');
    const bare = firstHop(URL_A);
    expect(retryOf(bare)).toBe(bare);
    expect(retryOf(firstHop(URL_A, { method: 'PUT', body: stream(1).body }))).toBeUndefined();
  });

  it('of a request has the body that was kept as it was sent', async () => {
    const request = new Request(URL_A, { method: 'PUT', body: 'hello' });
    const hop = firstHop(request);
    expect(retryOf(hop)).toBeUndefined();
    await request.text();
    await settle();
    expect(String(retryOf(hop)?.init.body)).toBe('hello');
  });

  it('of a request is not made with a body over a mebibyte', async () => {
    const sendable = async (bytes: number) => {
      const request = new Request(URL_A, { method: 'PUT', body: new Uint8Array(bytes) });
      const hop = firstHop(request);
      await request.arrayBuffer();
      await settle();
      return retryOf(hop) !== undefined;
    };
    expect([await sendable(1_048_576), await sendable(1_048_577)]).toEqual([true, false]);
  });
});

describe('the next hop', () => {
  const post = firstHop(URL_A, {
    ...{ method: 'POST', body: 'x' },
    headers: { authorization: 'mine', cookie: 'c', 'content-type': 'text/plain', a: '1' },
  });

  it.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [307, 'POST', 'POST'],
    [308, 'POST', 'POST'],
    [301, 'PUT', 'PUT'],
    [302, 'DELETE', 'DELETE'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [303, 'get', 'get'],
    [302, 'post', 'GET'],
  ])('of a %i to a %s is a %s', (status, method, becomes) => {
    expect(nextHop(firstHop(URL_A, { method }), redirect(status, '/next'))).toMatchObject({
      ...{ method: becomes, init: { method: becomes }, url: { href: 'https://a.example/next' } },
    });
  });

  it('keeps the body with the method, and drops it and what describes it with that', () => {
    const same = nextHop(post, redirect(307, '/next'));
    expect([same?.init.body, same?.body(), same?.headers?.get('content-type')]).toEqual(['x', 'x', 'text/plain']);
    const get = nextHop(post, redirect(303, '/next'));
    expect([get?.init.body, get?.body(), get?.headers?.get('content-type')]).toEqual([null, null, null]);
    expect(get?.headers?.get('authorization')).toBe('mine');
  });

  it('leaves behind what was meant for one origin', () => {
    const elsewhere = nextHop(post, redirect(307, 'https://b.example/'));
    expect(['authorization', 'cookie', 'a'].map((name) => elsewhere?.headers?.get(name))).toEqual([null, null, '1']);
  });

  it('keeps the signal', () => {
    const { signal } = new AbortController();
    expect(nextHop(firstHop(URL_A, { signal }), redirect(302, '/'))?.init.signal).toBe(signal);
    expect(nextHop(firstHop(URL_A), redirect(302, '/'))?.init).not.toHaveProperty('signal');
  });

  it('is none of any other answer, and of none where fetch follows', () => {
    for (const response of [new Response('x'), redirect(304, '/'), redirect(302)]) {
      expect(nextHop(post, response)).toBeUndefined();
    }
    expect(nextHop(firstHop(URL_A, { redirect: 'manual' }), redirect(302, '/'))).toBeUndefined();
  });

  it('cannot be had to no URL, with a body that was sent, or from a fetch that does not tell', () => {
    expect(() => nextHop(post, redirect(302, 'https://:'))).toThrow(
      new TypeError('fetch failed: a redirect has an invalid URL'),
    );
    const streamed = firstHop(URL_A, { method: 'POST', body: stream(1).body });
    expect(() => nextHop(streamed, redirect(307, '/'))).toThrow('a redirect needs the body again');
    const opaque = Object.defineProperty(new Response(), 'type', { value: 'opaqueredirect' });
    expect(() => nextHop(post, opaque)).toThrow(expect.objectContaining({ code: 'origin_refused' }));
  });
});

describe('an answer that nobody wants', () => {
  it('is read to its end where it is short, and broken off where it is long', async () => {
    const [short, long] = [stream(65, 1000), stream(1e6, 1000)];
    for (const { body } of [short, long]) discard(new Response(body));
    await settle();
    await settle();
    expect(short.seen).toEqual({ pulled: 66, cancelled: false });
    expect(long.seen).toEqual({ pulled: 66, cancelled: true });
  });

  it('is given up after a second where it does not go on', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const cancel = vi.fn();
      discard(new Response(new ReadableStream({ cancel })));
      vi.advanceTimersByTime(999);
      expect(cancel).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(cancel).toHaveBeenCalledOnce();
      discard(new Response('short'));
      await settle();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it('that is a Node stream, as some fetches give, is destroyed', () => {
    const body = Readable.from(['x']);
    discard({ body } as unknown as Response);
    expect(body.destroyed).toBe(true);
  });

  it('may fail to cancel', async () => {
    const cancel = vi.fn(() => Promise.reject(new Error('no')));
    const endless = () => new ReadableStream({ pull: (at) => at.enqueue(new Uint8Array(70_000)), cancel });
    discard(new Response(endless()));
    cancelBody(firstHop('https://a.example/', { method: 'POST', body: endless(), duplex: 'half' }), new Error('why'));
    await settle();
    expect(cancel).toHaveBeenCalledTimes(2);
  });

  it('may have no body, or one that fails', async () => {
    discard(new Response(null));
    const broken = new ReadableStream({ pull: (controller) => controller.error(new Error('no')) });
    expect(fetchFailed('why', new Response(broken))).toEqual(new TypeError('fetch failed: why'));
    await settle();
  });
});
