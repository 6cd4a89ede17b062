import { expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import type { AccessToken } from '../../src/token.ts';
import { settle } from '../helpers/manual-clock.ts';
import { errorOf, keys, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const refused = () =>
  new OwnerTokenError('owner_refused', 'the key is revoked', { status: 400, oauthError: 'invalid_grant' });

/** A registry whose owners are named by their access keys in capitals; those in `dead` are refused. */
function withDead(...dead: string[]) {
  const source = new ScriptedSource((call) =>
    dead.includes(call.accessKey) ? call.fail(refused()) : call.succeed({ response: { expires_in: 1000 } }),
  );
  return scripted({ ownerLabel: (accessKey) => accessKey.toUpperCase().replace('KEY-', 'OWNER ') }, source);
}

it('the list of owners has failing ones first, then by last use, each by its label and never by its key', async () => {
  const { registry, clock, source } = withDead('key-2');
  for (const accessKey of keys(3)) await registry.getToken(accessKey).catch(() => {});
  await registry.getToken('key-1');
  const listed = registry.owners();
  expect(listed.map(({ owner, phase }) => [owner, phase])).toEqual([
    ['OWNER 2', 'backing-off'],
    ['OWNER 1', 'fresh'],
    ['OWNER 3', 'fresh'],
  ]);
  expect(JSON.stringify(listed)).not.toMatch(/key-\d/);
  expect(registry.owners({ limit: 2 })).toEqual(listed.slice(0, 2));
  expect(registry.owners({ limit: 1 })).toEqual(listed.slice(0, 1));
  expect(registry.owners({ state: 'failing' })).toEqual(listed.slice(0, 1));
  expect(registry.owners({ state: 'working' })).toEqual(listed.slice(1));
  clock.advance(800_000);
  source.script((call) => call.fail(refused()));
  await registry.getToken('key-1');
  await settle();
  expect(registry.owners({ state: 'working' }).map(({ owner }) => owner)).toEqual(['OWNER 3']);
  registry.forgetAll();
  expect(registry.owners()).toEqual([]);
});

it('the list of owners says since when an owner fails, why, how often, until when, and when it had its last token', async () => {
  const { registry, clock, source } = withDead();
  const startMs = clock.now();
  await registry.getToken('key-1');
  expect(registry.owners()).toEqual([
    { owner: 'OWNER 1', phase: 'fresh', expiresAtMs: startMs + 990_000, issuedAtMs: startMs },
  ]);
  clock.advance(2_000_000);
  const failedFirstMs = clock.now();
  source.script((call) => call.fail(refused()));
  await errorOf(registry.getToken('key-1'));
  clock.advance(1_000);
  const { retryAtMs } = await errorOf(registry.getToken('key-1'));
  const failure = {
    code: 'owner_refused',
    message: 'the key is revoked',
    status: 400,
    oauthError: 'invalid_grant',
    sinceMs: failedFirstMs,
    failedAtMs: failedFirstMs + 1_000,
    failures: 2,
    retryAtMs,
  };
  const state = { phase: 'backing-off', code: 'owner_refused', retryAtMs };
  expect(registry.owners()).toEqual([{ owner: 'OWNER 1', ...state, issuedAtMs: startMs, failure }]);
});

it('the list of owners keeps a failing owner while its next request is in flight, and ends with its recovery', async () => {
  const { registry, clock, source } = withDead('key-1');
  await errorOf(registry.getToken('key-1'));
  clock.advance(1_000);
  source.script(undefined);
  const call = registry.getToken('key-1');
  await settle();
  expect(registry.owners({ state: 'failing' })).toMatchObject([{ owner: 'OWNER 1', phase: 'requesting' }]);
  expect(registry.stats().pauses.owners).toBe(1);
  source.call(-1).succeed();
  await call;
  expect(registry.owners({ state: 'failing' })).toEqual([]);
});

it('the list of owners shows an owner whose tokens are rejected in a row as failing, since the first that was kept', async () => {
  const { registry, clock } = withDead();
  const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
  expect([await rejectNext(), await rejectNext()]).toEqual([true, false]);
  const sinceMs = clock.now();
  const token = registry.peek('key-1');
  const untilMs = sinceMs + 10_000;
  expect(registry.owners()[0]).toMatchObject({
    phase: 'fresh',
    code: 'token_rejected',
    retryAtMs: untilMs,
    failure: { code: 'token_rejected', failures: 1, sinceMs },
  });
  clock.advance(10_000);
  expect([registry.reject('key-1', token as AccessToken), await rejectNext()]).toEqual([true, false]);
  expect(registry.owners()[0]?.failure).toMatchObject({ failures: 2, sinceMs, retryAtMs: untilMs + 20_000 });
  registry.accept('key-1', registry.peek('key-1') as AccessToken);
  expect(registry.owners({ state: 'failing' })).not.toContainEqual(expect.objectContaining({ code: 'token_rejected' }));
});

it('the list of owners takes time in proportion to its length: no other owner is fingerprinted', async () => {
  let named = 0;
  const ownerLabel = (accessKey: string) => `label ${++named} of ${accessKey.length}`;
  const { registry } = scripted({ ownerLabel }, ScriptedSource.answering());
  for (const accessKey of keys(500)) await registry.getToken(accessKey);
  expect(registry.owners({ limit: 5 })).toHaveLength(5);
  expect(named).toBe(5);
});

it('the list of owners refuses a limit or a state that it does not know', () => {
  const { registry } = withDead();
  const problemOf = (options: object) => {
    try {
      return registry.owners(options);
    } catch (error) {
      return (error as OwnerTokenError).message;
    }
  };
  expect(problemOf({ limit: 0 })).toContain('limit: expected an integer from 1 to 100000');
  expect(problemOf({ state: 'broken' })).toContain('state: expected `failing` or `working`');
  expect(problemOf({ limits: 1 })).toContain('limits: unknown option; expected one of limit, state');
});
