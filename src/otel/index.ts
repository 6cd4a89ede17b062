/** OpenTelemetry metrics and spans for registries. Needs `@opentelemetry/api`. */

export { type InstrumentOptions, instrument } from './instrument.ts';
export type { Observed, ObservedFleet } from './metrics.ts';
export { type PromClient, type PromMetricConfig, type RegisterMetricsOptions, registerMetrics } from './prom-client.ts';
