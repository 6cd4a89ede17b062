/** How often a call reads its owner's record, and what it does when Redis does not answer. */

import { describe, expect, it } from 'vitest';
import { settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica, requestOf } from '../helpers/model-fleet.ts';

const KEY = 'ACCESS-KEY-1';

const answersWarm = () => new FleetSource((call) => void (call.accessKey === 'warm' && call.succeed()));

/** A replica's first call subscribes and announces the replica. */
async function warm(replicas: ModelReplica[]): Promise<void> {
  for (const { shared } of replicas) await shared.requestToken('warm', requestOf());
}

/** A fleet whose operations are recorded by name. */
function recorded(fleet = new ModelFleet(answersWarm())) {
  const sent: string[] = [];
  const { run } = fleet.model;
  fleet.model.run = (name, key, args) => {
    sent.push(name);
    return run.call(fleet.model, name, key, args);
  };
  const countOf = (name: string) => sent.filter((each) => each === name).length;
  return { fleet, sent, countOf };
}

describe('the election', () => {
  it.each([50, 3_000])('a follower of a request that takes %i ms acquires twice', async (requestMs) => {
    const { fleet, sent, countOf } = recorded();
    const all = Array.from({ length: 5 }, () => fleet.replica());
    await warm(all);
    sent.length = 0;
    const calls = all.map(({ shared }) => shared.requestToken(KEY, requestOf()));
    await fleet.pass(requestMs, 10);
    fleet.source.call(1).succeed();
    await Promise.all(calls);
    expect(countOf('acquire')).toBe(1 + 2 * 4);
    expect(fleet.source.countFor(KEY)).toBe(1);
  });

  it('a cold owner takes two scripts, and a shared one takes one', async () => {
    const { fleet, sent } = recorded(new ModelFleet());
    const [first, second] = [fleet.replica(), fleet.replica()];
    await warm([first, second]);
    sent.length = 0;
    await first.shared.requestToken(KEY, requestOf());
    expect(sent).toEqual(['acquire', 'publish']);
    await second.shared.requestToken(KEY, requestOf());
    expect(sent).toEqual(['acquire', 'publish', 'acquire']);
  });

  it('followers whose leader vanished read the record again one after another, and one of them leads', async () => {
    const { fleet, countOf } = recorded();
    let draw = 0;
    const followers = Array.from({ length: 4 }, () => fleet.replica({ random: () => (draw++ % 8) / 8 }));
    const leader = fleet.replica();
    await warm([leader, ...followers]);
    void leader.shared.requestToken(KEY, requestOf());
    await settle();
    leader.health = 'hung';
    const calls = followers.map(({ shared }) => shared.requestToken(KEY, requestOf()));
    await fleet.pass(2_990, 10);
    const before = countOf('acquire');
    await fleet.pass(60, 1);
    expect(fleet.source.countFor(KEY)).toBe(2);
    // One each; the new leader's first request also reads the circuit, and the record again.
    expect(countOf('acquire') - before).toBe(followers.length + 2);
    fleet.source.calls.at(-1)?.succeed();
    await Promise.all(calls);
    expect(fleet.source.countFor(KEY)).toBe(2);
  });

  it('an overloaded Redis is asked less and less often, and by one call at a time', async () => {
    const { fleet } = recorded(new ModelFleet());
    const { shared } = fleet.replica();
    await shared.requestToken('warm', requestOf());
    let asked = 0;
    const { run } = fleet.model;
    const overloaded = fleet.replica({
      redis: {
        run: async (script, key, args) => {
          asked++;
          await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, 5_600));
          return run.call(fleet.model, script.name, key, args);
        },
      },
    });
    let owner = 0;
    const askedIn = async (ms: number) => {
      const before = asked;
      for (let elapsedMs = 0; elapsedMs < ms; elapsedMs += 100) {
        for (let call = 0; call < 5; call++) void overloaded.shared.requestToken(`owner-${owner++}`, requestOf());
        await fleet.pass(100, 50);
      }
      return asked - before;
    };
    await askedIn(1_000);
    const soon = await askedIn(5_000);
    const later = await askedIn(20_000);
    // 50 calls a second come, each of which would read once: by far most of them do not reach Redis.
    expect(soon).toBeLessThanOrEqual(8);
    expect(later).toBeLessThanOrEqual(10);
  });
});
