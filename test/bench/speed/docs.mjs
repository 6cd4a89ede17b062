/** Renews `docs/performance.md` from one whole run: the ten lines at its top, its tables, and its pictures; and the page of goals. */

import { readFileSync, writeFileSync } from 'node:fs';
import { checkUndisturbed, percent } from '../others.mjs';
import { callsByCpu, goalsOf, rowIn, tableIn } from './goals.mjs';
import { pictures } from './pictures.mjs';
import { figure, times } from './report.mjs';

export const WORKLOADS = [
  ...['size', 'start', 'hit', 'burst', 'fill', 'invalidated', 'outage', 'memory', 'stalls', 'owner-fetch'],
];

const REPEAT = 'run npm run bench -- speed --docs';

const STORE = new URL('results.json', import.meta.url);
const DOCS = new URL('../../../docs/', import.meta.url);

/** Stores a run in place of the last one. */
export function publish(run) {
  const short = (_key, value) => (typeof value === 'number' ? Number(value.toPrecision(5)) : value);
  const stored = JSON.stringify(run, short, 1);
  const files = docsOf(JSON.parse(stored));
  writeFileSync(STORE, `${stored}\n`);
  for (const [path, text] of Object.entries(files)) writeFileSync(new URL(path, DOCS), text);
}

/** The pages and pictures as this run makes them, by their paths in `docs`. Throws if the run is partial or was disturbed. */
export function docsOf(run) {
  check(run);
  const blocks = {
    summary: summaryOf(run),
    goals: goalsTable(run),
    conditions: conditionsOf(run),
    peers: peersTable(run),
    ...{ hit: hitTables(run), fill: fillTables(run), memory: memoryTable(run), stalls: stallsTable(run) },
    calls: callsTable(run),
  };
  const filled = (page) =>
    readFileSync(new URL(page, DOCS), 'utf8').replace(
      /(<!-- (?!end )(\w+) -->\n)[\s\S]*?(<!-- end -->)/g,
      (_all, begin, name, end) => `${begin}${blocks[name]}\n${end}`,
    );
  const pages = ['performance.md', 'internals/speed.md'].map((page) => [page, filled(page)]);
  const svgs = Object.entries(pictures(run.workloads)).map(([name, svg]) => [`pictures/performance-${name}.svg`, svg]);
  return Object.fromEntries([...pages, ...svgs]);
}

function check(run) {
  const lacking = WORKLOADS.filter((name) => !run.workloads[name]);
  if (lacking.length > 0) throw new Error(`the run lacks ${lacking.join(', ')}: ${REPEAT} once more`);
  checkMeasured(run);
}

/** Throws if a library failed in a workload so far, or other processes used the CPU. */
export function checkMeasured({ workloads }) {
  const failed = Object.entries(workloads).flatMap(([name, { tables }]) =>
    tables.flatMap(({ rows }) => rows.filter(({ cost }) => cost === undefined).map((row) => `${row.name} in ${name}`)),
  );
  if (failed.length > 0) throw new Error(`the run lacks ${failed.join(', ')}: ${REPEAT} once more`);
  const shares = Object.entries(workloads).map(([name, { others }]) => [name, others]);
  checkUndisturbed(Object.fromEntries(shares), REPEAT);
}

/** What a reader needs to know, in ten lines. */
function summaryOf(run) {
  const row = (workload, what, name = 'ours') => rowIn(run, workload, what, name);
  const cost = (...place) => figure(row(...place).cost);
  const outage = tableIn(run, 'outage', 'outage').rows;
  const failed = outage.filter(({ name }) => name !== 'ours').map((each) => each.failed);
  const [ours] = outage;
  const calls = callsByCpu(run);
  const kb = (name) => cost('size', 'bundled with dependencies', name);
  const [longest] = run.workloads.stalls.tables[0].rows.toSorted((a, b) => b.cost - a.cost);
  const [hit, observed, cold] = ['10,000 owners', '100 owners, observed', '16 at once, CPU time'];
  return [
    `A **hit** takes ${cost('hit', hit)} ns with 10,000 owners, ${times(row('hit', hit).ratio)} as long as an \`lru-cache\` lookup plus \`Date.now()\`.`,
    `A **cold owner** takes ${cost('fill', cold)} µs of CPU time, ${times(row('fill', cold).ratio)} that of a bare \`node:http\` loop. Over \`fetch\` it takes ${cost('fill', cold, 'ours over fetch')} µs.`,
    `**Concurrent callers** of one cold owner share its request: ${row('burst', 'concurrent callers').note}, at ${cost('burst', 'concurrent callers')} µs each.`,
    `If 5 % of the tokens are **invalidated**, a call takes ${cost('invalidated', '5 % invalidated')} µs of CPU time, renewals included.`,
    `In an **outage** of five minutes, ${ours.failed} of ${ours.calls.toLocaleString('en')} calls fail; with the other libraries ${Math.min(...failed)} to ${Math.max(...failed)} do.`,
    `An **owner** needs ${cost('memory', '200,000 owners')} bytes of heap besides its key and token; a bare \`lru-cache\` ${cost('memory', '200,000 owners', 'lru-cache get')}.`,
    `**Importing** the package takes ${cost('start', 'import beyond node:http')} ms beyond \`node:http\`, the first registry ${cost('start', 'first registry')} ms, or ${cost('start', 'first registry', "ours, logger: 'info'")} ms if it loads pino. **Bundled** it has ${kb('ours')} kB; openid-client ${kb('openid-client')}, msal-node ${kb('@azure/msal-node')}.`,
    `**\`ownerFetch\`** takes ${times(Math.min(...calls))} to ${times(Math.max(...calls))} the CPU time of a \`fetch\` with an \`authorization\` header.`,
    `With 100 owners, a hit with **logging at \`debug\`** takes ${times(row('hit', observed, 'ours, logging').ratio)} as long as one without, with **OpenTelemetry** ${times(row('hit', observed, 'ours, OpenTelemetry').ratio)}.`,
    `**No operation on 100,000 owners** blocks the event loop for more than ${figure(longest.cost)} ms (${longest.name}), excluding garbage collection.`,
  ]
    .map((line) => `- ${line}`)
    .join('\n');
}

function goalsTable(run) {
  const rows = goalsOf(run).map(({ goal, measured, isMet, why }) =>
    isMet ? [goal, measured, ''] : [goal, `**${measured}**: missed`, why],
  );
  return markdownTable(['goal', 'measured', 'why it is missed'], rows, '---');
}

function conditionsOf({ conditions: { date, commit, node, machine, load, versions }, workloads }) {
  const libraries = Object.entries(versions).map(([library, version]) => `${library} ${version}`);
  const minutes = Object.values(workloads).reduce((sum, each) => sum + each.minutes, 0);
  return `Measured in one run of ${Math.round(minutes)} minutes: ${date}, commit ${commit}, Node ${node.slice(1)}, ${machine}, ${load}; ${libraries.join(', ')}.`;
}

/** The package of each candidate that is not named after its package. */
const PACKAGES = {
  badgateway: '@badgateway/oauth2-client',
  'msal-node': '@azure/msal-node',
  'octokit auth-app': '@octokit/auth-app',
  'openid-client + Map': 'openid-client',
  'simple-oauth2 + Map': 'simple-oauth2',
  'cockatiel + lru-cache': 'cockatiel',
  'lru-cache fetch': 'lru-cache',
};

const OVER_HTTP = ['ours', 'simple-oauth2 + Map'];

/** This library compared with the others: a row for each, and a column for each workload. */
function peersTable(run) {
  const burst = tableIn(run, 'burst', 'concurrent callers').rows;
  const [ours, ...others] = burst.map(({ name }) => name);
  const packageOf = (name) => PACKAGES[name] ?? name;
  const columns = {
    'hit, ns': ['hit', '100 owners'],
    'cold owner, µs': ['fill', '16 at once, CPU time'],
    'caller of a burst, µs': ['burst', 'concurrent callers'],
    'call with 5 % invalidated, µs': ['invalidated', '5 % invalidated'],
    'outage, p99, s': ['outage', 'outage'],
    'outage, failed calls': ['outage', 'outage', ({ failed }) => `${failed}`],
    'owner, bytes': ['memory', '1,000 owners'],
    'import, ms': ['start', 'import beyond node:http', undefined, packageOf],
    'bundled, kB': ['size', 'bundled with dependencies', undefined, packageOf],
  };
  const rows = [ours, 'ours over fetch', ...others].map((name) => [
    name,
    OVER_HTTP.includes(name) ? '`node:http`' : '`fetch`',
    ...Object.values(columns).map(([workload, what, cell = cellOf, nameOf = String]) => {
      const row = rowIn(run, workload, what, nameOf(name));
      return row ? cell(row) : '';
    }),
  ]);
  const apart = burst.filter(({ note }) => note !== burst[0].note).map(({ name }) => name);
  const used = ['hit', 'fill', 'burst', 'invalidated', 'outage', 'memory', 'start'];
  return `${markdownTable(['', 'transport', ...Object.keys(columns)], rows)}\n\nA burst makes one request, except with ${apart.join(' and ')}. ${othersOf(run, used)}`;
}

function hitTables(run) {
  const isObserved = ({ what }) => what.endsWith('observed');
  const tables = run.workloads.hit.tables.filter((table) => !isObserved(table));
  const names = tables.find(({ what }) => what === '10,000 owners').rows.map(({ name }) => name);
  const observed = run.workloads.hit.tables.filter(isObserved);
  return [scenesTable(tables, names), scenesTable(observed), othersOf(run, ['hit'])].join('\n\n');
}

function fillTables(run) {
  const { tables } = run.workloads.fill;
  const scenes = (base) => {
    const ofBase = tables.filter((table) => table.base === base && table.what !== 'allocated');
    return scenesTable(
      ofBase,
      ofBase.at(-1).rows.map(({ name }) => name),
    );
  };
  return [
    scenes('bare node:http'),
    scenes('ours over fetch'),
    scenesTable([tableIn(run, 'fill', 'allocated')]),
    othersOf(run, ['fill']),
  ].join('\n\n');
}

function memoryTable(run) {
  const [, bytes, pauses] = run.workloads.memory.tables;
  return [scenesTable([bytes]), scenesTable([pauses]), othersOf(run, ['memory'])].join('\n\n');
}

function callsTable(run) {
  return [scenesTable(run.workloads['owner-fetch'].tables), othersOf(run, ['owner-fetch'])].join('\n\n');
}

function stallsTable(run) {
  const [alone, collected] = run.workloads.stalls.tables;
  const rows = alone.rows.map(({ name, cost }, at) => [name, figure(cost), figure(collected.rows[at].cost)]);
  const table = markdownTable(['', 'ms', 'ms, including garbage collection'], rows);
  return `The longest stalls of the event loop, with 100,000 owners:\n\n${table}\n\n${othersOf(run, ['stalls'])}`;
}

/** A row for each scene, and a column for each candidate. */
function scenesTable(tables, names = tables[0].rows.map(({ name }) => name)) {
  const [{ unit, base }] = tables;
  const rows = tables.map((table) => [
    table.what,
    ...names.map((name) =>
      cellOf(
        table.rows.find((row) => row.name === name),
        base,
      ),
    ),
  ]);
  return `${markdownTable(['', ...names], rows)}\n\nIn ${unit}; in brackets the ratio to ${base}.`;
}

function cellOf(row, base) {
  if (!row) return '';
  return base && base !== row.name ? `${figure(row.cost)} (${times(row.ratio).replace(' ', '')})` : figure(row.cost);
}

function othersOf({ workloads }, names) {
  const others = Math.max(0.01, ...names.map((name) => workloads[name].others));
  return `Other processes used at most ${percent(others)} of the CPU.`;
}

function markdownTable(head, rows, alignment = '--:') {
  const cells = (values) => `| ${values.join(' | ')} |`;
  return [head, head.map((_, at) => (at === 0 ? '---' : alignment)), ...rows].map(cells).join('\n');
}
