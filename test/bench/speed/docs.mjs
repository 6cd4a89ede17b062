/**
 * Renews `docs/performance.md` from results: the ten lines at its top, its tables, and its pictures. The
 * results of workloads that did not run now are those stored by the last run.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { pictures } from './pictures.mjs';
import { figure, ratioOf, subtitleOf } from './report.mjs';

const STORE = new URL('results.json', import.meta.url);
const DOCS = new URL('../../../docs/', import.meta.url);

export function renewDocs(measured) {
  const results = { ...JSON.parse(readFileSync(STORE, 'utf8')), ...measured };
  writeFileSync(STORE, `${JSON.stringify(results, null, 1)}\n`);
  for (const [path, text] of Object.entries(docsOf(results))) writeFileSync(new URL(path, DOCS), text);
}

/** The page and its pictures as these results make them, by their paths in `docs`. */
export function docsOf(results) {
  let markdown = readFileSync(new URL('performance.md', DOCS), 'utf8');
  const blocks = {
    summary: summaryOf(results),
    conditions: conditionsOf(results),
    peers: peersOf(results),
    hit: hitTables(results.hit),
    fill: ownTable(results.fill, ['owners per second; in a new process', ratesOf]),
    memory: ownTable(results.memory),
  };
  for (const [name, block] of Object.entries(blocks)) {
    const place = new RegExp(`(<!-- ${name} -->\\n)[^]*?(<!-- end -->)`);
    markdown = markdown.replace(place, (_all, begin, end) => `${begin}${block}\n${end}`);
  }
  const svgs = Object.entries(pictures(results)).map(([name, svg]) => [`pictures/performance-${name}.svg`, svg]);
  return { 'performance.md': markdown, ...Object.fromEntries(svgs) };
}

/** What a reader needs to know, in ten lines. */
function summaryOf({ hit, burst, fill, invalidated, outage, memory, start, 'owner-fetch': ownerFetch }) {
  const row = ({ tables }, name, at = 0) => tables[at].rows.find((each) => each.name === name);
  const hitAt = hit.tables.findIndex(
    ({ owners, distribution, anew }) => owners === 10_000 && distribution === 'uniform' && !anew,
  );
  const ns = (name) => figure(row(hit, name, hitAt).min);
  const times = (result, name, base, at) => ratioOf(row(result, name, at), row(result, base, at));
  const [first, last] = [memory.tables[1], memory.tables.at(-1)];
  const failed = outage.tables[0].rows.filter(({ name }) => !name.startsWith('ours')).map((each) => each.failed);
  const calls = /^of ([\d,]+) calls/.exec(row(outage, 'ours').note)[1];
  const overheads = ownerFetch.tables.map(
    (_, at) => row(ownerFetch, 'ownerFetch', at).min / row(ownerFetch, 'fetch', at).min,
  );
  const percent = (ratio) => Math.round((ratio - 1) * 100);
  return [
    `A **hit** takes ${ns('ours')} ns with 10,000 owners, ${times(hit, 'ours', 'lru-cache get', hitAt)} as long as a bare \`lru-cache\` lookup (${ns('lru-cache get')} ns).`,
    `A **cold owner** takes ${figure(row(fill, 'ours').min)} µs of CPU time, ${times(fill, 'ours', 'bare node:http')} that of a bare \`node:http\` loop.`,
    `**Concurrent callers** of one cold owner: ${row(burst, 'ours').note}, at ${figure(row(burst, 'ours').min)} µs each.`,
    `If 5 % of the tokens are **invalidated**, a call takes ${figure(row(invalidated, 'ours').min)} µs of CPU time, renewals included.`,
    `In an **outage** of five minutes, ${row(outage, 'ours').failed} of ${calls} calls fail; with the other libraries ${Math.min(...failed)} to ${Math.max(...failed)} do.`,
    `An **owner** needs ${figure(row(memory, 'ours', 1).min)} bytes of heap with ${en(first.owners)} owners, beside key and token; a bare \`lru-cache\` ${figure(row(memory, 'lru-cache get', 1).min)}.`,
    `A **full garbage collection** stops the process for ${figure(row(memory, 'ours', memory.tables.length - 1).pauseMs)} ms with ${en(last.owners)} owners.`,
    `**Importing** the package takes ${figure(row(start, 'ours').min)} ms, the first registry ${figure(row(start, 'ours', 1).min)} ms, or ${figure(row(start, "ours, logger: 'info'", 1).min)} ms if it loads pino.`,
    `**\`ownerFetch\`** adds ${percent(Math.min(...overheads))} to ${percent(Math.max(...overheads))} % of CPU time to a \`fetch\`.`,
    `**Logging at \`debug\` and OpenTelemetry** cost a hit nothing, and a cold owner ${times(fill, 'ours, logging', 'ours')} and ${times(fill, 'ours, OpenTelemetry', 'ours')} as much.`,
  ]
    .map((line) => `- ${line}`)
    .join('\n');
}

const en = (value) => Math.round(value).toLocaleString('en');

/** One paragraph, or one for the workloads of each run if they have run at different times or with different versions. */
function conditionsOf(results) {
  const runs = new Map();
  for (const [name, { date, commit, node, machine, load, versions }] of Object.entries(results)) {
    const libraries = Object.entries(versions).map(([library, version]) => `${library} ${version}`);
    const run = `Measured ${date}, commit ${commit}, Node ${node.slice(1)}, ${machine}; ${libraries.join(', ')}.`;
    runs.set(run, [...(runs.get(run) ?? []), `${name} ${load}`]);
  }
  return [...runs].map(([run, loads]) => `${run} Load: ${loads.join(', ')}.`).join('\n\n');
}

/** The names of packages, where they differ from those of candidates. */
const PACKAGES = {
  badgateway: '@badgateway/oauth2-client',
  'msal-node': '@azure/msal-node',
  'octokit auth-app': '@octokit/auth-app',
  'openid-client + Map': 'openid-client',
  'simple-oauth2 + Map': 'simple-oauth2',
  'lru-cache fetch': 'lru-cache',
};

/** This library beside the others: a row for each, and a column for each workload. */
function peersOf({ hit, fill, burst, invalidated, outage, memory, start }) {
  const names = burst.tables[0].rows.map(({ name }) => name).filter((name) => !name.startsWith('ours,'));
  const withPeers = hit.tables.find(({ rows }) => rows.some(({ name }) => name === 'msal-node'));
  const columns = {
    'hit, ns': withPeers,
    'cold owner, µs': fill.tables[0],
    'caller of a burst, µs': burst.tables[0],
    'call with 5 % invalidated, µs': invalidated.tables[0],
    'outage, p99, s': outage.tables[0],
    'outage, failed calls': { ...outage.tables[0], cost: ({ failed }) => `${failed}` },
    'owner, bytes': memory.tables[0],
    'import, ms': { ...start.tables[0], nameOf: (name) => PACKAGES[name] ?? name },
  };
  const rows = names.map((name) => [
    name,
    ...Object.values(columns).map(({ rows: all, cost = costOf, nameOf = String }) => {
      const row = all.find((each) => each.name === nameOf(name));
      return row ? cost(row) : '';
    }),
  ]);
  const [{ note: shared }, ...others] = burst.tables[0].rows;
  const apart = others.filter(({ note }) => note !== shared).map(({ name }) => name);
  return `${markdownTable(['', ...Object.keys(columns)], rows)}\n\nA burst makes one request, except with ${apart.join(' and ')}.`;
}

/** A row for each of our own variants and what they are compared with, and a column for each scene. */
function ownTable({ tables, base, columns: [unit] }, [extra, extraOf] = []) {
  const compared = (name) => /^(ours|lru-cache|bare|Map)/.test(name);
  const names = [...new Set(tables.flatMap(({ rows }) => rows.map(({ name }) => name)))].filter(compared);
  const scenes = tables.map((table) => subtitleOf(table) ?? '');
  const rows = names.map((name) => {
    const found = tables.map(({ rows: all }) => all.find((row) => row.name === name));
    const cells = tables.map(({ rows: all }, at) =>
      costOf(
        found[at],
        all.find((row) => row.name === base),
      ),
    );
    return [name, ...cells, ...(extra ? [extraOf(found[0])] : [])];
  });
  const table = markdownTable(['', ...scenes, ...(extra ? [extra] : [])], rows);
  return `${table}\n\nIn ${unit.replace('least, ', '')}; in brackets the ratio to ${base}.`;
}

function costOf(row, baseRow) {
  if (!row) return '';
  return baseRow ? `${figure(row.min)} (${ratioOf(row, baseRow).replace(' ', '')})` : figure(row.min);
}

const ratesOf = ({ rates }) => (rates ? `${en(rates.warm)}; ${en(rates.first)}` : '');

/** A row for each number of owners, with the candidates that all tables have. */
function hitTables({ tables, base }) {
  const common = tables[0].rows.map(({ name }) => name);
  const rowOf = ({ rows }, name) => rows.find((row) => row.name === name);
  const rows = tables.map((table) => [
    subtitleOf(table),
    ...common.map((name) => figure(rowOf(table, name).min)),
    ratioOf(rowOf(table, 'ours'), rowOf(table, base)).replace(' ', ''),
  ]);
  return `${markdownTable(['', ...common, `ours over ${base}`], rows)}\n\nIn ns.`;
}

function markdownTable(head, rows) {
  const cells = (values) => `| ${values.join(' | ')} |`;
  return [head, head.map((_, at) => (at === 0 ? '---' : '--:')), ...rows].map(cells).join('\n');
}
