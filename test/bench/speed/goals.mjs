/** The performance goals, each with the figures of a run. */

import { figure } from './report.mjs';

/** @returns `[{ goal, measured, isMet }]` */
export function goalsOf(run) {
  const row = (workload, what, name) => rowIn(run, workload, what, name);
  const ratios = (workload, whats, name) => whats.map((what) => row(workload, what, name).ratio);
  const sizes = ['100 owners', '10,000 owners', '100,000 owners'];
  const shareOfBare = (kind) =>
    ['16 at once, ', '64 at once, '].flatMap((atOnce) =>
      ['', 'in a new process, '].map((when) => 1 / row('fill', `${atOnce}${when}${kind}`, 'ours').ratio),
    );
  const observed = (name) => [row('hit', '10,000 owners, observed', name).ratio];
  const allocated = (name) => row('fill', 'allocated', name).min / 1_000;
  const bytes = (name) => [row('memory', '200,000 owners', name).min];
  const stalls = run.workloads.stalls.tables.map(({ rows }) => Math.max(...rows.map(({ min }) => min)));
  return [
    goal(
      'Time of a hit, relative to `lru-cache get`, one `Date.now()` and an `await` (100, 10,000, 100,000 owners)',
      ratios('hit', sizes, 'ours'),
      '×',
      1.1,
    ),
    goal(
      'Time of a hit, relative to the fastest other library that checks the time at each hit (100, 10,000, 100,000 owners)',
      sizes.map((size) => toFastest(run, size)),
      '×',
      1,
    ),
    goal(
      'Time of a hit with a diagnostics subscriber, relative to one without',
      observed('ours, lookup subscriber'),
      '×',
      1.5,
    ),
    goal(
      'Time of a hit with logging at `debug`, and with OpenTelemetry, relative to one with neither',
      [...observed('ours, logging'), ...observed('ours, OpenTelemetry')],
      '×',
      1.3,
    ),
    goal(
      'Cold owners per second of CPU time, relative to a bare `node:http` loop (16 at once: warmed up, in a new process; 64 at once: the same)',
      shareOfBare('CPU time'),
      '×',
      0.85,
      'least',
    ),
    goal(
      'Cold owners per second of wall-clock time, relative to the same loop',
      shareOfBare('by the clock'),
      '×',
      0.9,
      'least',
    ),
    goal(
      'CPU time of a cold owner over `fetch`, relative to the leanest other library over `fetch` (16, 64 at once)',
      toLeanest(run),
      '×',
      1.2,
    ),
    goal(
      'Allocation per cold request, beyond that of a bare request',
      [allocated('ours') - allocated('bare node:http')],
      'kB',
      6,
    ),
    goal('Heap per owner with one-hour tokens (200,000 owners)', bytes('ours'), 'bytes', 260),
    goal('Heap per owner with one-year tokens (200,000 owners)', bytes('ours, tokens of a year'), 'bytes', 300),
    goal(
      'CPU time of the import, beyond that of `node:http`',
      [row('start', 'import beyond node:http', 'ours').min],
      'ms',
      15,
    ),
    goal('Bundled and minified, without dependencies', [row('size', 'bundled', 'ours').min], 'kB', 60),
    goal('Installed, with dependencies', [row('size', 'installed', 'ours').min], 'MB', 6),
    goal(
      'Longest stall of any operation on 100,000 owners (excluding and including garbage collection)',
      stalls,
      'ms',
      20,
    ),
  ];
}

function goal(what, values, unit, limit, kind = 'most') {
  const meets = (value) => (kind === 'most' ? value <= limit : value >= limit);
  return {
    goal: `${what}: at ${kind} ${limit} ${unit}`,
    measured: `${values.map(figure).join(', ')} ${unit}`,
    isMet: values.every(meets),
  };
}

/**
 * This library relative to the fastest other one that checks the time at each hit. `async-cache-dedupe` reads the clock only once a
 * second, but is not excluded, because it is slower anyway.
 */
function toFastest(run, size) {
  const { rows } = tableIn(run, 'hit', size);
  const checking = rows.filter(
    ({ name }) => name !== 'ours' && (name === 'lru-cache fetch' || !name.startsWith('lru-cache')),
  );
  return rows.find(({ name }) => name === 'ours').ratio / Math.min(...checking.map(({ ratio }) => ratio));
}

/** This library relative to the other one that uses the least CPU time. */
function toLeanest(run) {
  return ['16', '64'].map((atOnce) => {
    const { rows, base } = tableIn(run, 'fill', `${atOnce} at once, over fetch, CPU time`);
    const lean = rows.filter(({ name }) => name !== base && name !== 'bare fetch');
    return 1 / Math.min(...lean.map(({ ratio }) => ratio));
  });
}

export const tableIn = ({ workloads }, workload, what) =>
  workloads[workload].tables.find((table) => table.what === what);

export const rowIn = (run, workload, what, name) => tableIn(run, workload, what).rows.find((row) => row.name === name);
