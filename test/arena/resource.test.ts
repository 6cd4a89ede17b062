import { describe, expect, it } from 'vitest';
import { compareApi } from './resource/compare.ts';
import { API_SCENES } from './resource/scenes/index.ts';
import { type ApiSubject, keep, renew } from './resource/subjects.ts';

const SEED = Number(process.env.SEED ?? 1);

const named = (name: string) => {
  const scene = Object.values(API_SCENES)
    .flat()
    .find((each) => each.name === name);
  if (!scene) throw new Error(`there is no scene ${name}`);
  return scene;
};

describe.each(Object.entries(API_SCENES))('%s', (_heading, scenes) => {
  it.each(scenes)(
    'no owner is served less than by a client that keeps, or renews, its tokens: $name',
    async (scene) => {
      const { worse } = await compareApi(scene, SEED);
      expect(worse, `replay: SEED=${SEED} npm run arena -- resource '${scene.name}'`).toEqual([]);
    },
  );
});

describe('the judge of the resource scenes', () => {
  const worseOf = async (name: string, subject: ApiSubject) =>
    (await compareApi(named(name), 1, subject)).worse.join('\n');

  it('has no two scenes of one name', () => {
    const names = Object.values(API_SCENES).flatMap((scenes) => scenes.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
  });

  it('notices that dead tokens are kept, and that owners are never served again', async () => {
    const worse = await worseOf('all tokens revoked, the token service takes 2 s', keep);
    expect(worse).toMatch(/% served .*; renew/);
    expect(worse).toMatch(/the last owner is served [\d.]+ s after the fault, at most/);
  });

  it('notices that an outage of the API costs a token request at each call', async () => {
    const scene = '401 for all: 5 min, life 600 s, a call each 5 s';
    expect(await worseOf(scene, renew)).toMatch(/token requests during the outage, at most/);
  });

  it('notices calls that are made more than twice', async () => {
    const thrice: ApiSubject = {
      name: 'thrice',
      create: (tools) => {
        const { call } = keep.create(tools);
        const again = async (key: string, route: string, left: number): Promise<number> => {
          const status = await call(key, route);
          return status === 401 && left > 0 ? again(key, route, left - 1) : status;
        };
        return { call: (key, route) => again(key, route, 2) };
      },
    };
    expect(await worseOf('401 for all: 20 s, life 600 s, a call each 0.5 s', thrice)).toMatch(
      /calls of the API, at most/,
    );
  });
});
