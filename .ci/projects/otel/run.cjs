/** NodeSDK with its HTTP instrumentation and the Prometheus exporter, scraped over HTTP. */

const assert = require('node:assert/strict');
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');
const { PrometheusExporter } = require('@opentelemetry/exporter-prometheus');
const { NodeSDK, tracing } = require('@opentelemetry/sdk-node');
const { OwnerTokenInstrumentation } = require('owner-token-registry/otel/instrumentation');

const spans = new tracing.InMemorySpanExporter();
const port = 20_000 + (process.pid % 20_000);
const instrumentation = new OwnerTokenInstrumentation();
const sdk = new NodeSDK({
  metricReaders: [new PrometheusExporter({ host: '127.0.0.1', port })],
  spanProcessors: [new tracing.SimpleSpanProcessor(spans)],
  instrumentations: [new HttpInstrumentation(), instrumentation],
});
sdk.start();

// Loaded after the SDK has started, as its guide says.
const { OwnerTokenRegistry, TokenEndpoint } = require('owner-token-registry');
const { startSandbox } = require('owner-token-registry/sandbox');

async function main() {
  const { url: baseUrl, clientId, clientSecret, accessKeys } = await startSandbox();
  const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
  const registry = new OwnerTokenRegistry({ source, name: 'crm' });
  instrumentation.observe(registry);
  await registry.getToken(accessKeys[0]);
  await registry.getToken(accessKeys[0]);

  const scraped = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  assert.match(scraped, /^owner_token_lookups_total\{.*owner_token_lookup_outcome="hit".*\} 1$/m);
  assert.match(scraped, /^owner_token_request_duration_count\{.*owner_token_registry="crm".*\} 1$/m);

  const request = spans.getFinishedSpans().find(({ name }) => name === 'owner_token.request');
  const http = spans.getFinishedSpans().find(({ kind, name }) => kind === 2 && name === 'POST');
  assert.equal(http?.parentSpanContext?.spanId, request?.spanContext().spanId);
  await registry.close();
  await sdk.shutdown();
}

main().then(
  () => console.log('metrics scraped, and the HTTP span nests in the request span'),
  (error) => {
    console.error(error);
    process.exitCode = 1;
  },
);
