/**
 * The figures that pages show, from the `results.json` of the benchmark that measured them: in it a table or a paragraph for each
 * `<!-- figures name -->` of its pages, with the run that it comes from.
 *
 *   node test/bench/stored.mjs      renews the pages after such a file was changed by hand
 */

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('../../', import.meta.url);
/** Before anything is measured: what is measured loads the machine itself. */
const [LOAD_AT_START] = loadavg();

/** The files, and what is computed from their rows. */
const STORES = {
  'test/arena/ablation/results.json': {},
  'test/bench/fleet/postgres.json': {},
  'test/bench/fleet/results.json': { sizing: sizingOf },
  'test/bench/flow/results.json': {},
  'test/bench/learned-lifetime/results.json': {},
  'test/bench/live-view/results.json': {},
  'test/bench/speed/versions.json': {},
  'test/mutation/results.json': {
    scores: ({ scores }) => scoresOf(scores, 'file'),
    drawn: ({ drawn }) => scoresOf(drawn, 'folder'),
  },
  'test/simulation/results.json': {},
};

/** The commit that a row is of, and its date. */
export function commitNow() {
  return execFileSync('git', ['show', '--no-patch', '--format=%h, %cs'], { encoding: 'utf8' }).trim();
}

/** Stores what a run has just measured in place of the last one, and renews the page. */
export function storeFigures(store, command, blocks) {
  const stored = read(store);
  const run = {
    command,
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus().length} cores (${cpus()[0].model.trim()})`,
    load: LOAD_AT_START.toFixed(1),
  };
  for (const [name, block] of Object.entries(blocks)) stored.figures[name] = { run, ...block };
  writeFileSync(new URL(store, ROOT), jsonOf(stored));
  renewPages();
}

/** The pages as the stored figures make them, by their paths. */
export function pagesWithFigures() {
  return Object.fromEntries(
    Object.entries(STORES).flatMap(([store, derived]) => {
      const { page, pages = [page], figures } = read(store);
      const filled = (text) =>
        text.replace(/(<!-- figures (\w+) -->\n)[\s\S]*?(?=\n<!-- end -->)/g, (_all, begin, name) => {
          const lines = derived[name]?.(figures) ?? blockOf(figures[name]);
          return `${begin}\n${lines}\n`;
        });
      return pages.map((path) => [path, filled(readFileSync(new URL(path, ROOT), 'utf8'))]);
    }),
  );
}

function renewPages() {
  for (const [page, text] of Object.entries(pagesWithFigures())) writeFileSync(new URL(page, ROOT), text);
}

/** With a row on a line, so that a person can change it. */
function jsonOf(content) {
  const rowsApart = /\[\n\s+([^[\]]*?)\n\s+\]/g;
  return `${JSON.stringify(content, null, 1).replace(rowsApart, (_all, cells) => `[${cells.replace(/,\n\s+/g, ', ')}]`)}\n`;
}

function read(store) {
  return JSON.parse(readFileSync(new URL(store, ROOT), 'utf8'));
}

function blockOf({ run, columns, rows, text }) {
  return `${text ?? tableOf(columns, rows)}\n\n${conditionsOf(run)}`;
}

function tableOf(columns, rows) {
  const row = (cells) => `| ${cells.join(' | ')} |`;
  return [row(columns), `|${'---|'.repeat(columns.length)}`, ...rows.map(row)].join('\n');
}

function conditionsOf({ command, date, commit, machine, load }) {
  const busy = load === undefined ? 'load not recorded' : `load average ${load}`;
  return `Measured ${date}, commit ${commit}, ${machine}, ${busy}: \`${command}\`.`;
}

/** A row for each file or folder, and one for all. Each has its own commit. */
function scoresOf({ run, rows }, what) {
  const sum = (at) => rows.reduce((total, row) => total + row[at], 0);
  const lines = [...rows, ['all', sum(1), sum(2), '']].map(([file, mutants, killed, commit]) => {
    const score = ((100 * killed) / mutants).toFixed(1).replace('100.0', '100');
    return [file === 'all' ? file : `\`${file}\``, en(mutants), en(killed), en(mutants - killed), `${score} %`, commit];
  });
  const columns = [what, 'mutants', 'killed', 'survived or not covered', 'score', 'at commit'];
  const { date, machine, load, command } = run;
  return `${tableOf(columns, lines)}\n\nLast measured ${date}, ${machine}, load average ${load}: \`${command}\`.`;
}

const TOKEN_LIFE_S = 3_600;
/** Each token is refreshed at 60 to 80 % of its life. */
const PER_LIFE = 1.5;

/** What 100,000 owners and 20 replicas need, by the measured cost of a script and size of a record. */
function sizingOf(figures) {
  const [owners, replicas] = [100_000, 20];
  const [leastUs, mostUs] = scriptUs(figures);
  const [, kilobytes] = figures.memory.rows.find(([characters]) => characters === '300');
  const megabytes = (owners * 1024 * Number.parseFloat(kilobytes)) / 1e6;
  const maxmemory = 2 ** Math.ceil(Math.log2(2 * megabytes));
  const scripts = (owners * replicas * PER_LIFE) / TOKEN_LIFE_S;
  const percent = (us) => Math.round(scripts * us * 1e-4);
  const restart = (us) => Math.round(owners * replicas * us * 1e-6);
  const dates = [...new Set([figures.memory.run.date, figures.load.run.date])].join(' and ');
  const table = tableOf(
    ['what', 'rule', 'here'],
    [
      [
        'records',
        'about 700 bytes plus 1.5 × the size of the token response, per owner ([measured](internals/fleet-numbers.md#memory-of-a-record))',
        `${Math.round(megabytes)} MB`,
      ],
      [
        '`maxmemory`',
        'twice the records: old ones stay after a rotated client secret or naming key',
        `${maxmemory} MB, with \`volatile-ttl\``,
      ],
      [
        'memory of the host',
        'twice `maxmemory`: fragmentation, buffers, a fork for RDB or AOF',
        `${2 * maxmemory} MB, each failover candidate too`,
      ],
      ['connections', 'two per process, one without a subscriber; on a cluster up to that per node', en(2 * replicas)],
      [
        'scripts',
        'each replica reads each new token once: owners × replicas × 1.5 per token life',
        `${en(round(scripts))} per second, ${percent(leastUs)} to ${percent(mostUs)} % of a core`,
      ],
      [
        'requests to the service',
        'owners × 1.5 per token life',
        `${en(round((owners * PER_LIFE) / TOKEN_LIFE_S))} per second`,
      ],
      [
        'all replicas restart',
        'one script per owner and replica',
        `${en(owners * replicas)} scripts, ${restart(leastUs)} to ${restart(mostUs)} s of a core`,
      ],
      ['Redis is empty', 'one request per owner', `${en(owners)}, as tokens expire; with cold replicas at once`],
      ['`maxOwners` of each registry', 'above the owners that the replica serves', '120,000'],
    ],
  );
  return `${table}\n\nFrom what was measured ${dates}: [load on Redis](internals/fleet-numbers.md#load-on-redis).`;
}

/** The least and the most CPU time of a script. */
function scriptUs({ load: { rows } }) {
  const row = rows.find(([what]) => what === 'owner and replica after a restart');
  return /(\d+) to (\d+) µs/.exec(row.at(-1)).slice(1).map(Number);
}

/** To two digits. */
const round = (value) => Number(value.toPrecision(2));
const en = (value) => value.toLocaleString('en');

if (process.argv[1] === fileURLToPath(import.meta.url)) renewPages();
