/** The same metrics for prom-client. */

import {
  BUCKETS_S,
  checkArguments,
  METRICS,
  type MetricName,
  metricsOf,
  type Observed,
  type ObservedFleet,
  promName,
  REGISTRY_ATTRIBUTE,
  readingsOf,
} from './metrics.ts';
import { listenToRequests, outcomeAttributes } from './requests.ts';

type Labels = Record<string, string>;

/**
 * The configuration of a prom-client metric.
 *
 * @example
 * ```ts
 * const labelNames = ['owner_token_registry'];
 * const config: PromMetricConfig = { name: 'owner_token_owners', help: 'Owners', labelNames, registers: [] };
 * ```
 */
export interface PromMetricConfig {
  /** Name of the metric. */
  name: string;
  /** Its description. */
  help: string;
  /** Names of its labels. */
  labelNames: string[];
  /** None: `registerMetrics` registers the metric itself. */
  registers: never[];
}

/**
 * What is used of a prom-client `Registry`, which this library calls a register to tell it from its own registry.
 *
 * @example
 * ```ts
 * import { Registry } from 'prom-client';
 *
 * const register: PromRegister = new Registry();
 * ```
 */
export interface PromRegister {
  /** Adds a metric. */
  registerMetric(metric: object): void;
  /** Removes a metric. */
  removeSingleMetric(name: string): void;
}

/**
 * What is used of `prom-client`.
 *
 * @example
 * ```ts
 * import promClient from 'prom-client';
 *
 * const used: PromClient = promClient;
 * ```
 */
export interface PromClient {
  /** Its class of histograms. */
  Histogram: new (
    config: PromMetricConfig & { buckets: number[] },
  ) => { observe(labels: Record<string, string>, value: number): void };
  /** Its class of gauges. */
  Gauge: new (
    config: PromMetricConfig & { collect(): void },
  ) => { set(labels: Record<string, string>, value: number): void };
  /** Its class of counters. */
  Counter: new (
    config: PromMetricConfig & { collect(): void },
  ) => { reset(): void; inc(labels: Record<string, string>, value: number): void };
  /** Its default register. */
  register: PromRegister;
}

/**
 * Options of {@link registerMetrics}.
 *
 * @example
 * ```ts
 * import promClient from 'prom-client';
 *
 * const withFleet = (crm: SharedTokens, options: RegisterMetricsOptions = { fleets: { crm } }) =>
 *   registerMetrics(promClient, registry, options);
 * ```
 */
export interface RegisterMetricsOptions {
  /** The registries' `SharedTokens`, by the registry's name. */
  fleets?: Readonly<Record<string, ObservedFleet>> | undefined;
  /** The prom-client `Registry` that gets the metrics. Default: `promClient.register`. */
  register?: PromRegister | undefined;
}

/**
 * Registers the metrics of one or more registries with prom-client. Returns a function that removes them.
 *
 * @throws {OwnerTokenError} `invalid_options`
 * @example
 * ```ts
 * import promClient from 'prom-client';
 *
 * const stop = registerMetrics(promClient, registry); // or a list of registries
 * await registry.getToken(accessKey);
 * console.log(await promClient.register.metrics()); // → …owner_token_requests_total{…kind="miss"} 1…
 * stop();
 * ```
 */
export function registerMetrics(
  promClient: PromClient,
  registries: Observed | readonly Observed[],
  options: RegisterMetricsOptions = {},
): () => void {
  const observed: readonly Observed[] = 'stats' in registries ? [registries] : registries;
  for (const registry of observed) checkArguments('registerMetrics', registry, options, ['fleets', 'register']);
  const { fleets = {}, register = promClient.register } = options;
  const readings = (metric: MetricName) =>
    observed.flatMap((registry) =>
      readingsOf(registry, Object.hasOwn(fleets, registry.name) ? fleets[registry.name] : undefined)
        .filter((reading) => reading.metric === metric)
        .map(({ value, attributes }) => ({ value, labels: labelsOf(registry.name, attributes) })),
    );
  for (const metric of metricsOf('gauge', 'state')) {
    const gauge = new promClient.Gauge({
      ...configOf(metric),
      collect() {
        for (const { labels, value } of readings(metric)) gauge.set(labels, value);
      },
    });
    register.registerMetric(gauge);
  }
  for (const metric of metricsOf('counter')) {
    const counter = new promClient.Counter({
      ...configOf(metric),
      collect() {
        counter.reset();
        for (const { labels, value } of readings(metric)) counter.inc(labels, value);
      },
    });
    register.registerMetric(counter);
  }
  const stops = observed.length > 0 ? observeRequests(promClient, observed, register) : [];
  return () => {
    for (const stop of stops) stop();
    for (const metric of Object.keys(METRICS) as MetricName[]) register.removeSingleMetric(promName(metric));
  };
}

function observeRequests(
  { Histogram }: PromClient,
  registries: readonly Observed[],
  register: PromRegister,
): (() => void)[] {
  const histogram = (metric: MetricName) => {
    const made = new Histogram({ ...configOf(metric), buckets: BUCKETS_S });
    register.registerMetric(made);
    return made;
  };
  const durations = histogram('owner_token.request.duration');
  const waits = histogram('owner_token.request.queue.duration');
  return registries.map(({ name }) =>
    listenToRequests(name, {
      ended(message) {
        const { durationMs, queuedMs, reason } = message;
        const labels = labelsOf(name, outcomeAttributes(message));
        if (durationMs !== undefined) durations.observe(labels, durationMs / 1000);
        waits.observe(labelsOf(name, { 'owner_token.request.reason': reason }), queuedMs / 1000);
      },
    }),
  );
}

function configOf(metric: MetricName): PromMetricConfig {
  const { description, attributes } = METRICS[metric];
  const labelNames = [REGISTRY_ATTRIBUTE, ...attributes].map(promLabel);
  return { name: promName(metric), help: description, labelNames, registers: [] };
}

const promLabel = (attribute: string): string => attribute.replaceAll('.', '_');

const labelsOf = (registry: string, attributes: Readonly<Record<string, string>>): Labels =>
  Object.fromEntries(
    Object.entries({ [REGISTRY_ATTRIBUTE]: registry, ...attributes }).map(([name, value]) => [promLabel(name), value]),
  );
