/** The goals of speed, each with what a run measured. */

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
      'a hit, over `lru-cache get`, one `Date.now()` and an await, with 100, 10,000 and 100,000 owners',
      ratios('hit', sizes, 'ours'),
      '×',
      1.1,
    ),
    goal(
      'the same, over the fastest library that checks the time at each hit',
      sizes.map((size) => overFastest(run, size)),
      '×',
      1,
    ),
    goal('a hit with a subscriber, over one without', observed('ours, lookup subscriber'), '×', 1.5),
    goal(
      'a hit with logging at `debug`, and with OpenTelemetry',
      [...observed('ours, logging'), ...observed('ours, OpenTelemetry')],
      '×',
      1.3,
    ),
    goal(
      'cold owners per CPU time over those of a bare `node:http` loop: 16 at once warm and in a new process, 64 likewise',
      shareOfBare('CPU time'),
      '×',
      0.85,
      'least',
    ),
    goal('the same by the clock', shareOfBare('by the clock'), '×', 0.9, 'least'),
    goal(
      'CPU time of a cold owner over `fetch`, over the lean libraries on `fetch`, 16 and 64 at once',
      overLean(run),
      '×',
      1.2,
    ),
    goal(
      "allocated per cold request beside the bare request's",
      [allocated('ours') - allocated('bare node:http')],
      'kB',
      6,
    ),
    goal('heap per owner with tokens of an hour, 200,000 owners', bytes('ours'), 'bytes', 260),
    goal('the same with tokens of a year', bytes('ours, tokens of a year'), 'bytes', 300),
    goal('CPU time of the import beyond `node:http`', [row('start', 'import beyond node:http', 'ours').min], 'ms', 15),
    goal('bundled and minified, without dependencies', [row('size', 'bundled', 'ours').min], 'kB', 60),
    goal('installed, dependencies included', [row('size', 'installed', 'ours').min], 'MB', 6),
    goal('longest stall of any operation on 100,000 owners, without and with garbage collection', stalls, 'ms', 20),
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

/** Of those that read the clock. `async-cache-dedupe`, which reads it once a second, is slower all the same. */
function overFastest(run, size) {
  const { rows } = tableIn(run, 'hit', size);
  const checking = rows.filter(
    ({ name }) => name !== 'ours' && (name === 'lru-cache fetch' || !name.startsWith('lru-cache')),
  );
  return rows.find(({ name }) => name === 'ours').ratio / Math.min(...checking.map(({ ratio }) => ratio));
}

/** Over the one that spends least. */
function overLean(run) {
  return ['16', '64'].map((atOnce) => {
    const { rows, base } = tableIn(run, 'fill', `${atOnce} at once, over fetch, CPU time`);
    const lean = rows.filter(({ name }) => name !== base && name !== 'bare fetch');
    return 1 / Math.min(...lean.map(({ ratio }) => ratio));
  });
}

export const tableIn = ({ workloads }, workload, what) =>
  workloads[workload].tables.find((table) => table.what === what);

export const rowIn = (run, workload, what, name) => tableIn(run, workload, what).rows.find((row) => row.name === name);
