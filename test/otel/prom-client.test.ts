/** The metrics through prom-client. */

import promClient from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, type TokenSource } from '../../src/index.ts';
import { METRICS, type MetricName, promName } from '../../src/otel/metrics.ts';
import { registerMetrics } from '../../src/otel/prom-client.ts';

const source: TokenSource = {
  async requestToken(accessKey) {
    if (accessKey === 'wrong') throw new OwnerTokenError('owner_refused', 'refused');
    return { token: `token-${accessKey}`, response: { expires_in: 100 } };
  },
};
const stats = { sharing: true, shared: 5, leader: 3, fallback: 2, refused: 1, unreadable: 4, mismatched: 2 };
const fleets = { erp: { stats: () => ({ ...stats, sharing: false }) }, crm: { stats: () => stats } } as never;

let registries: OwnerTokenRegistry[];
let stop: () => void;

beforeEach(() => {
  registries = ['crm', 'erp'].map((name) => new OwnerTokenRegistry({ source, name }));
  stop = registerMetrics(promClient, registries, { fleets });
});

afterEach(async () => {
  stop();
  await Promise.all(registries.map((registry) => registry.close()));
});

describe('registerMetrics', () => {
  it('exports the metrics of each registry, and scraping twice counts nothing twice', async () => {
    const [crm, erp] = registries as [OwnerTokenRegistry, OwnerTokenRegistry];
    await Promise.all([crm.getToken('a'), crm.getToken('b'), erp.getToken('a')]);
    await crm.getToken('wrong').catch(() => {});
    await promClient.register.metrics();
    const text = await promClient.register.metrics();
    const lines = text.split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        'owner_token_request_duration_seconds_count{owner_token_registry="crm",owner_token_request_reason="absent"} 2',
        'owner_token_request_duration_seconds_count{owner_token_registry="erp",owner_token_request_reason="absent"} 1',
        'owner_token_request_queue_duration_seconds_count{owner_token_registry="erp",owner_token_request_reason="absent"} 1',
        'owner_token_requests_total{owner_token_registry="crm",owner_token_request_kind="miss"} 3',
        'owner_token_failures_total{owner_token_registry="crm"} 1',
        'owner_token_owners{owner_token_registry="erp",owner_token_owner_state="held"} 1',
        'owner_token_circuit_state{owner_token_registry="crm",owner_token_scope="client",owner_token_circuit_state="closed"} 1',
        'owner_token_fleet_requests_total{owner_token_registry="crm",owner_token_fleet_outcome="leader"} 3',
        'owner_token_fleet_sharing{owner_token_registry="crm"} 1',
        'owner_token_fleet_sharing{owner_token_registry="erp"} 0',
        'owner_token_fleet_mismatched_replicas{owner_token_registry="crm"} 2',
        'owner_token_fleet_unreadable_values_total{owner_token_registry="crm"} 4',
      ]),
    );
    expect(text).toMatch(/request_duration_seconds_count\{.*"crm".*error_type="owner_refused"\} 1/);
  });

  it('exports every metric, and none once stopped', async () => {
    const [crm] = registries as [OwnerTokenRegistry];
    await crm.getToken('a');
    const exported = async () => (await promClient.register.getMetricsAsJSON()).map(({ name }) => name).sort();
    const names = (Object.keys(METRICS) as MetricName[]).map(promName).sort();
    expect(await exported()).toEqual(names);
    stop();
    expect(await exported()).toEqual([]);
    stop = registerMetrics(promClient, crm);
    expect(await exported()).toEqual(names);
  });

  it('exports to the register that it is given', async () => {
    stop();
    const [crm] = registries as [OwnerTokenRegistry];
    const register = new promClient.Registry();
    stop = registerMetrics(promClient, crm, { register });
    await crm.getToken('a');
    const text = await register.metrics();
    expect(text).toContain('owner_token_requests_total{owner_token_registry="crm",owner_token_request_kind="miss"} 1');
    expect(text).toContain('owner_token_request_duration_seconds_count{');
    expect(await promClient.register.getMetricsAsJSON()).toEqual([]);
    stop();
    expect(await register.getMetricsAsJSON()).toEqual([]);
  });

  it('accepts a registry whose name is that of an inherited property', async () => {
    stop();
    await using registry = new OwnerTokenRegistry({ source, name: 'constructor' });
    stop = registerMetrics(promClient, registry);
    expect(await promClient.register.metrics()).toContain('owner_token_registry="constructor"');
  });

  it('refuses anything that is not a register', () => {
    const register = {} as never;
    expect(() => registerMetrics(promClient, registries, { register })).toThrow(
      'register: expected a Registry of prom-client',
    );
  });
});
