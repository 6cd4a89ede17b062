import { expect, it } from 'vitest';
import { Directory } from '../../../src/sandbox/state/directory.ts';
import { Secrets } from '../../../src/sandbox/state/secrets.ts';

it('the access keys of a removed owner are no longer known, those of others are', () => {
  const directory = new Directory(new Secrets(1));
  directory.seed(2);
  const [removed, kept] = [...directory.accessKeys.values()];
  directory.removeOwner(removed?.ownerId ?? '');
  expect(directory.findAccessKey(removed?.value ?? '')).toBeUndefined();
  expect(directory.findAccessKey(kept?.value ?? '')).toBe(kept);
});
