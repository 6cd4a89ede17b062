import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { withDeadline } from '../../src/cli/deadline.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('an operation that ends before its deadline leaves no timer and no listener behind', async () => {
  const { signal } = new AbortController();
  expect(await withDeadline(1_000, signal, async () => 'done')).toBe('done');
  await expect(withDeadline(1_000, signal, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  expect([vi.getTimerCount(), getEventListeners(signal, 'abort')]).toEqual([0, []]);
});

it('an operation that ignores its signal is given up at its deadline', async () => {
  const never = withDeadline(1_000, undefined, () => new Promise(() => {}));
  vi.advanceTimersByTime(1_000);
  await expect(never).rejects.toMatchObject({ code: 'ETIMEDOUT', message: 'no response within 1 s' });
});
