/** The arena itself: what it plays is reproducible, and its judge notices what it is there for. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { MIN } from '../world/setting.ts';
import { compare } from './compare.ts';
import { WORSE } from './judge.ts';
import { play } from './play.ts';
import { randomWorld } from './random/index.ts';
import type { Scene } from './scene.ts';
import { SCENES } from './scenes/index.ts';
import { breaker, type Client, plain, registry, type Subject } from './subjects.ts';

const named = (name: string): Scene => {
  const scene = Object.values(SCENES)
    .flat()
    .find((each) => each.name === name);
  if (!scene) throw new Error(`there is no scene ${name}`);
  return scene;
};

/** Plain, with a part of it changed. */
const changed = (name: string, change: (client: Client) => Partial<Client>): Subject => ({
  name,
  create: async (tools) => {
    const client = await plain.create(tools);
    return { ...client, ...change(client) };
  },
});

describe('the arena', () => {
  it('plays the same run for the same seed', async () => {
    const scene = { ...randomWorld(3), minutes: 3 };
    const first = await play(scene, registry, 3);
    expect(first.calls).toBeGreaterThan(100);
    expect(await play(scene, registry, 3)).toEqual(first);
  });

  it('gives every scene a name of its own', () => {
    const names = Object.values(SCENES).flatMap((scenes) => scenes.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
  });

  it('has a page whose totals match its rows', () => {
    const page = readFileSync('docs/internals/arena.md', 'utf8');
    const [, count, totals = ''] = /^Of (\d+) scenes .* against plain for (.*)\.$/m.exec(page) ?? [];
    const scenes = Object.values(SCENES).flat();
    const judged = scenes.filter(({ informative }) => !informative);
    const rows = page.split('\n').filter((line) => judged.some(({ name }) => line.startsWith(`| ${name} |`)));
    const columns = ['registry', 'plain', 'breaker', 'openid-client', 'badgateway'];
    const held = columns.map((_, at) => rows.filter((row) => !row.split('|')[at + 2]?.includes(WORSE)).length);
    expect(rows).toHaveLength(judged.length);
    expect(Number(count)).toBe(rows.length);
    expect(totals).toBe(columns.map((name, at) => `${name} in ${held[at]}`).join(', '));
  });

  it('leaves the clock of the process as it was', async () => {
    const { now } = Date;
    await play({ name: 'one call', minutes: 1, tenants: [{ name: 'tenants', count: 1, burstMs: 0 }] }, plain, 1);
    expect(Date.now).toBe(now);
  });
});

describe('the judge', () => {
  it('finds nothing worse in the same client', async () => {
    const { worse } = await compare({ ...named('one tenant: 429'), minutes: 3 }, 1, plain);
    expect(worse).toEqual([]);
  });

  it('notices that a circuit breaker refuses healthy tenants because of a failing one', async () => {
    const { worse } = await compare(named('one tenant: 429'), 1, breaker);
    expect(worse).toEqual([
      expect.stringMatching(/% in time \(late \d+, refused \d+\); plain: 100.0 %/),
      expect.stringMatching(/\d+ of \d+ owners never served in time; plain: 0/),
    ]);
  });

  it('notices that tenants wait', async () => {
    const slow: Subject = {
      name: 'slow',
      create: async (tools) => {
        const client = await plain.create(tools);
        const wait = () => new Promise<void>((resolve) => void tools.clock.setTimeout(resolve, 3_000));
        return { ...client, getToken: (key) => wait().then(() => client.getToken(key)) };
      },
    };
    const { worse } = await compare({ ...named('one tenant: 405'), minutes: 2, lateMs: 3_500 }, 1, slow);
    expect(worse).toEqual([]);
    const { worse: tooLate } = await compare({ ...named('one tenant: 405'), minutes: 2 }, 1, slow);
    expect(tooLate).toContainEqual(expect.stringContaining('p99 3'));
  });

  it('notices that a service that is down for minutes gets as many requests as one that is up', async () => {
    const { worse } = await compare(named('full outage of 10 min, 503, tokens of an hour, newcomers'), 1, plain);
    expect(worse).toEqual([expect.stringMatching(/unwanted requests \(outage\)/)]);
  });

  it('notices calls that never end', async () => {
    const mute = changed('mute', () => ({ getToken: () => new Promise<string>(() => {}) }));
    const { worse } = await compare({ ...named('one tenant: 405'), minutes: 1 }, 1, mute);
    expect(worse).toContainEqual(expect.stringMatching(/^\d+ calls never ended$/));
  });

  it('does not count calls that were made while nobody could be served', async () => {
    const scene = named('outage: names do not resolve for 30 s');
    const { run } = await compare({ ...scene, uncounted: [[0, scene.minutes * MIN]] }, 1, plain);
    expect(run.calls).toBe(0);
  });
});
