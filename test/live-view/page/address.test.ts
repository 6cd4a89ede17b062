import { expect, it } from 'vitest';
import { addressOf, changedHash } from '../../../src/live-view/page/address.ts';

it('the address of the live view leads back to what it was made of', () => {
  const hash = changedHash('#cause=owner_refused-400&window=300', { owner: 'Müller & Söhne #1', cause: undefined });
  expect(addressOf(hash)).toEqual({ window: '300', owner: 'Müller & Söhne #1' });
  expect(addressOf('')).toEqual({});
});
