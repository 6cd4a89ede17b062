/** Metrics through prom-client, where nothing of OpenTelemetry can be imported. */

import assert from 'node:assert/strict';
import { mkdirSync, renameSync } from 'node:fs';

// prom-client brings @opentelemetry/api along. Package managers with strict folders show it to prom-client only.
mkdirSync('node_modules/prom-client/node_modules', { recursive: true });
renameSync('node_modules/@opentelemetry', 'node_modules/prom-client/node_modules/@opentelemetry');
await assert.rejects(import('@opentelemetry/api'), { code: 'ERR_MODULE_NOT_FOUND' });

const { default: promClient } = await import('prom-client');
const { OwnerTokenRegistry, TokenEndpoint } = await import('owner-token-registry');
const { registerMetrics } = await import('owner-token-registry/otel/prom-client');
const { startSandbox } = await import('owner-token-registry/sandbox');

const { url: baseUrl, clientId, clientSecret, accessKeys } = await startSandbox();
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
registerMetrics(promClient, registry);
await registry.getToken(accessKeys[0]);
const metrics = await promClient.register.metrics();
assert.match(metrics, /^owner_token_request_duration_seconds_count\{owner_token_registry="default".*\} 1$/m);
await registry.close();
console.log('metrics without @opentelemetry/api');
