// Metrics of a registry through the OpenTelemetry SDK. Needs @opentelemetry/api and @opentelemetry/sdk-metrics.
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { instrument } from 'owner-token-registry/otel';
import { startSandbox } from 'owner-token-registry/sandbox';

const sandbox = await startSandbox();
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({
  source: new TokenEndpoint({ baseUrl, clientId, clientSecret }),
  name: 'crm',
});

const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter });
const meterProvider = new MeterProvider({ readers: [reader] });
const stop = instrument(registry, { meterProvider });

for (let call = 0; call < 10; call++) await registry.getToken(accessKeys[0]);
await reader.forceFlush();
for (const { descriptor, dataPoints } of exporter.getMetrics()[0].scopeMetrics[0].metrics) {
  for (const { attributes, value } of dataPoints) console.log(descriptor.name, attributes, value.count ?? value);
}
stop();
await meterProvider.shutdown();
await registry.close();
await sandbox.close();
