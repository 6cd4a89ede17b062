import { getEventListeners, getMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { startDeadline, untilAborted } from '../../src/endpoint/deadline.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';

const never = new Promise<never>(() => {});

describe('a deadline', () => {
  it('lets work settle as it does while it runs', async () => {
    const deadline = startDeadline(new ManualClock(), 100, undefined);
    expect(await untilAborted(deadline.signal, 'at once')).toBe('at once');
    expect(await untilAborted(deadline.signal, Promise.resolve('later'))).toBe('later');
    await expect(untilAborted(deadline.signal, Promise.reject(new RangeError('own')))).rejects.toThrow(RangeError);
    expect(deadline.signal.aborted).toBe(false);
  });

  it('ends when the time is up, and not before', async () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, 100, undefined);
    const work = untilAborted(deadline.signal, never);
    clock.advance(99);
    expect(deadline.signal.aborted).toBe(false);
    clock.advance(1);
    expect(deadline.signal.reason).toMatchObject({ name: 'TimeoutError', code: 'ETIMEDOUT' });
    await expect(work).rejects.toBe(deadline.signal.reason);
    await expect(untilAborted(deadline.signal, never)).rejects.toBe(deadline.signal.reason);
  });

  it('ends with the signal, at once, also when that was aborted before', async () => {
    const controller = new AbortController();
    const clock = new ManualClock();
    const deadline = startDeadline(clock, 100, controller.signal);
    const work = untilAborted(deadline.signal, never);
    controller.abort();
    expect(deadline.signal.reason).toMatchObject({ code: 'closed' });
    await expect(work).rejects.toBe(deadline.signal.reason);
    expect(startDeadline(clock, 100, AbortSignal.abort()).signal.reason).toMatchObject({ code: 'closed' });
    expect(clock.pendingTimers).toBe(0);
  });

  it('takes a signal of a foreign make too', () => {
    let abort: (() => void) | undefined;
    const addEventListener = (_type: string, fn: () => void) => {
      abort = fn;
    };
    const foreign = { aborted: false, addEventListener };
    const signal = { ...foreign, removeEventListener() {} } as unknown as AbortSignal;
    const deadline = startDeadline(new ManualClock(), 100, signal);
    abort?.();
    expect(deadline.signal.reason).toMatchObject({ code: 'closed' });
  });

  it('leaves the listener limit of the signal alone', () => {
    const { signal } = new AbortController();
    const before = getMaxListeners(signal);
    startDeadline(new ManualClock(), 100, signal).cancel();
    expect(getMaxListeners(signal)).toBe(before);
  });

  it('keeps what ended it first', () => {
    const controller = new AbortController();
    const clock = new ManualClock();
    const deadline = startDeadline(clock, 100, controller.signal);
    clock.advance(100);
    controller.abort();
    expect(deadline.signal.reason).toMatchObject({ code: 'ETIMEDOUT' });
  });

  it('takes a late failure of the work without a word', async () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, 100, undefined);
    let fail!: (error: Error) => void;
    const work = untilAborted(
      deadline.signal,
      new Promise((_resolve, reject) => {
        fail = reject;
      }),
    );
    clock.advance(100);
    await expect(work).rejects.toThrow();
    fail(new Error('too late to be heard'));
    await settle();
  });

  it('leaves no timer and no listener once it is cancelled', async () => {
    const { signal } = new AbortController();
    const clock = new ManualClock();
    const deadline = startDeadline(clock, 100, signal);
    await untilAborted(deadline.signal, 'done');
    await settle();
    expect(getEventListeners(deadline.signal, 'abort')).toHaveLength(0);
    expect([clock.pendingTimers, getEventListeners(signal, 'abort').length]).toEqual([1, 1]);
    deadline.cancel();
    expect([clock.pendingTimers, getEventListeners(signal, 'abort').length]).toEqual([0, 0]);
    clock.advance(1_000);
    expect(deadline.signal.aborted).toBe(false);
  });
});
