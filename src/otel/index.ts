/** OpenTelemetry metrics and spans, and Prometheus metrics, for registries. Needs `@opentelemetry/api`. */

export { type InstrumentOptions, instrument } from './instrument.ts';
export {
  type ObserveOptions,
  OwnerTokenInstrumentation,
  type OwnerTokenInstrumentationConfig,
} from './instrumentation.ts';
export type { Observed, ObservedFleet } from './metrics.ts';
export { type PromClient, type RegisterMetricsOptions, registerMetrics } from './prom-client.ts';
