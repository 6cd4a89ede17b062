import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, type ScenarioName, startSandbox, type Verdict } from '../../../src/sandbox/index.ts';
import { askToken, call, echo } from '../client.ts';

/** Integrations of a kind, driven by hand: each finding passes for one that behaves, and fails for one that does not. */

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 40, lifetimeSeconds: 600 });
  sandbox.clock.freeze();
});

afterEach(() => sandbox.close());

/** Runs a scenario to its end on the virtual clock, while `drive` plays the integration. */
async function verdictOf(name: ScenarioName, drive: () => Promise<unknown>): Promise<Verdict> {
  const verdict = sandbox.scenarios.run(name);
  await drive();
  sandbox.clock.advance(120_000);
  return verdict;
}

const failedOf = ({ findings }: Verdict) => findings.filter(({ passed }) => !passed).map((one) => one.expectation);
const ask = (key = sandbox.accessKeys[0]) => askToken(sandbox, key);
const ignored = (promise: Promise<unknown>) => promise.catch(() => {});

describe('a verdict', () => {
  it.each(['cold-start', 'mass-expiry', 'outage', 'rate-limit-storm', 'owner-revoked', 'secret-rotated'] as const)(
    'of %s is not passed without a token request, and says so',
    async (name) => {
      expect(await verdictOf(name, async () => {})).toEqual({
        passed: false,
        findings: [{ expectation: 'Sends token requests during the run', observed: 'no requests', passed: false }],
      });
    },
  );

  it('of a cold start fails a needless request and a duplicate, and passes one request for each owner', async () => {
    const good = async () => {
      for (const key of sandbox.accessKeys.slice(0, 5)) await ask(key);
    };
    expect(await verdictOf('cold-start', good)).toMatchObject({ passed: true });
    const bad = async () => {
      await good();
      await ask();
    };
    const verdict = await verdictOf('cold-start', bad);
    expect(failedOf(verdict)).toEqual(['Does not request a token for an owner that already has a valid one']);
    expect(verdict.findings[1]?.observed).toBe('1 wasted request');
    sandbox.faults.add({ kind: 'latency', ms: 1000 });
    const twice = await verdictOf('cold-start', async () => {
      const both = [ignored(ask()), ignored(ask())];
      while (sandbox.ledger.count({ outcome: 'pending' }) < 2) await new Promise((resolve) => setImmediate(resolve));
      sandbox.clock.advance(1000);
      await Promise.all(both);
    });
    expect(failedOf(twice)).toContain('Has at most one token request in flight for each owner');
  });

  it('of an outage fails who never comes back', async () => {
    const recovers = async () => {
      await ignored(ask());
      sandbox.clock.advance(30_000);
      expect((await ask()).status).toBe(200);
    };
    expect(await verdictOf('outage', recovers)).toMatchObject({ passed: true });
    sandbox.faults.add({ kind: 'status', status: 503 });
    const verdict = await verdictOf('outage', async () => {
      sandbox.clock.advance(30_000);
      await ask();
    });
    expect(failedOf(verdict)).toContain('Gets a token again once the service is back');
  });

  it('of a rate-limit storm fails who does not wait', async () => {
    const storm = async () => {
      for (const key of sandbox.accessKeys.slice(0, 11)) await ask(key);
    };
    expect(
      await verdictOf('rate-limit-storm', async () => {
        await storm();
        sandbox.clock.advance(10_000);
        await ask(sandbox.accessKeys[11]);
      }),
    ).toMatchObject({ passed: true });
    sandbox.ledger.clear();
    sandbox.clock.advance(600_000);
    const verdict = await verdictOf('rate-limit-storm', async () => {
      await storm();
      sandbox.clock.advance(2000);
      await ask(sandbox.accessKeys[11]);
    });
    expect(failedOf(verdict)).toEqual(['Sends nothing before Retry-After has passed']);
  });

  it('of a revoked owner fails who repeats the refused request, or takes it for the fault of others', async () => {
    const verdict = await verdictOf('owner-revoked', async () => {
      for (let n = 0; n < 11; n++) await ask();
    });
    expect(failedOf(verdict)).toEqual(['Repeats the refused request at most 10 times a minute']);
    const second = sandbox.owners[1]?.id ?? '';
    sandbox.setOwnerEnabled(second, false);
    const others = await verdictOf('owner-revoked', () => ask(sandbox.accessKeys[1]));
    expect(failedOf(others)).toEqual(['Gets tokens for all other owners']);
  });

  it('of a rotated secret fails who goes on with the old one', async () => {
    const old = sandbox.clientSecret;
    const verdict = await verdictOf('secret-rotated', async () => {
      for (let n = 0; n < 33; n++) await askToken(sandbox, undefined, { client_secret: old });
    });
    expect(failedOf(verdict)).toEqual(['Sends at most 32 requests with the old secret']);
  });

  it('of a black hole fails who waits for ever', async () => {
    let over = Promise.resolve();
    const verdict = await verdictOf('black-hole', async () => {
      over = ignored(ask()).then(() => {});
      while (sandbox.ledger.count({ kind: 'token' }) === 0) await new Promise((resolve) => setImmediate(resolve));
    });
    expect(failedOf(verdict)).toEqual([
      'Gives up on a request within 30 s',
      'Gets a token again once the service is back',
    ]);
    await sandbox.close();
    await over;
  });

  it("of another owner's token fails who uses it after it was flagged", async () => {
    const owner = sandbox.owners[0]?.id ?? '';
    const use = (everyMs: number) => async () => {
      const token = (await ask()).json.access_token;
      for (let n = 0; n < 3; n++) {
        await echo(sandbox, token, { 'x-expected-owner': owner });
        sandbox.clock.advance(everyMs);
      }
    };
    // Calls that began before the answer could be read.
    expect(await verdictOf('wrong-owner-token', use(500))).toMatchObject({ passed: true });
    expect(failedOf(await verdictOf('wrong-owner-token', use(501)))).toEqual([
      'Drops a token that a resource flagged as of another owner',
    ]);
  });
});

describe('a run', () => {
  it('that is interrupted has not passed, whatever interrupts it', async () => {
    const interrupted: [() => unknown, string][] = [
      [() => sandbox.stopScenario(), 'it was stopped'],
      [() => sandbox.runScenario('outage'), 'another scenario started'],
      [() => sandbox.faults.remove('scenario'), 'its fault was removed'],
      [() => sandbox.faults.clear(), 'its fault was removed'],
      [() => sandbox.reset(), 'the sandbox was reset'],
      [() => sandbox.close(), 'the sandbox was closed'],
    ];
    for (const [interrupt, observed] of interrupted) {
      const verdict = sandbox.scenarios.run('black-hole');
      interrupt();
      expect(await verdict).toMatchObject({ passed: false, findings: [{}, { observed, passed: false }] });
    }
  });

  it('is aborted by its signal, and ends then', async () => {
    const abort = new AbortController();
    const run = sandbox.scenarios.run('black-hole', { signal: abort.signal });
    abort.abort(new Error('enough'));
    await expect(run).rejects.toThrow('enough');
    expect(sandbox.faults.list()).toEqual([]);
    await expect(sandbox.scenarios.run('outage', { signal: abort.signal })).rejects.toThrow('enough');
    await expect(sandbox.scenarios.run('nothing' as ScenarioName)).rejects.toThrow(/cold-start/);
  });

  it('gets the same verdict over the control plane', async () => {
    const headers = { 'content-type': 'application/json' };
    const run = call(`${sandbox.portalUrl}/api/scenarios/cold-start/run`, { method: 'POST', headers, body: '{}' });
    while (!sandbox.ledger.count({ kind: 'token' })) await ask();
    while ((await call(`${sandbox.portalUrl}/api/state`)).json.scenario === undefined) await ask(sandbox.accessKeys[1]);
    await ask(sandbox.accessKeys[2]);
    sandbox.clock.advance(30_000);
    const { status, json } = await run;
    expect([status, json.passed]).toEqual([200, true]);
    const { json: scenarios } = await call(`${sandbox.portalUrl}/api/scenarios`);
    expect(scenarios[0]).toMatchObject({ name: 'cold-start', verdict: json });
  });
});
