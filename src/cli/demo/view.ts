/**
 * `owner-token-registry demo --view`: traffic of forty owners against a sandbox, with failures that come and go, and the
 * live view of the registry on a page, until Ctrl-C.
 */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OwnerTokenRegistry, TokenEndpoint } from '../../index.ts';
import { liveView } from '../../live-view/index.ts';
import { type FaultRule, type Sandbox, startSandbox } from '../../sandbox/index.ts';
import { EXIT, type Terminal } from '../command.ts';

const OWNERS = 40;
const LIFETIME_SECONDS = 30;
const CALLS_EVERY_MS = 100;
const CALLS = 15;
/** The share of calls after which a resource rejects the token. */
const REJECTED = 0.002;

const MINUTE_MS = 60_000;

/** What happens in each minute: two owners fail for reasons of their own, and the service is down for eight seconds. */
const FAULTS: readonly FaultRule[] = [
  { kind: 'latency', ms: 40 },
  {
    kind: 'status',
    status: 400,
    target: { owner: 'owner-007' },
    when: { schedule: [[8_000, 50_000]], everyMs: MINUTE_MS },
  },
  {
    kind: 'status',
    status: 429,
    target: { owner: 'owner-023' },
    when: { schedule: [[20_000, 45_000]], everyMs: MINUTE_MS },
  },
  { kind: 'status', status: 503, when: { schedule: [[28_000, 36_000]], everyMs: MINUTE_MS } },
];

export async function runViewDemo({ out, signal }: Terminal): Promise<number> {
  await using sandbox = await startSandbox({ owners: OWNERS, lifetimeSeconds: LIFETIME_SECONDS });
  await using registry = registryOf(sandbox);
  // The last owner has left: its access key is refused for good.
  sandbox.revokeAccessKey(sandbox.accessKeys[OWNERS - 1] ?? '');
  for (const fault of FAULTS) sandbox.faults.add(fault);
  // Loopback only, and nothing but the demo's own owners: nobody needs to be kept out.
  const server = createServer(liveView(registry, { public: true, accessKeySearch: true }).node);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const timer = setInterval(() => makeCalls(sandbox, registry), CALLS_EVERY_MS);
  out.write(`Live view: http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`);
  out.write(`${OWNERS} owners make calls; some fail, and once a minute the service does. Ctrl-C ends the demo.\n`);
  if (!signal.aborted) await once(signal, 'abort');
  clearInterval(timer);
  server.close();
  server.closeAllConnections();
  return EXIT.ok;
}

function registryOf(sandbox: Sandbox): OwnerTokenRegistry {
  const { url: baseUrl, clientId, clientSecret } = sandbox;
  return new OwnerTokenRegistry({
    source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
    ownerLabel: (accessKey) => sandbox.ownerOf(accessKey) ?? '',
  });
}

/** A few calls of owners at random, as they would come in. */
function makeCalls({ accessKeys }: Sandbox, registry: OwnerTokenRegistry): void {
  for (let call = 0; call < CALLS; call++) {
    const accessKey = accessKeys[Math.floor(Math.random() * accessKeys.length)] ?? '';
    registry.getToken(accessKey).then(
      (token) => {
        if (Math.random() < REJECTED) registry.reject(accessKey, token);
      },
      () => {}, // Shown on the page.
    );
  }
}
