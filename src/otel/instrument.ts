/** OpenTelemetry metrics and spans for a registry. */

import {
  type BatchObservableResult,
  type Meter,
  type MeterProvider,
  metrics,
  type Observable,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import {
  BUCKETS_S,
  checkArguments,
  METRICS,
  type MetricName,
  metricsOf,
  type Observed,
  type ObservedFleet,
  REGISTRY_ATTRIBUTE,
  readingsOf,
} from './metrics.ts';
import { listenToRequests, outcomeAttributes } from './requests.ts';
import { RequestSpans } from './spans.ts';

const OPTIONS: readonly (keyof InstrumentOptions)[] = [
  'meterProvider',
  'tracerProvider',
  'name',
  'ownerAttribute',
  'fleet',
];

/** Name of the meter and the tracer. */
export const SCOPE_NAME = 'owner-token-registry';

/**
 * Options of {@link instrument}.
 *
 * @example
 * ```ts
 * const options: InstrumentOptions = { name: 'crm', ownerAttribute: 'customer' };
 * const stop = instrument(registry, options);
 * ```
 */
export interface InstrumentOptions {
  /** Default: the global one at the time of the call. */
  meterProvider?: MeterProvider | undefined;
  /** Default: the global one at the time of the call. */
  tracerProvider?: TracerProvider | undefined;
  /** Value of the attribute `owner_token.registry`. Default: the registry's `name`. */
  name?: string | undefined;
  /**
   * Adds the owner's fingerprint or label to the metrics of token requests, as an attribute of this name. Default:
   * none, because each owner would add a time series. Spans always carry it, as `owner_token.owner`.
   */
  ownerAttribute?: string | undefined;
  /** The registry's `SharedTokens`, for the metrics of the fleet. Default: none. */
  fleet?: ObservedFleet | undefined;
}

/**
 * Reports a registry's metrics and spans to OpenTelemetry. Adds no cost to cache hits, because counters are read when
 * metrics are collected. Returns a function that stops it.
 *
 * @throws {OwnerTokenError} `invalid_options`
 * @example
 * ```ts
 * const stop = instrument(registry); // the global providers, or { meterProvider, tracerProvider }
 * await registry.getToken(accessKey);
 * stop();
 * ```
 * @see {@link https://opentelemetry.io/docs/specs/semconv/general/naming/ OpenTelemetry naming}
 */
export function instrument(registry: Observed, given: InstrumentOptions = {}): () => void {
  const options = checkArguments('instrument', registry, given, OPTIONS);
  const { meterProvider = metrics.getMeterProvider(), tracerProvider = trace.getTracerProvider() } = options;
  const meter = meterProvider.getMeter(SCOPE_NAME);
  return report(registry, { meter, tracer: tracerProvider.getTracer(SCOPE_NAME) }, options);
}

/** {@link instrument} with this meter and tracer. */
export function report(
  registry: Observed,
  { meter, tracer }: { readonly meter: Meter; readonly tracer: Tracer },
  { name = registry.name, ownerAttribute, fleet }: InstrumentOptions,
): () => void {
  const common = { [REGISTRY_ATTRIBUTE]: name };
  const stopObserving = observeCounters(meter, common, registry, fleet);
  const durations = histogram(meter, 'owner_token.request.duration');
  const waits = histogram(meter, 'owner_token.request.queue.duration');
  const spans = new RequestSpans(tracer, common);
  const stopListening = listenToRequests(registry.name, {
    started: (message) => spans.started(message),
    ended(message) {
      const context = spans.ended(message);
      const { reason, owner, durationMs, queuedMs } = message;
      const attributes = { ...common, ...(ownerAttribute && { [ownerAttribute]: owner }) };
      if (durationMs !== undefined) {
        durations.record(durationMs / 1000, { ...attributes, ...outcomeAttributes(message) }, context);
      }
      waits.record(queuedMs / 1000, { ...attributes, 'owner_token.request.reason': reason }, context);
    },
  });
  return () => {
    stopListening();
    stopObserving();
    spans.stop();
  };
}

function histogram(meter: Meter, name: MetricName) {
  const { unit, description } = METRICS[name];
  return meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: BUCKETS_S } });
}

/** Reads the counters whenever metrics are collected. */
function observeCounters(
  meter: Meter,
  common: Readonly<Record<string, string>>,
  registry: Observed,
  fleet: ObservedFleet | undefined,
): () => void {
  const observables = new Map<string, Observable>();
  for (const name of metricsOf('counter', 'gauge', 'state')) {
    const { kind, unit, description } = METRICS[name];
    const options = { unit, description };
    const created =
      kind === 'counter'
        ? meter.createObservableCounter(name, options)
        : meter.createObservableUpDownCounter(name, options);
    observables.set(name, created);
  }
  const observe = (result: BatchObservableResult): void => {
    for (const { metric, value, attributes } of readingsOf(registry, fleet)) {
      result.observe(observables.get(metric) as Observable, value, { ...common, ...attributes });
    }
  };
  const all = [...observables.values()];
  meter.addBatchObservableCallback(observe, all);
  return () => meter.removeBatchObservableCallback(observe, all);
}
