import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { Cancellation, Deadline } from '../src/cancellation.ts';
import { ManualClock, settle } from './helpers/manual-clock.ts';

/** A request as a source gets it. */
function cancellable() {
  const cancellation = new Cancellation();
  return { cancellation, request: cancellation.addTo({ reason: 'absent' }) };
}

it('the signal of a request is a genuine AbortSignal that aborts when the request does, with the same reason', () => {
  const { cancellation, request } = cancellable();
  const { signal } = request;
  expect(signal).toBeInstanceOf(AbortSignal);
  expect(request.signal).toBe(signal);
  const reasons: unknown[] = [];
  signal.addEventListener('abort', () => reasons.push(signal.reason));
  expect(signal.aborted).toBe(false);
  cancellation.abort('closed');
  expect(reasons).toEqual(['closed']);
  expect(signal.aborted).toBe(true);
});

it('the signal of a request has already aborted if it is first read after the request has ended', () => {
  const { cancellation, request } = cancellable();
  cancellation.abort('closed');
  expect(request.signal).toMatchObject({ aborted: true, reason: 'closed' });
});

it.each([
  ['copies', (request: object) => ({ ...request })],
  ['proxies', (request: object) => new Proxy(request, {})],
  ['objects that inherit from it', (request: object) => Object.create(request) as object],
])('the signal of a request belongs to %s of the request too', (_what, made) => {
  const { cancellation, request } = cancellable();
  const { signal } = made(request) as typeof request;
  expect(signal).toBe(request.signal);
  cancellation.abort('closed');
  expect(signal.reason).toBe('closed');
});

it('Cancellation.of returns the cancellation of the request that it was made for', () => {
  const { cancellation, request } = cancellable();
  expect(Cancellation.of(request)).toBe(cancellation);
});

it('Cancellation.of returns the signal of any other request: a copy, a proxy, one with its own signal', () => {
  const { request } = cancellable();
  const { signal } = new AbortController();
  expect(Cancellation.of({ ...request })).toBe(request.signal);
  expect(Cancellation.of({ ...request, signal })).toBe(signal);
  expect(Cancellation.of(Object.create(request, { signal: { value: signal } }) as object)).toBe(signal);
  const get = (target: object, name: string) => (name === 'signal' ? signal : Reflect.get(target, name));
  expect(Cancellation.of(new Proxy(request, { get } as ProxyHandler<typeof request>))).toBe(signal);
  expect(Cancellation.of({ signal })).toBe(signal);
  expect(Cancellation.of({})).toBeUndefined();
});

it('a cancellation calls every listener that was not removed, once', () => {
  const { cancellation, request } = cancellable();
  const called: string[] = [];
  const removed = () => called.push('removed');
  cancellation.addEventListener('abort', removed);
  cancellation.addEventListener('abort', () => called.push(`first: ${cancellation.reason}`));
  cancellation.addEventListener('abort', () => called.push('second'));
  cancellation.removeEventListener('abort', removed);
  expect(getEventListeners(request.signal, 'abort')).toEqual([]);
  cancellation.throwIfAborted();
  cancellation.abort('closed');
  cancellation.abort('again');
  expect(called).toEqual(['first: closed', 'second']);
  expect(cancellation.aborted).toBe(true);
  expect(() => cancellation.throwIfAborted()).toThrow('closed');
});

const never = new Promise<never>(() => {});

it('a deadline ends when its time is up, and not before', async () => {
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 100, undefined);
  const work = deadline.race(never);
  clock.advance(99);
  expect(deadline.reason).toBeUndefined();
  clock.advance(1);
  const ended = expect(work).rejects.toMatchObject({ code: 'ETIMEDOUT' });
  await settle();
  expect(deadline.reason).toMatchObject({ name: 'TimeoutError', code: 'ETIMEDOUT' });
  await ended;
  await expect(deadline.race(never)).rejects.toBe(deadline.reason);
});

it.each([
  ['the process was suspended', (clock: ManualClock) => clock.jumpWall(1_115)],
  ['the event loop was blocked', (clock: ManualClock) => clock.standStill(1_115)],
])('a deadline reports that it is late by over a second and a tenth of itself because %s', async (_what, stand) => {
  for (const [limitMs, code] of [[1_100, 'ERR_STOOD_STILL'] as const, [1_200, 'ETIMEDOUT'] as const]) {
    const clock = new ManualClock();
    const deadline = new Deadline(clock, limitMs, undefined);
    clock.advance(limitMs - 1);
    stand(clock);
    clock.advance(1);
    await settle(30);
    expect(deadline.reason).toMatchObject({ name: 'TimeoutError', code });
  }
});

it('a deadline ends as soon as its signal aborts, and at once if it has aborted already', async () => {
  const controller = new AbortController();
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 100, controller.signal);
  const work = deadline.race(never);
  controller.abort();
  expect(deadline.reason).toMatchObject({ code: 'closed' });
  await expect(work).rejects.toBe(deadline.reason);
  expect(new Deadline(clock, 100, AbortSignal.abort()).reason).toMatchObject({ code: 'closed' });
  expect(clock.pendingTimers).toBe(0);
});

it('a deadline leaves no timer and no listener once it is cancelled', async () => {
  const { signal } = new AbortController();
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 100, signal);
  await deadline.race('done');
  await settle();
  expect([clock.pendingTimers, getEventListeners(signal, 'abort').length]).toEqual([1, 1]);
  deadline.cancel();
  expect([clock.pendingTimers, getEventListeners(signal, 'abort').length]).toEqual([0, 0]);
  clock.advance(1_000);
  expect(deadline.reason).toBeUndefined();
});
