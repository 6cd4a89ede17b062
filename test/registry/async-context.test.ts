import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, it } from 'vitest';
import { AsyncContext } from '../../src/registry/async-context.ts';

it('an async context is the one in which it was created, and keeps no process alive', () => {
  const storage = new AsyncLocalStorage<string>();
  const context = storage.run('then', () => new AsyncContext('Test'));
  expect(storage.run('now', () => context.runInAsyncScope(() => storage.getStore()))).toBe('then');
  expect(context.hasRef()).toBe(false);
});
