// A worker that acts for several owners, and waits as the errors say. Run it: node worker.mjs
import { setTimeout as wait } from 'node:timers/promises';
import { isOwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';

const sandbox = await startSandbox({ owners: 3 });
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const names = new Map(accessKeys.map((accessKey, index) => [accessKey, `tenant-${index + 1}`]));
const registry = new OwnerTokenRegistry({
  source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
  ownerLabel: (accessKey) => names.get(accessKey), // what logs and errors call this owner
});

/** Whether the same call can succeed later. */
function canRetry(error) {
  // A worker can wait until a wrong client secret is fixed. Other errors that are not retryable, such as a revoked key, are final.
  if (isOwnerTokenError(error)) return error.retryable || error.code === 'client_refused';
  return error.status === undefined || error.status === 429 || error.status >= 500; // of the API, if it responded
}

/** Makes the owner's call. Tries again while that can help, for a minute at most. */
async function work(accessKey) {
  const giveUpAt = Date.now() + 60_000;
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await registry.ownerFetch(accessKey)(`${baseUrl}/echo`, { signal: AbortSignal.timeout(15_000) });
      if (response.ok) return (await response.json()).owner;
      throw Object.assign(new Error(`the API responded with ${response.status}`), { status: response.status });
    } catch (error) {
      if (!canRetry(error)) throw error;
      const retryAt = isOwnerTokenError(error) ? error.retryAtMs : undefined;
      const waitMs = retryAt === undefined ? Math.min(30_000, 500 * 2 ** attempt) : retryAt - Date.now();
      if (Date.now() + waitMs > giveUpAt) throw error;
      await wait(Math.max(0, waitMs));
    }
  }
}

sandbox.revokeAccessKey(accessKeys[1]);
const outage = sandbox.faults.add({ kind: 'status', status: 503 });
setTimeout(() => sandbox.faults.remove(outage), 300);

const outcomes = await Promise.allSettled(accessKeys.map(work));
for (const [index, { status, value, reason }] of outcomes.entries()) {
  console.log(
    names.get(accessKeys[index]),
    status === 'fulfilled' ? `done as ${value}` : `failed: ${reason.code ?? reason.message}`,
  );
}
await registry.close();
await sandbox.close();
