import { Queue, QueueEvents, Worker } from 'bullmq';
import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';
import { createProcessor } from './bullmq-app.mjs';

const sandbox = await startSandbox();
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
const keys = new Map([
  ['acme', accessKeys[0] ?? ''],
  ['globex', accessKeys[1] ?? ''],
]);

const connection = { url: process.env.REDIS_URL ?? '' };
const retry = { attempts: 5, backoff: { type: 'exponential', delay: 1_000 } };
const queue = new Queue('sync', { connection, defaultJobOptions: retry });
const events = new QueueEvents('sync', { connection });
await events.waitUntilReady();
const sync = createProcessor(registry, baseUrl, async (tenant) => keys.get(tenant));
const worker = new Worker('sync', sync, { connection, concurrency: 8 });

const job = await queue.add('acme', { tenant: 'acme' });
console.log(await job.waitUntilFinished(events)); // → { owner: …

sandbox.revokeAccessKey(keys.get('globex') ?? '');
const refused = await queue.add('globex', { tenant: 'globex' });
await refused.waitUntilFinished(events).catch((error) => console.log(error.message)); // → owner_refused

const unknown = await queue.add('initech', { tenant: 'initech' });
await unknown.waitUntilFinished(events).catch((error) => console.log(error.message)); // → unknown tenant

await worker.close();
await events.close();
await queue.close();
await registry.close();
await sandbox.close();
