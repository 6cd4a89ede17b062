import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { peers } from '../../peers/index.mjs';
import { inTurns, rowsOf } from '../measure.mjs';

export const title = 'Import of the module, and the first registry with its endpoint, in a new process';

const library = new URL('../../../../dist/index.js', import.meta.url).href;
const child = fileURLToPath(new URL('start-child.mjs', import.meta.url));

export async function run({ quick }) {
  const modules = { ours: library, pino: 'pino', 'lru-cache': 'lru-cache' };
  for (const { packages } of peers) modules[packages[0]] ??= packages[0];
  const importing = (specifier) => () => msOf('import', specifier);
  const constructing = (logger) => () => msOf('construct', library, logger);
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
    await table('first registry', { ours: constructing(''), "ours, logger: 'info'": constructing('info') }),
  ];
}

/** In a new process. */
function msOf(...work) {
  return Number(execFileSync(process.execPath, [child, ...work], { encoding: 'utf8' }));
}
