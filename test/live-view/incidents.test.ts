/** What the live view says in an incident agrees with what each owner's last call got. */

import { describe, expect, it } from 'vitest';
import type { Found } from '../../src/live-view/frames.ts';
import { causeIdOf } from '../../src/live-view/status.ts';
import type { Scene } from '../arena/scene.ts';
import { SCENES } from '../arena/scenes/index.ts';
import { INCIDENTS, type Incident, type LastCall, playIncident, type Stage } from '../helpers/incidents.ts';
import { MIN } from '../world/setting.ts';

/** Scenes in which an incident lasts for minutes, each asked in the middle of it and after it. */
const LONG: Readonly<Record<string, readonly number[]>> = {
  'full outage of 10 min beside 200 dead keys': [13 * MIN, 19 * MIN, 24 * MIN],
  'full outage of 8 min: no answer at all': [9 * MIN, 13 * MIN, 18 * MIN],
  'maintenance: 503 for all, Retry-After 3600, back after 2 min': [21 * MIN, 40 * MIN],
};

const scenes = Object.values(SCENES)
  .flat()
  .filter((scene: Scene) => LONG[scene.name])
  .map((scene) => ({ ...scene, askedAtMs: LONG[scene.name] as readonly number[] }));

/** What contradicts an owner's last call, unless its token has ended or was renewed since. */
function contradiction(last: LastCall, isServed: boolean, issuedAtMs: number, nowMs: number): string | undefined {
  if (last.code === undefined) {
    const hasEnded = last.expiresAtMs <= nowMs;
    return isServed || hasEnded ? undefined : 'its call got a token, and the view says that it cannot be served';
  }
  // Once the queue is short, what it did to a call a while ago says nothing of the next one.
  if (last.code === 'queue_timeout' && nowMs - last.endedAtMs >= 30_000) return undefined;
  const isRenewed = isServed && issuedAtMs + 1_000 >= last.endedAtMs;
  return isServed && !isRenewed ? `its call failed (${last.code}), and the view says that it is served` : undefined;
}

async function search({ view }: Stage, body: object): Promise<Found> {
  const headers = { 'content-type': 'application/json' };
  const init = { method: 'POST', headers, body: JSON.stringify(body) };
  return (await (await view.fetch(new Request('http://host/search', init))).json()) as Found;
}

/** Everything that the view says of each owner, beside its last call. */
async function judge(stage: Stage): Promise<void> {
  const { registry, view, last, time } = stage;
  const [status] = await view.status();
  const { pauses } = registry.stats();
  const wrong: string[] = [];
  const byCause = new Map<string, number>();
  let [known, unserved] = [0, 0];
  for (const owner of registry.eachOwner()) {
    known++;
    const cause = causeIdOf(owner, pauses);
    const isServed = owner.expiresAtMs !== undefined || cause === undefined;
    if (cause !== undefined) byCause.set(cause, (byCause.get(cause) ?? 0) + 1);
    if (!isServed) unserved++;
    const call = last.get(owner.owner);
    const found = call && contradiction(call, isServed, owner.issuedAtMs ?? 0, time.now());
    if (found) wrong.push(`${owner.owner}: ${found}`);
  }
  expect(wrong).toEqual([]);
  expect([status?.known, status?.unserved]).toEqual([known, unserved]);
  for (const { id, owners } of status?.causes ?? []) {
    expect([id, owners]).toEqual([id, byCause.get(id) ?? 0]);
    expect((await search(stage, { cause: id })).total.default).toBe(owners);
  }
  const [name = ''] = last.keys();
  expect((await search(stage, { text: name })).owners.default?.map(({ owner }) => owner)).toContain(name);
}

/** What the view begins with, for a log. */
const SENTENCES: Readonly<Record<keyof typeof INCIDENTS, RegExp>> = {
  'the service is down, and all tokens have ended':
    /^The endpoint has failed since 00:03:00 UTC \(503\)\. 1,200 of 1,200 owners cannot be served\. Next attempt at 00:07:\d\d UTC\.$/,
  'the service is down, and tokens are left':
    /^The endpoint has failed since 00:11:00 UTC \(503\)\. All 1,200 known owners are served from cached tokens\. Next .* If this continues, the first owner loses service at 00:1\d:\d\d UTC, half of all by 00:1\d:\d\d UTC\.$/,
  'the client secret is wrong':
    /^The token service has refused this client since 00:03:00 UTC \(401\)\. \d{3} of 1,200 owners cannot be served\./,
  'a storm of 429s':
    /^\d{3} owners cannot be served: .*\d+ × timed out in the queue since [\d:]+ UTC.*; the others are served, with delays of up to \d+ s: token requests are limited to [\d.]+ per second\.$/,
  'one owner in ten is on a shard that answers 503':
    /^120 owners cannot be served: 503 since 00:03:0\d UTC; the others are served\.$/,
  'a few keys are dead': /^7 owners cannot be served: refused \(400\) since 00:01:\d\d UTC; the others are served\.$/,
};

describe('in an incident', () => {
  it.each<[string, Incident, RegExp]>([
    ...Object.entries(INCIDENTS).map(([name, incident]): [string, Incident, RegExp] => {
      return [name, incident, SENTENCES[name as keyof typeof INCIDENTS]];
    }),
    ...scenes.map((scene): [string, Incident, RegExp] => [scene.name, scene, /\.$/]),
  ])(
    'the live view shows each owner’s last outcome, counts the causes, and finds the owner: %s',
    async (_, incident, sentence) => {
      expect.hasAssertions();
      await playIncident(incident, async (stage) => {
        await judge(stage);
        expect((await stage.view.status())[0]?.sentence).toMatch(sentence);
      });
    },
  );
});
