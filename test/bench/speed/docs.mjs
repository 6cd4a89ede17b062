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
  for (const [name, svg] of Object.entries(pictures(results))) {
    writeFileSync(new URL(`pictures/performance-${name}.svg`, DOCS), svg);
  }
  const page = new URL('performance.md', DOCS);
  let markdown = readFileSync(page, 'utf8');
  for (const [name, result] of Object.entries(results)) {
    const place = new RegExp(`(<!-- ${name} -->\\n)[^]*?(<!-- end -->)`);
    markdown = markdown.replace(place, (_all, begin, end) => `${begin}${tablesOf(result)}\n${end}`);
  }
  writeFileSync(page, markdown);
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
