/**
 * Renews `docs/performance.md` from results: the ten lines at its top, a table for each workload, and its pictures. The
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
  const blocks = Object.entries(results).map(([name, result]) => [name, tablesOf(name, result)]);
  for (const [name, block] of [['summary', summaryOf(results)], ['conditions', conditionsOf(results)], ...blocks]) {
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
    `**Concurrent callers** of one cold owner cost ${row(burst, 'ours').note}, and ${figure(row(burst, 'ours').min)} µs each.`,
    `If 5 % of the tokens are **invalidated**, a call takes ${figure(row(invalidated, 'ours').min)} µs of CPU time, renewals included.`,
    `In an **outage** of five minutes, ${row(outage, 'ours').failed} of ${calls} calls fail; with the other libraries ${Math.min(...failed)} to ${Math.max(...failed)} do.`,
    `An **owner** needs ${figure(row(memory, 'ours', 1).min)} bytes of heap with ${en(first.owners)} owners, beside key and token; a bare \`lru-cache\` ${figure(row(memory, 'lru-cache get', 1).min)}.`,
    `A **full garbage collection** stops the process for ${figure(row(memory, 'ours', memory.tables.length - 1).pauseMs)} ms with ${en(last.owners)} owners.`,
    `**Importing** the package takes ${figure(row(start, 'ours').min)} ms, the first registry ${figure(row(start, 'ours', 1).min)} ms.`,
    `**\`ownerFetch\`** adds ${percent(Math.min(...overheads))} to ${percent(Math.max(...overheads))} % of CPU time to a \`fetch\`.`,
    `**Logging at \`debug\` and OpenTelemetry** cost a hit nothing, and a cold owner ${times(fill, 'ours, logging', 'ours')} and ${times(fill, 'ours, OpenTelemetry', 'ours')} as much.`,
  ]
    .map((line) => `- ${line}`)
    .join('\n');
}

const en = (value) => Math.round(value).toLocaleString('en');

/** One paragraph, or one for the workloads of each run if they have run at different times or with different versions. */
function conditionsOf(results) {
  const workloads = new Map();
  for (const [name, { date, commit, node, machine, versions }] of Object.entries(results)) {
    const names = Object.entries(versions).map(([library, version]) => `${library} ${version}`);
    const text = `${date}, commit ${commit}, Node ${node.slice(1)}, ${machine}; ${names.join(', ')}.`;
    workloads.set(text, [...(workloads.get(text) ?? []), name]);
  }
  const isOneRun = workloads.size === 1;
  return [...workloads]
    .map(([text, names]) => `Measured${isOneRun ? '' : ` (${names.join(', ')})`}: ${text}`)
    .join('\n\n');
}

/** A last column, of what a workload counts beside the costs. */
const EXTRA = {
  burst: ['requests, callers', ({ note }) => note.replace(/ requests? for/, ',').replace(' callers', '')],
  fill: ['owners per second; in a new process', ({ rates }) => `${en(rates.warm)}; ${en(rates.first)}`],
  outage: ['failed calls; calls with an expired token', ({ failed, expired }) => `${failed}; ${expired}`],
};

function tablesOf(name, { columns, base, tables, load }) {
  const unit = columns[0].replace('least, ', '');
  const shown = name === 'hit' ? hitTables(tables, base, unit) : [tableOf(tables, base, unit, EXTRA[name])];
  return [...shown, `${tables.length > 1 ? `In ${unit}, at` : 'At'} a load of ${load}.`].join('\n\n');
}

/** A row for each candidate and a column for each scene, with the ratio to the base. */
function tableOf(tables, base, unit, [extra, extraOf] = []) {
  const names = [...new Set(tables.flatMap(({ rows }) => rows.map((row) => row.name)))];
  const head = ['', ...tables.map((table) => subtitleOf(table) ?? unit), ...(extra ? [extra] : [])];
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
  return markdownTable(head, rows);
}

function costOf(row, baseRow) {
  if (!row) return '';
  return baseRow ? `${figure(row.min)} (${ratioOf(row, baseRow)})` : figure(row.min);
}

/** A row for each number of owners, with the candidates that all tables have; then the others, where they were measured. */
function hitTables(tables, base, unit) {
  const common = tables[0].rows.map(({ name }) => name);
  const rowsOf = ({ rows }, names) => names.map((name) => rows.find((row) => row.name === name));
  const rows = tables.map((table) => [
    subtitleOf(table),
    ...rowsOf(table, common).map((row) => figure(row.min)),
    ratioOf(...rowsOf(table, ['ours', base])),
  ]);
  const others = tables
    .filter(({ distribution, anew }) => distribution === 'uniform' && !anew)
    .map((table) => ({ ...table, rows: table.rows.filter(({ name }) => !common.includes(name)) }))
    .filter((table) => table.rows.length > 0);
  return [
    markdownTable(['', ...common, `ours over ${base}`], rows),
    ...others.map((table) => tableOf([table], base, unit)),
  ];
}

function markdownTable(head, rows) {
  const cells = (values) => `| ${values.join(' | ')} |`;
  return [head, head.map((_, at) => (at === 0 ? '---' : '--:')), ...rows].map(cells).join('\n');
}
