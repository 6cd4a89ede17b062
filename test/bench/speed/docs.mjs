/**
 * Renews `docs/performance.md` from results: the table between two comments of each workload, and its pictures. The
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
  const blocks = Object.entries(results).map(([name, result]) => [name, tablesOf(result)]);
  for (const [name, block] of [['versions', versionsOf(results)], ...blocks]) {
    const place = new RegExp(`(<!-- ${name} -->\\n)[^]*?(<!-- end -->)`);
    markdown = markdown.replace(place, (_all, begin, end) => `${begin}${block}\n${end}`);
  }
  const svgs = Object.entries(pictures(results)).map(([name, svg]) => [`pictures/performance-${name}.svg`, svg]);
  return { 'performance.md': markdown, ...Object.fromEntries(svgs) };
}

/** One line, or several if the workloads have run with different versions. */
function versionsOf(results) {
  const lines = Object.values(results).map(({ versions }) => {
    const names = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
    return `Versions: ${names.join(', ')}.`;
  });
  return [...new Set(lines)].join('\n\n');
}

function tablesOf({ columns, base, tables, ...conditions }) {
  const several = tables.map((table) => {
    const baseRow = table.rows.find(({ name }) => name === base);
    const notes = table.rows.some(({ note }) => note);
    const cells = (values) => `| ${values.join(' | ')} |`;
    const head = [subtitleOf(table) ?? '', ...(baseRow ? [`over ${base}`] : []), ...columns];
    const rows = table.rows.map((row) => [
      row.name,
      ...(baseRow ? [ratioOf(row, baseRow)] : []),
      ...[figure(row.min), figure(row.median)],
      ...(notes ? [row.note ?? ''] : []),
    ]);
    const all = notes ? [...head, ''] : head;
    return [
      cells(all),
      cells(all.map((_, at) => (at > 0 && at < head.length ? '--:' : '---'))),
      ...rows.map(cells),
    ].join('\n');
  });
  const { command, date, node, machine, load, commit } = conditions;
  several.push(`\`${command}\`, ${date}, commit ${commit}, Node ${node.slice(1)}, ${machine}, load ${load}.`);
  return several.join('\n\n');
}
