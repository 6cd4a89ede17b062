import { execFileSync } from 'node:child_process';
import { peers } from '../../peers/index.mjs';
import { inTurns, rowsOf } from '../measure.mjs';

export const title = 'Import of the module, and the first registry with its endpoint, in a new process';

const library = new URL('../../../../dist/index.js', import.meta.url).href;

/** Loaded first, because most backends load it anyway. */
const LOADED = "await import('node:http');";

export async function run({ quick }) {
  const modules = { ours: library, pino: 'pino', 'lru-cache': 'lru-cache' };
  for (const { packages } of peers) modules[packages[0]] ??= packages[0];
  const importing = (specifier) => () => msOf(LOADED, `await import(${JSON.stringify(specifier)});`);
  const constructing = (logger) => () => msOf(...construction(logger));
  const table = async (what, candidates) => {
    const isSlow = (name) => !name.startsWith('ours');
    const rows = rowsOf(await inTurns(candidates, quick ? 2 : 20, { isSlow }), 'ours');
    return { what, unit: 'ms of CPU time', base: 'ours', rows };
  };
  return [
    await table(
      'import beyond node:http',
      Object.fromEntries(Object.entries(modules).map(([name, specifier]) => [name, importing(specifier)])),
    ),
    await table('first registry', { ours: constructing(), "ours, logger: 'info'": constructing("'info'") }),
  ];
}

const construction = (logger) => [
  `${LOADED} const { OwnerTokenRegistry, TokenEndpoint } = await import('${library}');`,
  `const source = new TokenEndpoint({ baseUrl: 'https://service.example', clientId: 'id', clientSecret: 's' });
  const registry = new OwnerTokenRegistry({ source, logger: ${logger} });`,
];

/** In a process that has loaded nothing else; a package is the one that the benchmarks have. */
function msOf(before, script) {
  const timed = `${before}
    const started = process.cpuUsage();
    ${script}
    const { user, system } = process.cpuUsage(started);
    console.log((user + system) / 1_000);`;
  const cwd = new URL('../..', import.meta.url);
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', timed], { cwd, encoding: 'utf8' }));
}
