import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { withDeadline } from '../../src/cli/deadline.ts';

it('an operation that ends in time leaves no listener on the outer signal', async () => {
  const outer = new AbortController();
  expect(await withDeadline(60_000, outer.signal, async () => 'done')).toBe('done');
  expect(getEventListeners(outer.signal, 'abort')).toEqual([]);
});

it('an operation is aborted with the reason of the outer signal', async () => {
  const outer = new AbortController();
  const never = withDeadline(60_000, outer.signal, () => new Promise(() => {}));
  outer.abort(new Error('Ctrl-C'));
  await expect(never).rejects.toThrow('Ctrl-C');
});
