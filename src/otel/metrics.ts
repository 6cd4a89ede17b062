/**
 * Every metric in one table, and its current value from the counters of a registry. OpenTelemetry instruments,
 * prom-client metrics, the dashboard, the alert rules and `docs/observability.md` follow this table.
 */

import { checkOptions, hasMethods, type OptionRule, type OptionRules } from '../option-check.ts';
import type { SharingStats } from '../redis/shared-tokens.ts';
import type { RegistryStats } from '../registry/stats.ts';

/**
 * A registry to report.
 *
 * @example
 * ```ts
 * const observed: Observed = registry;
 * console.log(observed.name); // → default
 * ```
 */
export interface Observed {
  /** The registry's `name`. Two registries of one process with the same name write to the same time series. */
  readonly name: string;
  /** Its counters. */
  stats(): RegistryStats;
}

/**
 * The `SharedTokens` of a registry.
 *
 * @example
 * ```ts
 * const report = (fleet: ObservedFleet) => instrument(registry, { fleet });
 * ```
 */
export interface ObservedFleet {
  /** Its counters. */
  stats(): SharingStats;
}

/** `gauge` is a sum that goes up and down; `state` is 1 for the current state and 0 for the others. */
export interface Metric {
  readonly kind: 'histogram' | 'counter' | 'gauge' | 'state';
  readonly unit: string;
  readonly description: string;
  readonly attributes: readonly string[];
}

/** `attributes` apart from the registry's name, which every series has. */
function metric(kind: Metric['kind'], unit: string, description: string, ...attributes: string[]): Metric {
  return { kind, unit, description, attributes };
}

/** The attribute of every series. */
export const REGISTRY_ATTRIBUTE = 'owner_token.registry';

export const METRICS = Object.freeze({
  'owner_token.request.duration': metric(
    'histogram',
    's',
    'Duration of token requests, failed ones included.',
    'owner_token.request.reason',
    'error.type',
  ),
  'owner_token.request.queue.duration': metric(
    'histogram',
    's',
    'How long token requests waited for their turn.',
    'owner_token.request.reason',
  ),
  'owner_token.active_requests': metric('gauge', '{request}', 'In-flight token requests.'),
  'owner_token.queued_requests': metric('gauge', '{request}', 'Token requests that wait for their turn.'),
  'owner_token.waiting_calls': metric('gauge', '{call}', 'Calls that wait for a token request.'),
  'owner_token.owners': metric(
    'gauge',
    '{owner}',
    'Owners in the cache (held), with a token and not without service (usable), whose last request failed (paused), and whose newest tokens the API ' +
      'rejects (rejected).',
    'owner_token.owner.state',
  ),
  'owner_token.owners_without_service': metric(
    'gauge',
    '{owner}',
    'Owners whose last call was not served, until they get a token, are forgotten, or were not called for two hours.',
  ),
  'owner_token.service.slow': metric(
    'gauge',
    '{replica}',
    '1 while tokens take over four times as long as usual, and over a second, for this replica, else 0.',
  ),
  'owner_token.circuit.state': metric(
    'state',
    '1',
    'State of the circuit breakers of client and endpoint: 1 for the current state, 0 for the others.',
    'owner_token.scope',
    'owner_token.circuit.state',
  ),
  'owner_token.lookups': metric(
    'counter',
    '{call}',
    'Calls served from the cache (hit), that joined an in-flight request (joined), or refused at once by a pause (refused).',
    'owner_token.lookup.outcome',
  ),
  'owner_token.requests': metric(
    'counter',
    '{request}',
    'Token requests: for a call that found no usable token (miss), or ahead of expiry (refresh).',
    'owner_token.request.kind',
  ),
  'owner_token.failures': metric('counter', '{request}', 'Failed token requests.'),
  'owner_token.refusals': metric(
    'counter',
    '{call}',
    'Calls refused at once by a pause, by its scope.',
    'owner_token.scope',
  ),
  'owner_token.failed_calls': metric(
    'counter',
    '{call}',
    'Calls that failed: their own or a shared request did (request), a pause refused them, also while queued (refused), or the ' +
      'queue was full or took too long (queue).',
    'owner_token.failure.reason',
  ),
  'owner_token.abandoned_calls': metric(
    'counter',
    '{call}',
    'Calls that their signal ended after they had waited for over a second.',
  ),
  'owner_token.rejections': metric('counter', '{token}', 'Cached tokens that were reported as rejected.'),
  'owner_token.evictions': metric('counter', '{owner}', 'Owners evicted because the cache was full.'),
  'owner_token.fleet.requests': metric(
    'counter',
    '{request}',
    "Token requests of a fleet: served by another replica's token (shared), made for the fleet (leader), made alone " +
      'because Redis was unavailable (fallback), or refused because of a shared failure (refused).',
    'owner_token.fleet.outcome',
  ),
  'owner_token.fleet.sharing': metric(
    'gauge',
    '{replica}',
    '1 while this replica shares tokens through Redis, else 0.',
  ),
  'owner_token.fleet.mismatched_replicas': metric(
    'gauge',
    '{replica}',
    'Replicas with the same prefix and another naming key, at the last count.',
  ),
  'owner_token.fleet.unreadable_values': metric(
    'counter',
    '{value}',
    'Stored values that did not open: other sealing keys, damage or a forgery.',
  ),
});

export type MetricName = keyof typeof METRICS;

/** Bounds of the histograms' buckets, in seconds. */
export const BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** The value of one series. The attributes do not include the registry's name. */
export interface Reading {
  readonly metric: MetricName;
  readonly value: number;
  readonly attributes: Readonly<Record<string, string>>;
}

/** The names of all metrics of these kinds. */
export function metricsOf(...kinds: Metric['kind'][]): MetricName[] {
  return (Object.keys(METRICS) as MetricName[]).filter((name) => kinds.includes(METRICS[name].kind));
}

/** The name that OpenTelemetry's Prometheus exporter gives the metric: with its unit, and `_total` for counters. */
export function promName(metric: MetricName): string {
  const { kind, unit } = METRICS[metric];
  const suffix = kind === 'counter' ? '_total' : unit === 's' ? '_seconds' : '';
  return `${metric.replaceAll('.', '_')}${suffix}`;
}

/** Checked elsewhere. */
const ANYTHING: OptionRule = { passes: () => true, expected: 'anything' };
const PROM_REGISTRY: OptionRule = {
  passes: (value) => hasMethods(value, 'registerMetric'),
  expected: 'a Registry of prom-client',
};

/** Checks the arguments of a function that reports a registry, and returns the checked options. */
export function checkArguments<T extends object>(
  of: string,
  registry: Observed,
  options: T,
  known: readonly string[],
): T {
  const rules = Object.fromEntries(known.map((name) => [name, name === 'register' ? PROM_REGISTRY : ANYTHING]));
  return checkOptions(of, options, rules as OptionRules<T>, (_, problems) => {
    if (!hasMethods(registry, 'stats')) problems.push('registry: expected an OwnerTokenRegistry');
  });
}

/** The current values. Takes the same time however many owners there are. */
export function readingsOf(registry: Observed, fleet?: ObservedFleet): Reading[] {
  const stats = registry.stats();
  const { owner, client, endpoint } = stats.refused;
  return [
    reading('owner_token.active_requests', stats.inFlight),
    reading('owner_token.queued_requests', stats.queued),
    reading('owner_token.waiting_calls', stats.waiting),
    ...each('owner_token.owners', 'owner_token.owner.state', {
      held: stats.owners,
      usable: stats.usable,
      paused: stats.pauses.owners,
      rejected: stats.pauses.rejected?.owners ?? 0,
    }),
    reading('owner_token.owners_without_service', stats.withoutService.owners),
    reading('owner_token.service.slow', stats.slowService ? 1 : 0),
    ...(['client', 'endpoint'] as const).flatMap((scope) => circuitReadings(scope, stats.pauses[scope])),
    ...each('owner_token.lookups', 'owner_token.lookup.outcome', {
      hit: stats.hits,
      joined: stats.joined,
      refused: owner + client + endpoint,
    }),
    ...each('owner_token.requests', 'owner_token.request.kind', {
      miss: stats.requests - stats.refreshes,
      refresh: stats.refreshes,
    }),
    reading('owner_token.failures', stats.failures),
    ...each('owner_token.refusals', 'owner_token.scope', { owner, client, endpoint }),
    ...each('owner_token.failed_calls', 'owner_token.failure.reason', stats.failedCalls),
    reading('owner_token.abandoned_calls', stats.abandonedCalls),
    reading('owner_token.rejections', stats.rejections),
    reading('owner_token.evictions', stats.evictions),
    ...(fleet ? fleetReadings(fleet.stats()) : []),
  ];
}

function circuitReadings(scope: string, pause: { readonly probing: boolean } | undefined): Reading[] {
  const current = pause === undefined ? 'closed' : pause.probing ? 'half_open' : 'open';
  return ['closed', 'open', 'half_open'].map((state) =>
    reading('owner_token.circuit.state', state === current ? 1 : 0, {
      'owner_token.scope': scope,
      'owner_token.circuit.state': state,
    }),
  );
}

function fleetReadings({ sharing, mismatched, unreadable, ...counts }: SharingStats): Reading[] {
  const { shared, leader, fallback, refused } = counts;
  return [
    ...each('owner_token.fleet.requests', 'owner_token.fleet.outcome', { shared, leader, fallback, refused }),
    reading('owner_token.fleet.sharing', sharing ? 1 : 0),
    reading('owner_token.fleet.mismatched_replicas', mismatched),
    reading('owner_token.fleet.unreadable_values', unreadable),
  ];
}

function each(metric: MetricName, attribute: string, values: Readonly<Record<string, number>>): Reading[] {
  return Object.entries(values).map(([name, value]) => reading(metric, value, { [attribute]: name }));
}

function reading(metric: MetricName, value: number, attributes: Readonly<Record<string, string>> = {}): Reading {
  return { metric, value, attributes };
}
