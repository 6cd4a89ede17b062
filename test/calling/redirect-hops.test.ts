/** The parts of a hop. Redirects and second attempts over real sockets are in `owner-fetch.test.ts`. */

import { Readable } from 'node:stream';
import { expect, it, vi } from 'vitest';
import { cancelBody, discard, fetchFailed, firstHop } from '../../src/calling/redirect-hops.ts';
import { settle } from '../helpers/manual-clock.ts';

it('the first hop takes settings from an object without a prototype', () => {
  const bare = Object.assign(Object.create(null), { method: 'PUT' });
  expect(firstHop('https://a.example/', bare).method).toBe('PUT');
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
