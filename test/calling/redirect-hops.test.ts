/** The parts of a hop. Redirects and second attempts over real sockets are in `owner-fetch.test.ts`. */

import { Readable } from 'node:stream';
import { expect, it, vi } from 'vitest';
import {
  cancelBody,
  discard,
  fetchFailed,
  firstHop,
  nextHop,
  withoutCredentials,
} from '../../src/calling/redirect-hops.ts';
import { settle } from '../helpers/manual-clock.ts';

it('the first hop takes settings from an object without a prototype', () => {
  const bare = Object.assign(Object.create(null), { method: 'PUT' });
  expect(firstHop('https://a.example/', bare).method).toBe('PUT');
});

it('a hop without a body is given none', () => {
  expect('body' in firstHop('https://a.example/', { method: 'POST' }).init).toBe(false);
});

it('a redirect that cannot be followed says why', () => {
  const hop = firstHop('https://a.example/', { method: 'POST', body: new ReadableStream(), duplex: 'half' });
  const hidden = { type: 'opaqueredirect' } as Response;
  expect(() => nextHop(hop, hidden)).toThrow('this fetch hides the target of a redirect, so it cannot be checked');
  const again = new Response(null, { status: 307, headers: { location: '/b' } });
  expect(() => nextHop(hop, again)).toThrow('a redirect needs the body again, but it can be read only once');
});

it('headers added to present the token are removed, whether or not they contain it, and the caller’s stay', () => {
  const before = firstHop('https://a.example/', { headers: { 'x-given': 'mine', 'x-both': 'mine' } });
  const headers = new Headers({ 'x-given': 'mine', 'x-both': 'signed', 'x-added': 'signed' });
  const next = firstHop('https://b.example/', { headers });
  const sent = withoutCredentials(next, before, { headers, token: 'the-token' });
  expect([...(sent.headers ?? [])]).toEqual([['x-given', 'mine']]);
  const bare = withoutCredentials(next, firstHop('https://a.example/'), { headers, token: 'the-token' });
  expect([...(bare.headers ?? [])]).toEqual([]);
});

it('an unwanted answer is read to its end up to 64 KiB, and cancelled beyond', async () => {
  const cancelled = async (bytes: number) => {
    const cancel = vi.fn();
    const start = (controller: ReadableStreamDefaultController) => controller.enqueue(new Uint8Array(bytes));
    discard(new Response(new ReadableStream({ start, cancel })));
    await settle();
    return cancel.mock.calls.length > 0;
  };
  expect([await cancelled(65_536), await cancelled(65_537)]).toEqual([false, true]);
});

it('an unwanted answer that is a Node stream, as in some fetch packages, is destroyed', () => {
  const body = Readable.from(['x']);
  discard({ body } as unknown as Response);
  expect(body.destroyed).toBe(true);
});

it('an unwanted answer that fails to cancel does no harm', async () => {
  const cancel = vi.fn(() => Promise.reject(new Error('no')));
  const endless = () => new ReadableStream({ pull: (at) => at.enqueue(new Uint8Array(70_000)), cancel });
  discard(new Response(endless()));
  cancelBody(firstHop('https://a.example/', { method: 'POST', body: endless(), duplex: 'half' }), new Error('why'));
  await settle();
  expect(cancel).toHaveBeenCalledTimes(2);
});

it('an unwanted answer without a body, or with one that fails, does no harm', async () => {
  discard(new Response(null));
  discard({ body: 'as some mocks give' } as unknown as Response);
  const broken = new ReadableStream({ pull: (controller) => controller.error(new Error('no')) });
  expect(fetchFailed('why', new Response(broken))).toEqual(new TypeError('fetch failed: why'));
  await settle();
});
