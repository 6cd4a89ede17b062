/** How often a call reads its owner's record, and what it does when Redis does not answer. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica, requestOf } from '../helpers/model-fleet.ts';

const KEY = 'ACCESS-KEY-1';

const answersWarm = () => new FleetSource((call) => void (call.accessKey.startsWith('warm') && call.succeed()));

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
    await fleet.pass(1, 1);
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
    // One each.
    expect(countOf('acquire') - before).toBe(followers.length);
    fleet.source.calls.at(-1)?.succeed();
    await Promise.all(calls);
    expect(fleet.source.countFor(KEY)).toBe(2);
  });
});

describe('the first call of a replica', () => {
  it('leads while the circuit is read for the first time', async () => {
    const { fleet, sent } = recorded(new ModelFleet());
    await fleet.replica().shared.requestToken(KEY, requestOf());
    // It renews its lease at once, because it does not know how late it asked for it.
    expect(sent).toEqual(['acquire', 'announce', 'acquire', 'renew', 'publish']);
  });

  it.each([
    ['in force', 0, { code: 'endpoint_unavailable' }, 0, 1],
    ['that has ended', 5_000, undefined, 1, 0],
  ])(
    'does not while there is a failure %s, and keeps no lease if it is refused',
    async (_, ms, error, requests, released) => {
      const { fleet, countOf } = recorded();
      const failing = fleet.replica().shared.requestToken('failing', requestOf());
      await settle();
      const down = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', status: 503 });
      fleet.source.call(0).fail(down);
      await expect(failing).rejects.toThrow();
      await fleet.pass(ms);
      const before = countOf('release');
      // The first operation is the read of the circuit.
      let reads = 0;
      const redis = fleet.model.port(async (answer) => {
        if (reads++ === 0) await new Promise(() => {});
        return answer();
      });
      const call = fleet.replica({ redis }).shared.requestToken(KEY, requestOf());
      const refusal = call.then(
        () => undefined,
        (thrown: OwnerTokenError) => ({ code: thrown.code }),
      );
      await fleet.pass(100);
      expect([fleet.source.countFor(KEY), countOf('release') - before]).toEqual([requests, released]);
      fleet.source.calls.at(-1)?.succeed();
      expect(await refusal).toEqual(error);
    },
  );

  it('gives the lease back if it is aborted while it waits for the trial of another replica', async () => {
    const { fleet, countOf } = recorded(new ModelFleet());
    const failing = fleet.replica();
    fleet.source.script((call) =>
      call.fail(new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', status: 503 })),
    );
    await expect(failing.shared.requestToken('failing', requestOf())).rejects.toThrow();
    fleet.source.script(() => {});
    await fleet.pass(5_000);
    void failing.shared.requestToken('trial', requestOf()).catch(() => {});
    await settle();
    expect(fleet.source.countFor('trial')).toBe(1);
    const abort = new AbortController();
    // The first operation is the read of the circuit.
    let reads = 0;
    const redis = fleet.model.port(async (answer) => {
      if (reads++ === 0) await new Promise(() => {});
      return answer();
    });
    const call = fleet.replica({ redis }).shared.requestToken(KEY, requestOf({ signal: abort.signal }));
    await settle();
    const before = countOf('release');
    abort.abort(new Error('no longer wanted'));
    await expect(call).rejects.toThrow('no longer wanted');
    await settle();
    expect(countOf('release') - before).toBe(1);
  });
});

describe('a reply that is late', () => {
  /** A fleet of 20, of which one replica's operations reach Redis at once and are answered when the test says so. */
  async function slow(options: Parameters<ModelFleet['replica']>[0] = {}) {
    const { fleet, sent, countOf } = recorded();
    const replies: (() => void)[] = [];
    let isSlow = false;
    const redis = fleet.model.port(async (answer) => {
      const reply = answer();
      if (isSlow) await new Promise<void>((resolve) => replies.push(resolve));
      return reply;
    });
    const others = Array.from({ length: 19 }, () => fleet.replica());
    // The budget has just begun an interval of 9.5 s, of which the burst covers 4 s.
    const replica = fleet.replica({ redis, random: () => 0, ...options });
    await warm([...others, replica]);
    // Its first request reads the circuit.
    await replica.shared.requestToken('warm itself', requestOf());
    expect(replica.shared.stats().replicas).toBe(20);
    isSlow = true;
    sent.length = 0;
    const reply = async (count = replies.length) => {
      for (const each of replies.splice(0, count)) each();
      await settle();
    };
    return { fleet, sent, countOf, reply, replica, other: others[0] as ModelReplica };
  }

  it('brings the token of another replica, and the call has released its permit meanwhile', async () => {
    const { fleet, reply, replica, other } = await slow();
    const leading = other.shared.requestToken(KEY, requestOf());
    await settle();
    fleet.source.calls.at(-1)?.succeed();
    const permit: string[] = [];
    const call = replica.shared.requestToken(
      KEY,
      requestOf({ permit: { release: () => permit.push('released'), take: async () => void permit.push('taken') } }),
    );
    await fleet.pass(5_000);
    expect(permit).toEqual(['released']);
    await reply();
    expect((await call).token).toBe((await leading).token);
    expect(fleet.source.countFor(KEY)).toBe(1);
    expect(permit).toEqual(['released']);
  });

  it('with the lease makes the replica the leader, which renews it at once and queues for a permit', async () => {
    const { fleet, sent, reply, replica, other } = await slow();
    let grant = () => {};
    const permit = { release: () => {}, take: () => new Promise<void>((resolve) => (grant = resolve)) };
    const call = replica.shared.requestToken(KEY, requestOf({ permit }));
    await fleet.pass(5_000);
    await reply();
    await fleet.pass(1);
    expect(sent).toEqual(['acquire', 'renew']);
    expect(fleet.source.countFor(KEY)).toBe(0);
    const following = other.shared.requestToken(KEY, requestOf());
    grant();
    await settle();
    expect(fleet.source.countFor(KEY)).toBe(1);
    fleet.source.calls.at(-1)?.succeed();
    await fleet.pass(300);
    expect((await following).token).toBe((await call).token);
    expect(replica.shared.stats()).toMatchObject({ leader: 2, fallback: 0 });
  });

  it('that says to wait makes the call a follower', async () => {
    const { fleet, sent, reply, replica, other } = await slow();
    const leading = other.shared.requestToken(KEY, requestOf());
    await settle();
    const call = replica.shared.requestToken(KEY, requestOf());
    await fleet.pass(2_000);
    await reply();
    fleet.source.calls.at(-1)?.succeed();
    await fleet.pass(3_100);
    await reply();
    expect((await call).token).toBe((await leading).token);
    expect(sent.filter((name) => name === 'acquire')).toHaveLength(3);
  });

  it('is waited for by the budget, and a lease that comes afterwards is given back', async () => {
    const { fleet, countOf, reply, replica } = await slow();
    const failing = replica.shared.requestToken(KEY, requestOf()).catch((error: unknown) => error);
    // 0.25 s until the reply is late, and 5.5 s.
    await fleet.pass(5_700);
    expect(fleet.source.countFor(KEY)).toBe(0);
    await fleet.pass(100);
    expect(fleet.source.countFor(KEY)).toBe(1);
    fleet.source.calls.at(-1)?.fail(new Error('no'));
    await failing;
    expect(countOf('release')).toBe(1);
    await reply();
    expect(countOf('release')).toBe(2);
  });

  it('is not waited for longer than maxWaitMs', async () => {
    const { fleet, replica } = await slow({ maxWaitMs: 1_000 });
    void replica.shared.requestToken(KEY, requestOf());
    await fleet.pass(950);
    expect(fleet.source.countFor(KEY)).toBe(0);
    await fleet.pass(100);
    expect(fleet.source.countFor(KEY)).toBe(1);
  });

  it("may take a third longer until the replica's first reply", async () => {
    const { fleet } = recorded();
    const redis = fleet.model.port(() => new Promise(() => {}));
    const replica = fleet.replica({ redis, random: () => 0, maxWaitMs: 1_200 });
    // The first has what the budget gives at once.
    void replica.shared.requestToken('first', requestOf());
    void replica.shared.requestToken(KEY, requestOf());
    await fleet.pass(1_590, 10);
    expect(fleet.source.countFor(KEY)).toBe(0);
    await fleet.pass(20, 10);
    expect(fleet.source.countFor(KEY)).toBe(1);
  });

  it('begins a new wait if the record must be read again', async () => {
    const { fleet, reply, replica, other } = await slow();
    const leading = other.shared.requestToken(KEY, requestOf());
    await settle();
    const call = replica.shared.requestToken(KEY, requestOf());
    await fleet.pass(5_000);
    await reply();
    fleet.source.calls.at(-1)?.succeed();
    // The lease, and as long again as the first wait.
    await fleet.pass(3_100 + 5_000);
    await reply();
    expect((await call).token).toBe((await leading).token);
    expect(fleet.source.countFor(KEY)).toBe(1);
  });

  it("with the lease of the fleet's trial is given back, because the request was sent without it", async () => {
    const { fleet, countOf, reply, replica, other } = await slow();
    const failing = other.shared.requestToken('failing', requestOf()).catch(() => {});
    await settle();
    const down = new OwnerTokenError('endpoint_unavailable', 'down', { failureScope: 'endpoint', status: 503 });
    fleet.source.calls.at(-1)?.fail(down);
    await failing;
    await fleet.pass(5_000);
    const before = countOf('release');
    void replica.shared.requestToken(KEY, requestOf());
    await settle();
    // Free; an ended failure; and the lease of the trial, which is late.
    for (let replies = 0; replies < 2; replies++) await reply();
    await fleet.pass(300);
    // The owner's lease.
    await reply(2);
    expect(fleet.source.countFor(KEY)).toBe(1);
    expect(countOf('release') - before).toBe(1);
  });

  it('is not waited for after the call was aborted, and a lease that it brings is given back', async () => {
    const { fleet, countOf, reply, replica } = await slow();
    const controller = new AbortController();
    const call = replica.shared.requestToken(KEY, requestOf({ signal: controller.signal })).catch((reason) => reason);
    await fleet.pass(1_000);
    controller.abort(new Error('leaving'));
    expect(await call).toEqual(new Error('leaving'));
    expect(fleet.clock.pendingTimers).toBe(0);
    await reply();
    expect(countOf('release')).toBe(1);
  });

  it('with the lease is given back if the call has no send time any more', async () => {
    const { fleet, countOf, reply, replica } = await slow({ requestsPerSecond: 10 });
    const call = replica.shared.requestToken(KEY, requestOf());
    // Free; reserved; and the lease, after the send time has lapsed.
    await reply();
    await reply();
    await fleet.pass(1_000);
    expect(countOf('acquire')).toBe(2);
    await reply();
    expect([countOf('release'), fleet.source.countFor(KEY)]).toEqual([1, 0]);
    await fleet.pass(20_000);
    fleet.source.calls.at(-1)?.succeed();
    await call;
    expect(replica.shared.stats()).toMatchObject({ leader: 1, fallback: 1 });
  });

  it('after errors the record is read again until the budget lets the call fall back, or Redis answers', async () => {
    const { fleet } = recorded();
    let isFailing = false;
    let asked = 0;
    const redis = fleet.model.port(async (answer) => {
      asked++;
      if (isFailing) throw new Error('CLUSTERDOWN The cluster is down');
      return answer();
    });
    const others = Array.from({ length: 19 }, () => fleet.replica());
    const replica = fleet.replica({ redis, random: () => 0 });
    await warm([...others, replica]);
    await replica.shared.requestToken('warm itself', requestOf());
    isFailing = true;
    asked = 0;
    const call = replica.shared.requestToken(KEY, requestOf());
    await fleet.pass(240, 10);
    expect(asked).toBe(1);
    await fleet.pass(200, 10);
    expect(asked).toBe(2);
    isFailing = false;
    await fleet.pass(500, 10);
    expect(fleet.source.countFor(KEY)).toBe(1);
    fleet.source.calls.at(-1)?.succeed();
    await call;
    expect(replica.shared.stats()).toMatchObject({ leader: 2, fallback: 0 });
  });

  it('every call reads a slow Redis once, not again and again', async () => {
    const { fleet, countOf, replica } = await slow();
    for (let call = 0; call < 50; call++) void replica.shared.requestToken(`owner-${call}`, requestOf());
    await fleet.pass(5_000);
    expect(countOf('acquire')).toBe(50);
  });
});
