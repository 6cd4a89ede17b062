import { expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import type { OwnerTokenRegistry } from '../../src/index.ts';
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
  const withoutService = { sinceMs: failedFirstMs, failedAtMs: failedFirstMs + 1_000, hasLapsed: false };
  expect(registry.owners()).toEqual([{ owner: 'OWNER 1', ...state, issuedAtMs: startMs, failure, withoutService }]);
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

it('the list of owners shows owners whose tokens the API rejects apart, since the first token that was kept', async () => {
  const { registry, clock } = withDead();
  const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
  expect([await rejectNext(), await rejectNext()]).toEqual([true, false]);
  const sinceMs = clock.now();
  const token = registry.peek('key-1');
  const untilMs = sinceMs + 10_000;
  for (const state of ['failing', 'working'] as const) expect(registry.owners({ state })).toEqual([]);
  expect(registry.stats().pauses).toEqual({ owners: 0, rejected: { owners: 1, sinceMs } });
  const [report] = registry.owners({ state: 'rejected' });
  expect(registry.owners()).toEqual([report]);
  expect(report).toMatchObject({
    phase: 'fresh',
    code: 'token_rejected',
    retryAtMs: untilMs,
    failure: { code: 'token_rejected', failures: 1, sinceMs },
  });
  clock.advance(10_000);
  expect([registry.reject('key-1', token as AccessToken), await rejectNext()]).toEqual([true, false]);
  expect(registry.owners()[0]?.failure).toMatchObject({ failures: 2, sinceMs, retryAtMs: untilMs + 20_000 });
  expect(registry.stats().pauses.rejected).toEqual({ owners: 1, sinceMs });
  registry.accept('key-1', registry.peek('key-1') as AccessToken);
  expect(registry.stats().pauses).toEqual({ owners: 0 });
  expect(registry.owners({ state: 'rejected' })).toEqual([]);
  expect(registry.owners({ state: 'working' })).toMatchObject([{ owner: 'OWNER 1' }]);
});

it('an owner whose tokens the API rejects and whose next request fails counts as both, and is listed once', async () => {
  const { registry, clock, source } = withDead();
  await registry.getToken('key-2');
  const rejectNext = async () => registry.reject('key-1', await registry.getToken('key-1'));
  await rejectNext();
  await rejectNext();
  clock.advance(10_000);
  source.script((call) => call.fail(refused()));
  await rejectNext();
  await registry.getToken('key-1');
  expect(registry.stats().pauses).toMatchObject({ owners: 1, rejected: { owners: 1 } });
  const names = (state?: 'failing' | 'rejected' | 'working') => registry.owners({ state }).map(({ owner }) => owner);
  expect([names(), names('failing'), names('rejected'), names('working')]).toEqual([
    ['OWNER 1', 'OWNER 2'],
    ['OWNER 1'],
    ['OWNER 1'],
    ['OWNER 2'],
  ]);
});

it.each<[string, (registry: OwnerTokenRegistry) => unknown]>([
  ['that are resumed', (registry) => registry.resume()],
  ['one of which is resumed', (registry) => registry.resume('key-1')],
  ['that are forgotten', (registry) => registry.forgetAll()],
  ['one of which is forgotten', (registry) => registry.forget('key-1')],
  ['one of which is evicted', (registry) => registry.getToken('key-3')],
])('owners whose tokens the API rejects, %s, no longer count', async (what, end) => {
  const { registry, clock } = scripted({ maxOwners: 2 }, ScriptedSource.answering());
  for (const accessKey of ['key-1', 'key-2', 'key-1', 'key-2']) {
    registry.reject(accessKey, await registry.getToken(accessKey));
  }
  expect(registry.stats().pauses.rejected?.owners).toBe(2);
  await end(registry);
  const left = what.startsWith('one') ? 1 : 0;
  expect(registry.stats().pauses.rejected?.owners ?? 0).toBe(left);
  await settle();
  clock.advance(1);
  expect([registry.stats().pauses.rejected?.owners ?? 0, registry.owners({ state: 'rejected' }).length]).toEqual([
    left,
    left,
  ]);
});

it('`resume` ends the count of an owner whose token is being replaced for the second time', async () => {
  const { registry, clock } = scripted({}, ScriptedSource.answering());
  const reject = async () => registry.reject('key-1', await registry.getToken('key-1'));
  await reject();
  await reject();
  clock.advance(10_000);
  await reject();
  expect(registry.stats().pauses.rejected?.owners).toBe(1);
  registry.resume('key-1');
  expect(registry.stats().pauses).toEqual({ owners: 0 });
});

it('an owner whose tokens the API rejects counts until a call is accepted, also after the time of the kept token', async () => {
  const { registry, clock, source } = scripted({}, ScriptedSource.answering());
  const token = async () => registry.getToken('key-1');
  registry.reject('key-1', await token());
  registry.reject('key-1', await token());
  for (const ms of [999, 9_000, 1, 60_000]) {
    clock.advance(ms);
    expect([registry.stats().pauses.rejected?.owners, registry.owners({ state: 'rejected' }).length]).toEqual([1, 1]);
  }
  registry.reject('key-1', await token());
  const third = await token();
  expect([source.calls.length, registry.stats().pauses.rejected?.owners]).toEqual([3, 1]);
  registry.accept('key-1', third);
  expect([registry.stats().pauses, registry.owners({ state: 'working' }).length]).toEqual([{ owners: 0 }, 1]);
});

it('an owner whose trial failed has been failing only since that trial: the outage before it is the circuit’s', async () => {
  const { registry, clock, source } = scripted();
  const down = { failureScope: 'endpoint', retryAfterMs: 2_000 } as const;
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down', down)));
  await errorOf(registry.getToken('key-1'));
  clock.advance(2_000);
  await errorOf(registry.getToken('key-2'));
  const failedAtMs = clock.now();
  expect(registry.owners({ state: 'failing' })).toMatchObject([
    { failure: { code: 'endpoint_unavailable', failures: 1, sinceMs: failedAtMs, failedAtMs } },
  ]);
});

it('the list of owners takes time in proportion to its length: no other owner is fingerprinted', async () => {
  let named = 0;
  const ownerLabel = (accessKey: string) => `label ${++named} of ${accessKey.length}`;
  const { registry } = scripted({ ownerLabel }, ScriptedSource.answering());
  for (const accessKey of keys(500)) await registry.getToken(accessKey);
  // A view that records, in a test before this one, names the owner of each request.
  const before = named;
  expect(registry.owners({ limit: 5 })).toHaveLength(5);
  expect(named - before).toBeLessThanOrEqual(5);
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
  expect(problemOf({ state: 'broken' })).toContain('state: expected `failing`, `rejected` or `working`');
  expect(problemOf({ limits: 1 })).toContain('limits: unknown option; expected one of limit, state');
});
