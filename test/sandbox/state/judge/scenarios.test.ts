import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, SCENARIOS, startSandbox } from '../../../../src/sandbox/index.ts';
import { askToken, call } from '../../client.ts';

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 40, lifetimeSeconds: 600 });
  sandbox.clock.freeze();
});

afterEach(() => sandbox.close());

describe('a scenario', () => {
  const ask = (method: string, path: string) => {
    const written = { headers: { 'content-type': 'application/json' }, body: '{}' };
    return call(`${sandbox.portalUrl}${path}`, { method, ...(method === 'POST' && written) });
  };

  it.each(SCENARIOS.map(({ name }) => name))(
    'is one request away, and ends without trace of a fault: %s',
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

  it('ends by itself, and by the next one', async () => {
    sandbox.runScenario('black-hole');
    sandbox.runScenario('rate-limit-storm');
    expect(sandbox.faults.list()).toHaveLength(1);
    sandbox.clock.advance(39_999);
    expect(sandbox.faults.list()).toHaveLength(1);
    sandbox.clock.advance(1);
    expect(sandbox.faults.list()).toEqual([]);
    sandbox.clock.advance(30_000);
    expect(sandbox.stopScenario()).toBe(false);
  });

  it('leaves the faults alone that are not its own', () => {
    const id = sandbox.faults.add({ kind: 'latency', ms: 1 });
    sandbox.runScenario('outage');
    sandbox.stopScenario();
    expect(sandbox.faults.list().map((fault) => fault.id)).toEqual([id]);
  });
});
