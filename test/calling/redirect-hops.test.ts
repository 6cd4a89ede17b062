/** The parts of a hop. Redirects and second attempts over real sockets are in `owner-fetch.test.ts`. */

import { Readable } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { cancelBody, discard, fetchFailed, firstHop } from '../../src/calling/redirect-hops.ts';
import { settle } from '../helpers/manual-clock.ts';

const URL_A = 'https://a.example/start';

describe('the first hop', () => {
  it('takes settings from accessors too', () => {
    const hop = firstHop(URL_A, new Request(URL_A, { method: 'PUT', headers: { a: '1' } }));
    expect([hop.method, hop.headers?.get('a')]).toEqual(['PUT', '1']);
    const bare = Object.assign(Object.create(null), { method: 'PUT' });
    expect(firstHop(URL_A, bare).method).toBe('PUT');
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

it('an unwanted answer that is a Node stream, as some fetches give, is destroyed', () => {
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
