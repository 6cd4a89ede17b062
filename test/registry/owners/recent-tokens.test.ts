/** Another owner's token, as callers and the log see it. */

import { expect, it } from 'vitest';
import { OwnerTokenError } from '../../../src/index.ts';
import { shortNames } from '../../helpers/log-lines.ts';
import { keys, scripted } from '../../helpers/registries.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';

/** A source that gives each owner these tokens in turn, the last one again and again, and the warnings of its registry. */
function issuing(tokens: Record<string, readonly string[]>, options: { maxOwners?: number } = {}) {
  const source = new ScriptedSource((call) => {
    const given = tokens[call.accessKey] ?? [`of-${call.accessKey}`];
    const token = given[Math.min(source.countFor(call.accessKey), given.length) - 1] as string;
    call.succeed({ token, response: { expires_in: 100 } });
  });
  const warnings: string[] = [];
  const warn = (line: object) => void warnings.push((shortNames(line) as { event: string }).event);
  const logger = { debug: () => {}, info: () => {}, warn };
  return { ...scripted({ logger, ...options }, source), warnings };
}

const tokenOf = async ({ registry }: ReturnType<typeof issuing>, key: string) => (await registry.getToken(key)).value;

it('a token that all owners get is served to each: the second and third request it twice, later ones once', async () => {
  const one = ['one'];
  const scene = issuing({ 'key-1': one, 'key-2': one, 'key-3': one, 'key-4': one, 'key-5': one });
  for (const key of keys(5)) expect(await tokenOf(scene, key)).toBe('one');
  expect(keys(5).map((key) => scene.source.countFor(key))).toEqual([1, 2, 2, 1, 1]);
  expect(scene.source.call(2).request).toMatchObject({ reason: 'rejected', rejected: { value: 'one' } });
  expect(scene.warnings).toEqual(['token.shared']);
});

it('an owner that already shares a token does not request it twice when it comes again', async () => {
  const scene = issuing({ a: ['one', 'two'], b: ['one', 'one', 'two', 'two'] });
  for (const key of ['a', 'b']) await tokenOf(scene, key);
  scene.registry.forget('never known');
  scene.clock.advance(100_000);
  expect([await tokenOf(scene, 'b'), await tokenOf(scene, 'a')]).toEqual(['two', 'two']);
  expect(scene.registry.stats().failures).toBe(0);
});

it('after a mix-up the token of the other owner is replaced, too, and one warning names both', async () => {
  const scene = issuing({ a: ['mixed', 'of-a'], b: ['mixed', 'of-b'] });
  expect(await tokenOf(scene, 'a')).toBe('mixed');
  expect(await tokenOf(scene, 'b')).toBe('of-b');
  expect(scene.registry.describe('a').phase).toBe('rejected');
  expect(await tokenOf(scene, 'a')).toBe('of-a');
  expect(scene.warnings).toEqual(['token.mixed_up']);
  expect(scene.registry.stats().pauses).toEqual({ owners: 0 });
});

it('a token of its own clears an owner’s doubt: the next one of another owner is requested again', async () => {
  const scene = issuing({ a: ['of-a', 'of-a-2'], b: ['of-a', 'of-b', 'of-a-2', 'of-b-2'] });
  await tokenOf(scene, 'a');
  expect(await tokenOf(scene, 'b')).toBe('of-b');
  expect(await tokenOf(scene, 'a')).toBe('of-a-2');
  scene.clock.advance(95_000);
  expect(await tokenOf(scene, 'b')).toBe('of-b-2');
  expect(scene.source.countFor('b')).toBe(4);
});

it('an owner that was evicted and comes back with the mixed-up token repeats its request', async () => {
  const scene = issuing({ a: ['mixed', 'mixed', 'of-a'], b: ['mixed', 'of-b'] }, { maxOwners: 1 });
  expect(await tokenOf(scene, 'a')).toBe('mixed');
  expect(await tokenOf(scene, 'b')).toBe('of-b');
  expect(await tokenOf(scene, 'a')).toBe('of-a');
  expect(scene.source.countFor('a')).toBe(3);
});

it('a mix-up with a token that several owners share, or that its owner no longer has, replaces nothing', async () => {
  const shared = issuing({ a: ['one'], b: ['one'], c: ['one', 'of-c'] });
  for (const key of ['a', 'b', 'c']) await tokenOf(shared, key);
  expect([shared.registry.describe('a').phase, shared.registry.describe('b').phase]).toEqual(['fresh', 'fresh']);
  const gone = issuing({ a: ['one', 'two'], b: ['one', 'of-b'] });
  gone.registry.reject('a', await gone.registry.getToken('a'));
  await tokenOf(gone, 'a');
  await tokenOf(gone, 'b');
  expect(gone.registry.describe('a').phase).toBe('fresh');
});

it('a mix-up with a token that has ended replaces nothing', async () => {
  const scene = issuing({ a: ['one'], b: ['one', 'of-b'] });
  await tokenOf(scene, 'a');
  scene.clock.advance(100_000);
  scene.source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'gone')));
  await expect(tokenOf(scene, 'a')).rejects.toThrow('gone');
  scene.source.script((call) => call.succeed({ token: scene.source.countFor('b') === 1 ? 'one' : 'of-b' }));
  expect(await tokenOf(scene, 'b')).toBe('of-b');
});

it('a mixed-up token that a third owner gets twice is shared', async () => {
  const scene = issuing({ a: ['mixed', 'of-a'], b: ['mixed', 'of-b'], c: ['mixed'] });
  for (const key of ['a', 'b', 'c']) await tokenOf(scene, key);
  expect(scene.warnings).toEqual(['token.mixed_up', 'token.shared']);
});

it('forgetting an owner leaves the tokens of others known', async () => {
  const scene = issuing({ a: ['one'], b: ['one', 'of-b'], c: ['of-c'] });
  for (const key of ['a', 'c']) await tokenOf(scene, key);
  scene.registry.forget('c');
  expect(await tokenOf(scene, 'b')).toBe('of-b');
});

it('forgetting an owner forgets its tokens, and only the last few hundred are remembered', async () => {
  const scene = issuing({ a: ['one'], b: ['one'], late: ['of-key-1'], later: ['of-key-299'] });
  await tokenOf(scene, 'a');
  scene.registry.forget('a');
  await tokenOf(scene, 'b');
  scene.registry.forgetAll();
  for (const key of keys(300)) await tokenOf(scene, key);
  for (const key of ['late', 'later']) await tokenOf(scene, key);
  expect(['b', 'late', 'later'].map((key) => scene.source.countFor(key))).toEqual([1, 1, 2]);
});
