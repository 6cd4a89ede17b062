/** The dashboard and the alert rules against what prom-client and OpenTelemetry's Prometheus exporter really export. */

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import promClient from 'prom-client';
import { beforeAll, describe, expect, it } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, type TokenSource } from '../src/index.ts';
import { instrument } from '../src/otel/index.ts';
import { METRICS } from '../src/otel/metrics.ts';
import { registerMetrics } from '../src/otel/prom-client.ts';
import { ROOT } from './helpers/source-files.ts';
import { temporaryFolder } from './helpers/temporary-folder.ts';

const read = (name: string) => readFileSync(join(ROOT, 'docs/monitoring', name), 'utf8');
const rules = read('prometheus-alerts.yaml');
const dashboard = read('grafana-dashboard.json');

const ON_REDIS = join(ROOT, 'test/alert-rules.yaml');
const promtool = (...args: string[]) => spawnSync('promtool', args, { encoding: 'utf8' });
const amtool = (...args: string[]) => spawnSync('amtool', args, { encoding: 'utf8' });
/**
 * With `REQUIRE_PROMTOOL=1` the tests run and fail where promtool and amtool are not installed (Debian:
 * `apt install prometheus prometheus-alertmanager`).
 */
const [noPromtool, noAmtool] = [promtool, amtool].map(
  (run) => run('--version').error !== undefined && process.env.REQUIRE_PROMTOOL !== '1',
);

/** The queries on our metrics; the rules for Redis are on another exporter's. */
const QUERIES = [
  ...JSON.parse(dashboard).panels.flatMap(({ title, targets = [] }: Panel) =>
    targets.map(({ expr }) => [`the panel "${title}"`, expr]),
  ),
  ...[...rules.matchAll(/alert: (\w+)\n +expr: (?:>-)?([\s\S]*?)\n +for:/g)].map(([, alert, expr]) => [alert, expr]),
].filter(([, expr]) => expr.includes('owner_token_')) as [string, string][];

interface Panel {
  id: number;
  type: string;
  title: string;
  datasource?: object;
  gridPos: { h: number; w: number; x: number; y: number };
  targets?: { refId: string; expr: string; format?: string; instant?: boolean }[];
  transformations?: { id: string; options: { renameByName?: Record<string, string> } }[];
}

type Series = Readonly<Record<string, string>>;

/** The series of a scrape, with the metric as the label `__name__`, and the label that Prometheus adds. */
function seriesIn(scraped: string): Series[] {
  return scraped
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', labels = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
      const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [label, value]);
      return { __name__: name, instance: 'replica:9464', ...Object.fromEntries(pairs) };
    });
}

/** The selectors of a PromQL query, each as a test of a series. */
function selectorsIn(query: string): [text: string, matches: (series: Series) => boolean][] {
  const found = query
    .replace(/\b(?:by|ignoring|on) \([^)]*\)/g, '')
    .matchAll(/(\bowner_token_\w+)?\{([^}]*)\}|\b(owner_token_\w+)/g);
  return [...found].map(([text, name, matchers = '', bare]) => {
    const conditions = [...matchers.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)].map(
      ([, label = '', operator = '', value = '']) => {
        const pattern = new RegExp(`^(?:${value.replace('$registry', '.*')})$`);
        const selects = (given: string) => (operator.includes('~') ? pattern.test(given) : given === value);
        return (series: Series) => selects(series[label] ?? '') !== operator.startsWith('!');
      },
    );
    const metric = name ?? bare;
    if (metric) conditions.push((series) => series.__name__ === metric);
    return [text, (series) => conditions.every((condition) => condition(series))];
  });
}

describe('in docs/monitoring', () => {
  const scrapes: Record<string, Series[]> = {};
  const source: TokenSource = {
    async requestToken(accessKey) {
      if (accessKey === 'wrong') throw new OwnerTokenError('owner_refused', 'refused');
      return { token: `token-${accessKey}`, response: { expires_in: 100 } };
    },
  };
  const counts = { sharing: true, shared: 5, leader: 3, fallback: 2, refused: 1, unreadable: 4, mismatched: 2 };
  const fleet = { stats: () => counts } as never;

  beforeAll(async () => {
    const exporter = new PrometheusExporter({ preventServerStart: true });
    const meterProvider = new MeterProvider({ readers: [exporter] });
    const registry = new OwnerTokenRegistry({ source, name: 'crm' });
    const register = new promClient.Registry();
    const stops = [
      instrument(registry, { meterProvider, fleet }),
      registerMetrics(promClient, registry, { register, fleets: { crm: fleet } }),
    ];
    await registry.getToken('a');
    await registry.getToken('wrong').catch(() => {});
    const { resourceMetrics } = await exporter.collect();
    scrapes['OpenTelemetry’s exporter'] = seriesIn(new PrometheusSerializer().serialize(resourceMetrics));
    scrapes['prom-client'] = seriesIn(await register.metrics());
    for (const stop of stops) stop();
    await registry.close();
    await meterProvider.shutdown();
  });

  it.each(QUERIES)('the query of %s selects series of both exporters', (_, query) => {
    const selectors = selectorsIn(query);
    expect(selectors).not.toEqual([]);
    for (const [exporter, series] of Object.entries(scrapes)) {
      const missing = selectors
        .filter(([, matches]) => !series.some(matches))
        .map(([text]) => `${text} of ${exporter}`);
      expect(missing).toEqual([]);
    }
  });

  it.each(QUERIES)('the query of %s groups by labels that the series have', (_, query) => {
    const grouped = [...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(/, */));
    for (const series of Object.values(scrapes)) {
      const selected = selectorsIn(query).flatMap(([, matches]) => series.filter(matches));
      expect(grouped.filter((label) => !selected.some((each) => label in each))).toEqual([]);
    }
  });

  it('the dashboard shows every metric', () => {
    const selectors = QUERIES.filter(([name]) => name.startsWith('the panel')).flatMap(([, query]) =>
      selectorsIn(query),
    );
    const shown = scrapes['prom-client']?.filter((series) => selectors.some(([, matches]) => matches(series)));
    const names = new Set(shown?.map(({ __name__ = '' }) => __name__));
    const missing = Object.keys(METRICS).filter(
      (metric) => ![...names].some((name) => name.startsWith(metric.replaceAll('.', '_'))),
    );
    expect(missing).toEqual([]);
  });

  it('each panel of the dashboard has its own id and place, and reads from the data source that the user chooses', () => {
    const { uid, schemaVersion, templating, panels } = JSON.parse(dashboard);
    expect([typeof uid, typeof schemaVersion]).toEqual(['string', 'number']);
    expect(templating.list.map(({ name }: { name: string }) => name)).toEqual(['datasource', 'registry']);
    expect(new Set(panels.map(({ id }: Panel) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { h, w, x, y } }: Panel) =>
      Array.from({ length: h * w }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    for (const { type, datasource, targets = [] } of panels as Panel[]) {
      if (type === 'row') continue;
      expect(datasource).toEqual(templating.list[1].datasource);
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
    }
  });

  it('the dashboard begins with a row of figures of all replicas, one value per registry', () => {
    const first = (JSON.parse(dashboard).panels as Panel[]).filter(({ gridPos }) => gridPos.y === 0);
    expect(first.map(({ title }) => title)).toEqual([
      'Replicas',
      'Owners',
      'Owners without service',
      'Token requests',
      'Calls refused',
      'Circuits that are not closed',
    ]);
    expect(first.reduce((sum, { gridPos }) => sum + gridPos.w, 0)).toBe(24);
    const ungrouped = first.flatMap(({ targets = [] }) => targets).filter(({ expr }) => !/^\w+ by \(/.test(expr));
    expect(ungrouped).toEqual([]);
  });

  it('the dashboard has a table of all replicas: one row for each, and a named column for each query', () => {
    const tables = (JSON.parse(dashboard).panels as Panel[]).filter(({ type }) => type === 'table');
    expect(tables.map(({ title }) => title)).toEqual(['Replicas, one row each']);
    const [{ targets = [], transformations = [] } = {} as Panel] = tables;
    expect(transformations.map(({ id }) => id)).toEqual(['merge', 'organize']);
    const columns = targets.map(({ refId }) => `Value #${refId}`);
    expect(Object.keys(transformations[1]?.options.renameByName ?? {})).toEqual([
      'owner_token_registry',
      'instance',
      ...columns,
    ]);
    for (const { expr, format, instant } of targets) {
      expect([format, instant]).toEqual(['table', true]);
      expect(expr).toMatch(/^(max|sum) by \(owner_token_registry, instance\) \(/);
    }
  });

  it.skipIf(noPromtool)('promtool parses the query of every panel of the dashboard', () => {
    const records = QUERIES.filter(([name]) => name.startsWith('the panel')).map(([, expr], at) => ({
      record: `panel_${at}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$registry', '.*'),
    }));
    const file = join(temporaryFolder(), 'rules.json');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules: records }] }));
    const { status, stdout, stderr } = promtool('check', 'rules', file);
    expect({ status, output: stdout + stderr }).toEqual({
      status: 0,
      output: expect.stringContaining(`${records.length} rules found`),
    });
  });

  it('each alert links to a runbook that says where to look, what it means, what to do and when it is over', () => {
    const alerts = [...rules.matchAll(/- alert: (\w+)[\s\S]*?runbook_url: (\S+)/g)].map(([, alert, url]) => ({
      alert,
      url,
    }));
    expect(alerts.length).toBe(rules.match(/- alert: /g)?.length);
    const runbooks = read('../runbooks.md')
      .split(/^## /m)
      .filter((section) => section.startsWith('OwnerToken'))
      .map((section) => ({ alert: section.split('\n', 1)[0] ?? '', parts: section.match(/^\*\*[A-Z].*?\*\*/gm) }));
    const parts = ['**Look at**', '**Means**', '**Do**', '**Over when**'];
    expect(runbooks).toEqual(alerts.map(({ alert }) => ({ alert, parts })));
    expect(alerts.map(({ url }) => url)).toEqual(alerts.map(({ alert }) => `RUNBOOKS#${alert?.toLowerCase()}`));
  });
});

describe('alertmanager-inhibit.yaml', () => {
  const inhibit = read('alertmanager-inhibit.yaml');

  it('names alerts that exist and labels that both sides have, and mutes no critical one by a warning', () => {
    const alerts = new Map(
      [...rules.matchAll(/- alert: (\w+)\n([\s\S]*?)labels: \{ severity: (\w+) \}/g)].map(
        ([, alert = '', rule = '', severity]) => [alert, { rule, severity }],
      ),
    );
    const pairs = inhibit.split(/^ {2}- source_matchers: /m).slice(1);
    expect(pairs.length).toBeGreaterThan(0);
    for (const pair of pairs) {
      const [sources = [], targets = []] = pair
        .split('target_matchers:')
        .map((side) => [...side.matchAll(/alertname =~? "([^"]+)"/g)].flatMap(([, names = '']) => names.split('|')));
      expect([sources.length > 0, targets.length > 0]).toEqual([true, true]);
      expect([...sources, ...targets].filter((name) => !alerts.has(name))).toEqual([]);
      expect(targets.filter((name) => sources.includes(name))).toEqual([]);
      const severityOf = (name: string) => alerts.get(name)?.severity;
      const mutes = sources.some((name) => severityOf(name) !== 'critical');
      expect(mutes ? targets.filter((name) => severityOf(name) === 'critical') : []).toEqual([]);
      const [, equal = ''] = /equal: \[([^\]]+)\]/.exec(pair) ?? [];
      expect(equal).toMatch(/^(owner_token_registry(, instance)?|instance)$/);
    }
  });

  it.skipIf(noAmtool)('amtool accepts it in a configuration', () => {
    const file = join(temporaryFolder(), 'alertmanager.yml');
    writeFileSync(file, `route: { receiver: nobody }\nreceivers: [{ name: nobody }]\n${inhibit}`);
    const { status, stdout, stderr } = amtool('check-config', file);
    expect({ status, output: stdout + stderr }).toEqual({
      status: 0,
      output: expect.stringContaining(`${inhibit.match(/source_matchers/g)?.length} inhibit rules`),
    });
  });
});

describe('the alert rules', () => {
  it('all fire in an incident of the table in docs/observability.md, or on metrics of redis_exporter', () => {
    const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, alert]) => alert);
    const onRedis = [...readFileSync(ON_REDIS, 'utf8').matchAll(/alertname="(\w+)"/g)].map(([, alert]) => alert);
    const inTable = [...read('../observability.md').matchAll(/`(OwnerToken\w+)` \d/g)].map(([, alert]) => alert);
    expect([...new Set([...inTable, ...onRedis])].sort()).toEqual(alerts.sort());
  });

  it.skipIf(noPromtool).each([
    ['check', join(ROOT, 'docs/monitoring/prometheus-alerts.yaml')],
    ['test', ON_REDIS],
  ])('pass promtool %s rules', (command, file) => {
    const { status, stdout, stderr } = promtool(command, 'rules', file);
    expect({ status, output: stdout + stderr }).toEqual({ status: 0, output: expect.stringContaining('SUCCESS') });
  });
});
