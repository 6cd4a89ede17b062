import { expect, it } from 'vitest';
import { Secrets } from '../../../src/sandbox/state/secrets.ts';

it('restored secrets go on where they stopped, and draw none again', () => {
  const before = new Secrets(1);
  const drawn = Array.from({ length: 200 }, () => before.next(''));
  const restored = new Secrets(2);
  restored.restore({ key: before.key, made: before.made });
  const next = restored.next('');
  expect(drawn).not.toContain(next);
  expect(next).toBe(before.next(''));
});
