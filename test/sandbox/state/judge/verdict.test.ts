import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, type ScenarioName, startSandbox, type Verdict } from '../../../../src/sandbox/index.ts';
import { askToken, call, echo } from '../../client.ts';

/** Clients driven by hand. `test/system/scenarios.test.ts` sends whole integrations through every scenario. */

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 40, lifetimeSeconds: 600 });
  sandbox.clock.freeze();
});

afterEach(() => sandbox.close());

/** Runs a scenario to its end on the virtual clock, while `drive` plays the integration. */
async function verdictOf(name: ScenarioName, drive: () => Promise<unknown> = async () => {}): Promise<Verdict> {
  const verdict = sandbox.scenarios.run(name);
  await drive();
  sandbox.clock.advance(120_000);
  return verdict;
}

const failedOf = ({ findings }: Verdict) => findings.filter(({ passed }) => !passed).map((one) => one.expectation);
const ask = (key = sandbox.accessKeys[0]) => askToken(sandbox, key);

/** Token requests for many owners at once, and time for their answers. */
async function askAll(keys: readonly string[], expected = keys.length): Promise<void> {
  const before = sandbox.ledger.count({ kind: 'token' });
  const all = keys.map((key) => ask(key));
  while (sandbox.ledger.count({ kind: 'token' }) < before + expected) await turn();
  sandbox.clock.advance(1000);
  await Promise.all(all);
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a run is not tested', () => {
  const cases: [ScenarioName, string, string][] = [
    ['cold-start', 'no requests of no owners', 'Token requests for no owners arrived, and the verdict needs 100.'],
    ['mass-expiry', 'no owners', 'no owners had a token when the scenario started, and the verdict needs 5.'],
    ['outage', 'no requests of no owners', 'The fault met no token request.'],
    ['partial-outage', 'no requests of no owners', 'The fault met no token request.'],
    ['rate-limit-storm', 'no requests of no owners', 'The fault met no token request.'],
    ['black-hole', 'no requests of no owners', 'The fault met no token request.'],
    ['owner-revoked', 'no requests', 'No token was requested for owner-001'],
    ['wrong-owner-token', 'no requests', 'No token was requested for owner-001'],
    ['secret-rotated', 'no requests of no owners', 'No token was requested after the rotation.'],
  ];
  it.each(cases)('by %s without a request, and the reason says so', async (name, observed, reason) => {
    const verdict = await verdictOf(name);
    expect(verdict).toMatchObject({ verdict: 'not tested', passed: false, findings: [] });
    expect(verdict.conditions[0]).toMatchObject({ observed, met: false });
    expect(verdict.reason).toContain(reason);
  });

  it('by a cold start of five owners', async () => {
    const verdict = await verdictOf('cold-start', () => askAll(sandbox.accessKeys.slice(0, 5)));
    expect(verdict.conditions).toEqual([
      { condition: 'Requests tokens for at least 100 owners', observed: '5 requests of 5 owners', met: false },
    ]);
    expect(verdict.reason).toContain('Let the integration act for all owners');
  });

  it('by a rate limit that five owners never reached', async () => {
    const verdict = await verdictOf('rate-limit-storm', async () => {
      for (const key of sandbox.accessKeys.slice(0, 5)) expect((await ask(key)).status).toBe(200);
    });
    expect(verdict).toMatchObject({ verdict: 'not tested' });
    expect(verdict.reason).toContain('--lifetime 20');
  });

  it("by another owner's token that nothing presents to /echo, or that no caller names an owner for", async () => {
    const drive = async (headers?: Record<string, string>) => {
      const { access_token } = (await ask()).json;
      if (headers) await echo(sandbox, access_token, headers);
    };
    for (const headers of [undefined, {}]) {
      const verdict = await verdictOf('wrong-owner-token', () => drive(headers));
      expect(verdict.conditions.map(({ met }) => met)).toEqual([true, false]);
      expect(verdict.reason).toContain('x-expected-owner');
    }
  });

  it('by a revoked owner while nothing is done for the others', async () => {
    const verdict = await verdictOf('owner-revoked', () => ask());
    expect(verdict.conditions.map(({ met }) => met)).toEqual([true, false]);
  });

  it('by a revoked owner if the others are not served in its second half either', async () => {
    sandbox.setProfile({ lifetimeSeconds: 20 });
    const verdictAfter = (waitMs: number) =>
      verdictOf('owner-revoked', async () => {
        await ask();
        sandbox.clock.advance(waitMs);
        expect((await ask(sandbox.accessKeys[1])).status).toBe(200);
      });
    const stopped = await verdictAfter(9_999);
    expect(stopped.conditions.map(({ met }) => met)).toEqual([true, false]);
    expect(stopped.reason).toContain('stops for all owners when one is refused');
    expect(await verdictAfter(10_000)).toMatchObject({ verdict: 'passed' });
  });

  it('when it is interrupted, whatever interrupts it', async () => {
    const interrupted: [() => unknown, string][] = [
      [() => sandbox.stopScenario(), 'it was stopped'],
      [() => sandbox.runScenario('outage'), 'another scenario started'],
      [() => sandbox.faults.remove('scenario'), 'its fault was removed'],
      [() => sandbox.faults.clear(), 'its fault was removed'],
      [() => sandbox.reset(), 'the sandbox was reset'],
      [() => sandbox.close(), 'the sandbox was closed'],
    ];
    for (const [interrupt, reason] of interrupted) {
      const verdict = sandbox.scenarios.run('black-hole');
      interrupt();
      expect(await verdict).toMatchObject({ verdict: 'not tested', reason: `The run ended early: ${reason}.` });
    }
  });
});

describe('a verdict', () => {
  it('shows the conditions, what was observed, and the requests that show it', async () => {
    const [first] = sandbox.owners;
    const verdict = await verdictOf('owner-revoked', async () => {
      for (let n = 0; n < 11; n++) await ask();
      await ask(sandbox.accessKeys[1]);
    });
    expect(verdict.conditions).toEqual([
      { condition: `Requests a token for ${first?.id}`, observed: '11 requests', met: true },
      { condition: 'Acts for other owners throughout', observed: '1 request of 1 owner', met: true },
    ]);
    const [repeats] = verdict.findings.filter(({ passed }) => !passed);
    expect(repeats).toMatchObject({
      observed: '11 requests',
      requests: Array.from({ length: 11 }, (_, index) => index + 1),
      fromMs: sandbox.ledger.entries()[0]?.atMs,
    });
  });

  it('of a cold start fails a needless request and a duplicate', async () => {
    sandbox.seed(200);
    const verdict = await verdictOf('cold-start', async () => {
      const keys = sandbox.accessKeys.slice(0, 100);
      await askAll([...keys, ...keys.slice(0, 4)]);
      await askAll(keys.slice(0, 4));
    });
    expect(failedOf(verdict)).toEqual([
      'Does not request a token for an owner that already has a valid one',
      'Has at most one token request in flight for each owner',
      'Has at most 75 token requests in flight at once, three quarters of the owners',
    ]);
  });

  it('of an outage counts attempts for each owner, and allows for a quick retry', async () => {
    const attempt = async (times: number, everyMs: number) => {
      for (let n = 0; n < times; n++) {
        expect((await ask()).status).toBe(503);
        sandbox.clock.advance(everyMs);
      }
    };
    const recover = async () => {
      sandbox.clock.advance(30_000);
      await askAll(sandbox.accessKeys.slice(0, 1));
    };
    const expectations = async (times: number, everyMs: number) =>
      failedOf(
        await verdictOf('outage', async () => {
          await attempt(times, everyMs);
          await recover();
        }),
      );
    expect(await expectations(5, 100)).toEqual([]);
    expect(await expectations(8, 100)).toEqual([
      'Sends at most 5 attempts for one owner within a second',
      'Waits longer after each attempt: the later waits are at least 1.5 times the earlier',
    ]);
    expect(await expectations(13, 2000)).toEqual([
      'Waits longer after each attempt: the later waits are at least 1.5 times the earlier',
      'Sends at most 12 attempts for one owner in the 30 s',
    ]);
    const neverBack = await verdictOf('outage', () => attempt(1, 0));
    expect(failedOf(neverBack)).toEqual([
      'Gets tokens again once the fault is over, for at least half of the owners that it met',
    ]);
    // The attempts in the outage, because there are none after it.
    expect(neverBack.findings.find(({ passed }) => !passed)?.requests).toHaveLength(1);
  });

  it('of an outage fails nearly all owners at once after it, even where answers are quick', async () => {
    sandbox.seed(140);
    const keys = sandbox.accessKeys;
    const recovery = async (atOnce: number) =>
      failedOf(
        await verdictOf('outage', async () => {
          for (const key of keys) await ask(key);
          sandbox.clock.advance(30_000);
          for (let from = 0; from < keys.length; from += atOnce) await askAll(keys.slice(from, from + atOnce));
        }),
      );
    expect(await recovery(105)).toEqual([]);
    expect(await recovery(106)).toEqual(['Has at most 105 token requests in flight at once after the recovery']);
  });

  describe('of a rate-limit storm', () => {
    const EARLY = 'Sends nothing for an owner before its Retry-After has passed';

    /** Others use the limit up, and the first owner is told to wait for ten seconds. */
    const limit = async (others: readonly string[]) => {
      for (const key of others) expect((await ask(key)).status).toBe(200);
      expect((await ask()).status).toBe(429);
      expect(sandbox.ledger.entries().at(-1)).toMatchObject({ outcome: 'rate_limited', retryAfterSeconds: 10 });
    };

    /** The first owner is told to wait for ten seconds, and two of them pass. */
    const storm = async () => {
      await limit(sandbox.accessKeys.slice(1, 11));
      sandbox.clock.advance(2000);
    };

    it('lets other owners on while one waits', async () => {
      const verdict = await verdictOf('rate-limit-storm', async () => {
        await storm();
        expect((await ask(sandbox.accessKeys[11])).status).toBe(429);
        sandbox.clock.advance(8000);
        for (const key of [sandbox.accessKeys[0], sandbox.accessKeys[11]]) expect((await ask(key)).status).toBe(200);
      });
      expect(verdict).toMatchObject({ verdict: 'passed' });
    });

    it('fails a request for the owner that is to wait', async () => {
      const verdict = await verdictOf('rate-limit-storm', async () => {
        await storm();
        await ask();
        sandbox.clock.advance(8000);
        await ask();
      });
      expect(failedOf(verdict)).toEqual([EARLY]);
    });

    it('counts an owner as served though it is limited again later', async () => {
      const verdict = await verdictOf('rate-limit-storm', async () => {
        await limit(sandbox.accessKeys.slice(1, 11));
        sandbox.clock.advance(10_000);
        expect((await ask()).status).toBe(200);
        sandbox.clock.advance(100);
        await limit(sandbox.accessKeys.slice(11, 20));
      });
      expect(failedOf(verdict)).toEqual([]);
      expect(verdict.findings.map(({ observed }) => observed)).toContain('1 of 1 owner');
    });
  });

  it('of a revoked owner leaves out a request of another owner that is in flight at the end', async () => {
    const verdict = await verdictOf('owner-revoked', async () => {
      await ask();
      expect((await ask(sandbox.accessKeys[1])).status).toBe(200);
      sandbox.faults.add({ kind: 'latency', ms: 600_000, target: { owner: sandbox.owners[2]?.id ?? '' } });
      ask(sandbox.accessKeys[2]).catch(() => {});
      while (sandbox.ledger.count({ kind: 'token' }) < 3) await turn();
    });
    expect(verdict).toMatchObject({ verdict: 'passed' });
  });

  it('of a revoked owner fails an integration that fails for others too', async () => {
    sandbox.setOwnerEnabled(sandbox.owners[1]?.id ?? '', false);
    const verdict = await verdictOf('owner-revoked', async () => {
      await ask();
      await ask(sandbox.accessKeys[1]);
    });
    expect(failedOf(verdict)).toEqual(['Gets tokens for all other owners']);
  });

  it('of a rotated secret fails an integration that does not carry on, or goes back to the old secret', async () => {
    const old = sandbox.clientSecret;
    const stops = await verdictOf('secret-rotated', () => askToken(sandbox, undefined, { client_secret: old }));
    expect(failedOf(stops)).toEqual(['Carries on with the new secret, and with it alone for the last 30 s']);
    const returns = await verdictOf('secret-rotated', async () => {
      expect((await ask()).status).toBe(200);
      sandbox.clock.advance(60_000);
      await askToken(sandbox, sandbox.accessKeys[1], { client_secret: old });
    });
    expect(failedOf(returns)).toEqual(['Carries on with the new secret, and with it alone for the last 30 s']);
  });

  it("of another owner's token allows for calls that began before the answer could be read", async () => {
    const owner = sandbox.owners[0]?.id ?? '';
    const use = (everyMs: number) => async () => {
      const token = (await ask()).json.access_token;
      for (let n = 0; n < 3; n++) {
        await echo(sandbox, token, { 'x-expected-owner': owner });
        sandbox.clock.advance(everyMs);
      }
    };
    expect(await verdictOf('wrong-owner-token', use(500))).toMatchObject({ passed: true });
    expect(failedOf(await verdictOf('wrong-owner-token', use(501)))).toEqual([
      'Drops a token that /echo flagged as of another owner',
    ]);
  });
});

describe('a run', () => {
  it('adds the owners that it needs, and removes them at its end, as it gives a revoked access key back', async () => {
    const before = sandbox.accessKeys;
    sandbox.runScenario('cold-start');
    expect(sandbox.accessKeys).toHaveLength(200);
    const [last = ''] = sandbox.accessKeys.slice(-1);
    await askAll([last]);
    sandbox.stopScenario();
    expect(sandbox.accessKeys).toEqual(before);
    expect((await ask(last)).json.error).toBe('invalid_grant');
    sandbox.runScenario('cold-start');
    expect(sandbox.accessKeys.at(-1)).toBe(last);
    sandbox.runScenario('owner-revoked');
    expect((await ask()).status).toBe(400);
    sandbox.stopScenario();
    expect((await ask()).status).toBe(200);
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
    const run = call(`${sandbox.portalUrl}/api/scenarios/owner-revoked/run`, { method: 'POST', headers, body: '{}' });
    while ((await call(`${sandbox.portalUrl}/api/state`)).json.scenario === undefined) await turn();
    await ask();
    await ask(sandbox.accessKeys[2]);
    sandbox.clock.advance(60_000);
    const { status, json } = await run;
    expect([status, json.verdict, json.passed]).toEqual([200, 'passed', true]);
    const { json: scenarios } = await call(`${sandbox.portalUrl}/api/scenarios`);
    expect(scenarios.find(({ name }: { name: string }) => name === 'owner-revoked')).toMatchObject({ verdict: json });
  });
});
