/** Requests at both planes of the sandbox, many at once. */

import fc from 'fast-check';
import { OPERATIONS } from '../../../src/sandbox/control/operations.ts';
import { startSandbox } from '../../../src/sandbox/index.ts';
import { askToken } from '../../sandbox/client.ts';
import { must, type Target } from '../target.ts';
import { fuzz } from './sandbox-requests.mjs';

const operations = OPERATIONS.map(({ method, path }) => `${method} ${path}`);

/** An input is a series of requests, each of which may change what the next ones meet. */
export const controlPlane: Target<{ seed: number; count: number }> = {
  name: 'planes of the sandbox',
  inputs: fc.record({ seed: fc.nat(), count: fc.integer({ min: 1, max: 40 }) }),
  async open() {
    const sandbox = await startSandbox({ owners: 5, seed: 1 });
    return {
      async check({ seed, count }) {
        sandbox.reset();
        const { url, portalUrl, clientId, clientSecret, accessKeys } = sandbox;
        const secrets = [clientSecret, ...accessKeys];
        const fuzzed = { url, portalUrl, clientId, clientSecret, accessKeys, secrets, operations };
        const { problems } = await fuzz({ sandbox: fuzzed, count, seed });
        must(problems.length === 0, problems.join('\n'));
        sandbox.reset();
        must((await askToken(sandbox)).status === 200, 'it no longer issues tokens');
      },
      close: () => sandbox.close(),
    };
  },
};
