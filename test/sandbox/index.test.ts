import { describe, expect, it } from 'vitest';
import { ROUTES } from '../../src/sandbox/control-routes.ts';
import { startSandbox } from '../../src/sandbox/index.ts';
import { fuzz } from '../bench/sandbox-fuzz.parts.mjs';
import { askToken } from './client.ts';

describe('the sandbox as a whole', () => {
  it('takes random requests at both planes without a crash, a hang or a secret in an answer', async () => {
    await using sandbox = await startSandbox({ owners: 5, seed: 1 });
    const { url, portalUrl, clientId, clientSecret, accessKeys } = sandbox;
    const secrets = [clientSecret, ...accessKeys];
    const operations = [...Object.keys(ROUTES), 'GET /api/events'];
    const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
    const fuzzed = { url, portalUrl, clientId, clientSecret, accessKeys, secrets, operations };
    const report = await fuzz({ sandbox: fuzzed, count: 400, seed });
    expect(report.problems, `FUZZ_SEED=${seed}`).toEqual([]);
    expect(report.answered).toBeGreaterThan(200);
    sandbox.reset();
    expect((await askToken(sandbox)).status).toBe(200);
  });
});
