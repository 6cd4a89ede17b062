import { afterEach, beforeEach, expect, it } from 'vitest';
import type { CredentialsView, StateView } from '../../../src/sandbox/control/shapes.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/index.ts';
import { askToken } from '../client.ts';

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ seed: 1, owners: 3, lifetimeSeconds: 60 });
  sandbox.clock.freeze();
});

afterEach(() => sandbox.close());

const get = async <T>(path: string) => (await (await fetch(`${sandbox.portalUrl}${path}`)).json()) as T;

/** One request a minute for each owner in turn. */
async function threeMinutes(): Promise<number> {
  const startMs = sandbox.clock.now();
  for (const key of sandbox.accessKeys) {
    await askToken(sandbox, key);
    sandbox.clock.advance(60_000);
  }
  return startMs;
}

it('a picture of the past has the marks, tokens, seconds and requests of its window alone', async () => {
  const startMs = await threeMinutes();
  const until = startMs + 90_000;
  const picture = (await get<StateView>(`/api/state?windowMs=60000&untilMs=${until}`)).picture;
  expect(picture.lanes.map(({ marks }) => marks)).toEqual([[], [[2, startMs + 60_000, 0]], []]);
  expect(picture.lanes.map(({ tokens }) => tokens.length)).toEqual([1, 1, 0]);
  expect(picture.seconds.map(([second]) => second)).toEqual([Math.floor((startMs + 60_000) / 1000)]);
  expect(picture.requests?.map(({ id }) => id)).toEqual([2]);
});

it('a picture of the past has the requests that are named, in or outside its window, and none that is unknown', async () => {
  const startMs = await threeMinutes();
  const picture = (await get<StateView>(`/api/state?windowMs=1000&untilMs=${startMs}&requests=3,1,99,x`)).picture;
  expect(picture.requests?.map(({ id }) => id)).toEqual([1, 3]);
});

it('a picture of the present has no requests of its own', async () => {
  await threeMinutes();
  expect((await get<StateView>('/api/state')).picture).not.toHaveProperty('requests');
});

it('the figures count the owners that a token was requested for, served or not', async () => {
  sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
  await askToken(sandbox, sandbox.accessKeys[0]);
  await askToken(sandbox, sandbox.accessKeys[1]);
  await askToken(sandbox, 'unknown');
  expect((await get<StateView>('/api/state')).figures).toMatchObject({ owners: 3, ownersAsked: 2, ownersCovered: 1 });
});

it('the settings of an integration have dots for secrets until they are asked for, and the same lines', async () => {
  const { env: hidden } = await get<StateView>('/api/state');
  const { env } = await get<CredentialsView>('/api/credentials');
  const namesOf = (text: string) => [...text.matchAll(/^\w+(?==)/gm)].map(([name]) => name);
  expect(namesOf(hidden)).toEqual(namesOf(env));
  expect(hidden.match(/•{16}/g)).toHaveLength(4);
  expect(env).toBe(sandbox.env);
});
