import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint } from '../../../src/index.ts';
import { type Sandbox, SCENARIOS, type ScenarioName, startSandbox } from '../../../src/sandbox/index.ts';
import { settle } from '../../helpers/manual-clock.ts';
import { askToken, call } from '../client.ts';

/** Our own registry goes through each scenario, and the ledger shows what the picture must show. */

let sandbox: Sandbox;
let registry: OwnerTokenRegistry;
let secret: string;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 40, lifetimeSeconds: 600 });
  sandbox.clock.freeze();
  secret = sandbox.clientSecret;
  const { url: baseUrl, clientId, clock } = sandbox;
  const source = new TokenEndpoint({ baseUrl, clientId, clientSecret: () => secret, clock });
  registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5 });
});

afterEach(async () => {
  await registry.close({ timeoutMs: 0 });
  await sandbox.close();
});

const asked = () => sandbox.ledger.count({ kind: 'token' });

/** The error codes of calls for these owners, or `ok`, counted. */
async function outcomes(accessKeys: string[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const all = accessKeys.map((key) =>
    registry.getToken(key).then(
      () => 'ok',
      (error: { code: string }) => error.code,
    ),
  );
  for (const outcome of await Promise.all(all)) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

/** The same, where the registry has learned a rate: time passes whenever all requests wait for it. */
async function pacedOutcomes(accessKeys: string[]): Promise<Record<string, number>> {
  let counts: Record<string, number> | undefined;
  void outcomes(accessKeys).then((outcome) => {
    counts = outcome;
  });
  await until(() => {
    const { inFlight, queued } = registry.stats();
    if (inFlight === 0 && queued > 0) sandbox.clock.advance(100);
    return counts !== undefined;
  });
  return counts ?? {};
}

async function until(holds: () => boolean): Promise<void> {
  for (let round = 0; !holds(); round++) {
    if (round > 5000) throw new Error('it never came to be');
    await settle();
  }
}

describe('a scenario, with our own registry', () => {
  it('cold-start: one request for each of 200 owners, none wasted', async () => {
    sandbox.runScenario('cold-start');
    const keys = sandbox.accessKeys;
    expect(keys).toHaveLength(200);
    expect(await outcomes([...keys, ...keys, ...keys])).toEqual({ ok: 600 });
    expect(sandbox.ledger.summary()).toEqual({ total: 200, wasted: 0, ownersServed: 200, byOutcome: { issued: 200 } });
  });

  it('mass-expiry: one request for each owner, not for each call', async () => {
    const keys = sandbox.accessKeys;
    await outcomes(keys);
    sandbox.runScenario('mass-expiry');
    expect(await outcomes([...keys, ...keys, ...keys])).toEqual({ ok: 120 });
    expect([asked(), sandbox.ledger.wasted]).toEqual([80, 0]);
  });

  it('outage: held tokens go on, nothing gets through, and then all is well without a stampede', async () => {
    const [held = '', ...cold] = sandbox.accessKeys;
    await outcomes([held]);
    const run = sandbox.runScenario('outage');
    expect(run.endsAtMs).toBe(sandbox.clock.now() + 30_000);
    expect(await outcomes([held, ...cold])).toEqual({ ok: 1, endpoint_unavailable: cold.length });
    expect(asked()).toBe(1);
    sandbox.clock.advance(30_000);
    expect(await outcomes([held])).toEqual({ ok: 1 });
    sandbox.clock.advance(30_000);
    expect(await outcomes(cold.slice(0, 1))).toEqual({ ok: 1 });
    expect(await outcomes(cold)).toEqual({ ok: cold.length });
    expect([asked(), sandbox.ledger.wasted]).toEqual([40, 0]);
  });

  it('rate-limit-storm: after the first refusals it waits as long as it is told', async () => {
    const run = sandbox.runScenario('rate-limit-storm');
    const keys = sandbox.accessKeys;
    const first = await outcomes(keys);
    expect(first.ok).toBe(10);
    const limited = sandbox.ledger.count({ outcome: 'rate_limited' });
    expect(limited).toBeGreaterThan(0);
    expect(limited).toBeLessThan(keys.length - 10);
    await outcomes(keys);
    expect(asked()).toBe(10 + limited);
    while (sandbox.clock.now() < (run.endsAtMs ?? 0) + 60_000) {
      sandbox.clock.advance(5000);
      await pacedOutcomes(keys);
    }
    expect(await pacedOutcomes(keys)).toEqual({ ok: 40 });
    expect(sandbox.ledger.summary()).toMatchObject({ ownersServed: 40, wasted: 0 });
  });

  it('owner-revoked: this owner fails alone, and rarely', async () => {
    const keys = sandbox.accessKeys;
    const [revoked = ''] = keys;
    await outcomes(keys);
    const { owner } = sandbox.runScenario('owner-revoked');
    expect(owner).toBe(sandbox.ownerOf(revoked));
    const fetched = await registry
      .ownerFetch(revoked)(`${sandbox.url}/echo`)
      .catch((error: { code: string }) => error.code);
    expect(fetched).toBe('owner_refused');
    for (let second = 0; second < 60; second++) {
      sandbox.clock.advance(1000);
      await outcomes(keys);
    }
    expect(sandbox.ledger.count({ outcome: 'refused', owner: owner ?? '' })).toBeLessThanOrEqual(8);
    expect(sandbox.ledger.count({ outcome: 'refused' })).toBe(
      sandbox.ledger.count({ outcome: 'refused', owner: owner ?? '' }),
    );
    expect(await outcomes(keys.slice(1))).toEqual({ ok: 39 });
  });

  it('secret-rotated: all stop at the first refusal, and go on with the new secret', async () => {
    const [held = '', first = '', ...cold] = sandbox.accessKeys;
    await outcomes([held]);
    sandbox.runScenario('secret-rotated');
    expect(await outcomes([first])).toEqual({ client_refused: 1 });
    expect(await outcomes([held, ...cold])).toEqual({ ok: 1, client_refused: cold.length });
    expect(sandbox.ledger.count({ outcome: 'refused' })).toBe(1);
    secret = sandbox.clientSecret;
    registry.resume();
    expect(await outcomes(cold)).toEqual({ ok: cold.length });
  });

  it('black-hole: it gives up in time, keeps few waiting, and recovers', async () => {
    const run = sandbox.runScenario('black-hole');
    const keys = sandbox.accessKeys;
    const calls = outcomes(keys);
    let over = false;
    void calls.then(() => {
      over = true;
    });
    await until(() => sandbox.ledger.count({ outcome: 'socket_fault' }) > 0);
    await settle();
    expect(sandbox.ledger.count({ outcome: 'socket_fault' })).toBeLessThanOrEqual(16);
    while (!over) {
      sandbox.clock.advance(1000);
      await settle();
    }
    expect(Object.keys(await calls)).not.toContain('ok');
    sandbox.clock.advance(Math.max(0, (run.endsAtMs ?? 0) - sandbox.clock.now()) + 60_000);
    expect(await outcomes(keys.slice(0, 1))).toEqual({ ok: 1 });
    expect(await outcomes(keys)).toEqual({ ok: 40 });
  });

  it("wrong-owner-token: shown by the echo resource, whoever's token it is", async () => {
    const { owner = '' } = sandbox.runScenario('wrong-owner-token');
    const mine = sandbox.owners.find(({ id }) => id === owner);
    const token = await registry.getToken(mine?.accessKey ?? '');
    const headers = { authorization: token.authorization, 'x-expected-owner': owner };
    const reply = await call(`${sandbox.url}/echo`, { headers });
    expect(reply.json.wrongOwner).toBe(true);
    expect(sandbox.ledger.count({ kind: 'token', outcome: 'wrong_owner' })).toBe(1);
    expect(sandbox.ledger.count({ kind: 'echo', outcome: 'wrong_owner' })).toBe(1);
  });
});

describe('scenarios', () => {
  const ask = (method: string, path: string) => {
    const written = { headers: { 'content-type': 'application/json' }, body: '{}' };
    return call(`${sandbox.portalUrl}${path}`, { method, ...(method === 'POST' && written) });
  };

  it.each(SCENARIOS.map(({ name }) => name))(
    '%s is one request away, and ends without trace of a fault',
    async (name) => {
      const { status, json } = await ask('POST', `/api/scenarios/${name}`);
      expect([status, json.name]).toEqual([200, name]);
      expect((await ask('GET', '/api/state')).json.scenario).toEqual(json);
      expect((await ask('DELETE', '/api/scenarios')).json).toEqual({ ended: true });
      expect((await ask('DELETE', '/api/scenarios')).json).toEqual({ ended: false });
      expect(sandbox.faults.list()).toEqual([]);
      expect((await askToken(sandbox, sandbox.accessKeys[1])).status).toBe(200);
    },
  );

  it('end by themselves, and by the next one', async () => {
    sandbox.runScenario('black-hole');
    sandbox.runScenario('rate-limit-storm');
    expect(sandbox.faults.list()).toHaveLength(1);
    sandbox.clock.advance(59_999);
    expect(sandbox.faults.list()).toHaveLength(1);
    sandbox.clock.advance(1);
    expect(sandbox.faults.list()).toEqual([]);
    expect(sandbox.stopScenario()).toBe(false);
  });

  it('leave the faults alone that are not theirs', () => {
    const id = sandbox.faults.add({ kind: 'latency', ms: 1 });
    sandbox.runScenario('outage');
    sandbox.stopScenario();
    expect(sandbox.faults.list().map((fault) => fault.id)).toEqual([id]);
  });

  it('that do not exist are refused with those that do, and owners too', async () => {
    expect(() => sandbox.runScenario('nothing' as ScenarioName)).toThrow(/cold-start, mass-expiry/);
    expect(() => sandbox.runScenario('owner-revoked', { owner: 'nobody' })).toThrow('nobody');
    expect((await ask('POST', '/api/scenarios/nothing')).status).toBe(404);
  });
});
