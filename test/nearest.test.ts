import { expect, it } from 'vitest';
import { nearest } from '../src/nearest.ts';

it.each([
  ['concurency', 'concurrency'],
  ['CONCURRENCY', 'concurrency'],
  ['maxOwner', 'maxOwners'],
  ['xaxOwnxrx', 'maxOwners'],
  ['clok', 'clock'],
  ['clxxk', 'clock'],
  ['clxxx', undefined],
  ['xaxOxnxrx', undefined],
  ['c', undefined],
  ['maxOwnersAndMore', undefined],
])('the nearest name to %s is %s', (name, near) => {
  expect(nearest(name, ['concurrency', 'maxOwners', 'clock'])).toBe(near);
});
