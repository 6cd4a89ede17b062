/** A workload's results as text: the ratio to its base first. */

export function text({ title, columns, base, tables }) {
  return [`\n${title}`, ...tables.flatMap((table) => tableText(table, columns, base))].join('\n');
}

function tableText(table, columns, base) {
  const baseRow = table.rows.find(({ name }) => name === base);
  return [
    `\n  ${subtitleOf(table) ?? ''}  (${[...(baseRow ? [`ratio to ${base}`] : []), ...columns].join('; ')})`,
    ...table.rows.map((row) => {
      const ratio = baseRow ? ratioOf(row, baseRow).padStart(8) : '';
      const figures = [row.min, row.median].map((value) => figure(value).padStart(10)).join('');
      return `  ${row.name.padEnd(28)}${ratio}${figures}   ${row.note ?? ''}`;
    }),
  ];
}

/** What tells the tables of a workload apart. */
export function subtitleOf({ owners, distribution, anew, atOnce, what }) {
  if (atOnce !== undefined) return `${atOnce} at once`;
  if (owners === undefined) return what;
  return [`${owners.toLocaleString('en')} owners`, distribution, anew && 'keys just parsed'].filter(Boolean).join(', ');
}

export const ratioOf = (row, baseRow) => `${(row.min / baseRow.min).toFixed(2)} ×`;

export function figure(value) {
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
