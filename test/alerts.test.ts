/** The alert rules against metrics that registries exported in whole incidents, and the tables of docs/observability.md. */

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { METRICS, type MetricName, promName } from '../src/otel/metrics.ts';
import { INCIDENTS, type Incident } from './helpers/alert-incidents.ts';
import { playedIncident, type Scraped } from './helpers/scraped-incident.ts';
import { ROOT } from './helpers/source-files.ts';
import { temporaryFolder } from './helpers/temporary-folder.ts';
import { MIN } from './world/setting.ts';

const PAGE = join(ROOT, 'docs/observability.md');
const RULES = join(ROOT, 'docs/monitoring/prometheus-alerts.yaml');
const rules = readFileSync(RULES, 'utf8');
const CRITICAL = [...rules.matchAll(/- alert: (\w+)\n(?:(?! alert:)[\s\S])*?severity: (\w+)/g)]
  .filter(([, , severity]) => severity === 'critical')
  .map(([, alert = '']) => alert);
/** Of those that a rule reads. */
const USED = (Object.keys(METRICS) as MetricName[])
  .map(promName)
  .filter((name) => rules.includes(name) || rules.includes(name.replace('_seconds', '(_seconds)?_bucket')));
/** With `REQUIRE_PROMTOOL=1` the tests fail where promtool is not installed. */
const noPromtool = spawnSync('promtool', ['--version']).error !== undefined && process.env.REQUIRE_PROMTOOL !== '1';

interface Fired {
  readonly alert: string;
  /** Seconds after the incident began. */
  readonly fromS: number;
  readonly untilS: number;
}

/** The notation of `promtool test rules`, in which `1x3` is four samples. */
function valuesOf(samples: readonly (string | undefined)[], length: number): string {
  const values: string[] = [];
  for (let at = 0, end = 0; at < length; at = end) {
    while (end < length && samples[end] === samples[at]) end++;
    const value = samples[at];
    if (value !== undefined) values.push(`${value}x${end - at - 1}`);
    // A series that ends is marked as stale at the next scrape.
    else if (at === 0) values.push(`_x${end}`);
    else values.push('stale', ...(end - at > 1 ? [`_x${end - at - 1}`] : []));
  }
  return values.join(' ');
}

/** When each alert fired, by `promtool`. */
function firedIn({ minutes, scrapedEveryMs, evaluatedEveryMs, fromMs }: Incident, scraped: Scraped): Fired[] {
  const length = (minutes * MIN) / scrapedEveryMs + 1;
  const step = `${evaluatedEveryMs / 1_000}s`;
  const inputs = [...scraped].map(([series, samples]) => ({ series, values: valuesOf(samples, length) }));
  // Promtool's clock begins at 0.
  const momentsOf = (of: 'min' | 'max') => ({
    expr: `${of} by (alertname) (${of}_over_time(timestamp(ALERTS{alertstate="firing"})[${minutes}m:${step}]))`,
    eval_time: `${minutes}m`,
    exp_samples: [{ labels: '{}', value: -1 }],
  });
  const file = join(temporaryFolder(), 'test.json');
  const test = {
    interval: `${scrapedEveryMs / 1_000}s`,
    input_series: inputs,
    promql_expr_test: [momentsOf('min'), momentsOf('max')],
  };
  writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: step, tests: [test] }));
  const { stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], {
    encoding: 'utf8',
    // Collecting garbage would take a third of its time.
    env: { ...process.env, GOGC: '800' },
  });
  // No sample is as expected, so promtool prints what it got.
  const [first = '', last = ''] = (stdout + stderr).split(/^\s+got:/m).slice(1);
  const read = (got: string) =>
    new Map(
      [...got.matchAll(/\{alertname="(\w+)"\} (\S+?)(?:,|\s|$)/g)].map(([, alert = '', at]) => [alert, Number(at)]),
    );
  if (!(stdout + stderr).includes('got:')) throw new Error(stdout + stderr);
  const until = read(last);
  return [...read(first)]
    .map(([alert, at]) => ({ alert, fromS: at - fromMs / 1_000, untilS: (until.get(alert) ?? 0) - fromMs / 1_000 }))
    .sort((a, b) => a.fromS - b.fromS || a.alert.localeCompare(b.alert));
}

const wordOf = (seconds: number): string => {
  const [hours, minutes, rest] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (number: number) => String(number).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
};

const cellOf = (fired: readonly Fired[]): string =>
  fired.map(({ alert, fromS, untilS }) => `\`${alert}\` ${wordOf(fromS)} to ${wordOf(untilS)}`).join('<br>') || 'none';

describe.skipIf(noPromtool)('the alerts of an incident', { timeout: 300_000 }, () => {
  /** With the rows that were played. */
  let page = readFileSync(PAGE, 'utf8');
  const fill = (table: string, ...row: string[]) => {
    const begin = page.indexOf(`<!-- ${table} -->`);
    const at = page.indexOf(`\n| ${row[0]} |`, begin) + 1;
    const isInTable = begin >= 0 && at > 0 && at < page.indexOf('<!-- end -->', begin);
    expect(isInTable, `the table of ${table} has the incident`).toBe(true);
    page = `${page.slice(0, at)}| ${row.join(' | ')} |${page.slice(page.indexOf('\n', at))}`;
  };

  it.each(Object.entries(INCIDENTS))('%s', async (what, incident) => {
    const { scraped, said, ended } = await playedIncident(incident, USED);
    const fired = firedIn(incident, scraped);
    const [critical, warning] = [true, false].map((is) => fired.filter(({ alert }) => CRITICAL.includes(alert) === is));
    fill('alerts', what, cellOf(critical ?? []), cellOf(warning ?? []));
    if (said) fill('verdicts', what, said, ended);
  });

  it('are those of the page (after a change: vitest -u)', () => expect(page).toMatchFileSnapshot(PAGE));
});
