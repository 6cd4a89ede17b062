import { execFileSync } from 'node:child_process';
import { peers } from '../../peers/index.mjs';
import { cpuUsSince, inTurns } from '../measure.mjs';
import { openOurs } from '../ours.mjs';

export const title = 'Import of the module in a new process';
export const unit = 'ms of CPU time';
export const base = 'ours';

export async function run({ quick }) {
  const ours = new URL('../../../../dist/index.js', import.meta.url).href;
  const modules = { nothing: undefined, ours, pino: 'pino', 'lru-cache': 'lru-cache' };
  for (const { packages } of peers) modules[packages[0]] ??= packages[0];
  const candidates = {};
  for (const [name, specifier] of Object.entries(modules)) {
    candidates[name] = () => importMs(specifier);
  }
  const imports = await inTurns(candidates, quick ? 2 : 9);
  const constructed = {
    ours: constructing({}),
    'ours, logging': constructing({ logger: 'warn' }),
    'ours, OpenTelemetry': constructing({ traced: true }),
  };
  return [
    { what: 'import', rows: imports },
    { what: 'a registry and its endpoint constructed', rows: await inTurns(constructed, quick ? 2 : 9) },
  ];
}

/** With the pino or the OpenTelemetry SDK that it gets. */
function constructing(options) {
  const service = { baseUrl: 'https://service.example', clientId: 'id', clientSecret: 's' };
  return async () => {
    const started = process.cpuUsage();
    const opened = Array.from({ length: 500 }, () => openOurs(service, options));
    const ms = cpuUsSince(started) / 1_000 / 500;
    for (const { close } of opened) await close();
    return ms;
  };
}

/** In a process that has loaded nothing else; a package is the one that the benchmarks have. */
function importMs(specifier) {
  const script = `const started = process.cpuUsage();
    ${specifier ? `await import(${JSON.stringify(specifier)});` : ''}
    const { user, system } = process.cpuUsage(started);
    console.log((user + system) / 1_000);`;
  const cwd = new URL('../..', import.meta.url);
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd, encoding: 'utf8' }));
}
