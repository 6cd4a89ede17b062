/** A workload's results as text: the ratio to its base first. */

import { percent } from '../others.mjs';

export function text({ title, minutes, others, tables }) {
  return [
    `\n${title}\n${percent(others)} of the CPU used by other processes, ${minutes.toFixed(1)} minutes`,
    ...tables.flatMap(tableText),
  ].join('\n');
}

function tableText({ what, unit, columns = `${unit}: median, quartiles of the rounds`, base, rows }) {
  return [
    `\n  ${what}  (${base ? `ratio to ${base}; ` : ''}${columns})`,
    ...rows.map((row) => {
      const ratio = base ? (row.ratio === undefined ? '' : times(row.ratio)).padStart(8) : '';
      const figures = [row.cost, ...(row.quartiles ?? [])].map((value) => figure(value).padStart(10)).join('');
      return `  ${row.name.padEnd(42)}${ratio}${figures}   ${row.note ?? row.failure ?? ''}`;
    }),
  ];
}

export const times = (ratio) => `${ratio.toFixed(2)} ×`;

export function figure(value) {
  if (value === undefined) return '–';
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
