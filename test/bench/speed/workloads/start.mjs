import { execFileSync } from 'node:child_process';
import { peers } from '../../peers/index.mjs';
import { inTurns } from '../measure.mjs';

export const title = 'Import of the module, and the first registry with its endpoint, in a new process';
export const unit = 'ms of CPU time';
export const base = 'ours';

const dist = (file) => new URL(`../../../../dist/${file}`, import.meta.url).href;
const ours = dist('index.js');

/** `before` loads what the registry gets, and is not timed. */
const CONSTRUCTIONS = {
  ours: {},
  "ours, logger: 'info'": { logger: "'info'" },
  'ours, a pino logger': { before: "const { pino } = await import('pino'); const logger = pino();", logger: 'logger' },
  'ours, OpenTelemetry': {
    before: `const { instrument } = await import('${dist('otel/index.js')}');
      const { MeterProvider } = await import('@opentelemetry/sdk-metrics');
      const { BasicTracerProvider } = await import('@opentelemetry/sdk-trace-base');
      const sdk = { meterProvider: new MeterProvider(), tracerProvider: new BasicTracerProvider() };`,
    after: 'instrument(registry, sdk);',
  },
};

export async function run({ quick }) {
  const rounds = quick ? 2 : 9;
  const modules = { nothing: undefined, ours, pino: 'pino', 'lru-cache': 'lru-cache' };
  for (const { packages } of peers) modules[packages[0]] ??= packages[0];
  const imports = Object.entries(modules).map(([name, specifier]) => [
    name,
    () => msOf('', specifier ? `await import(${JSON.stringify(specifier)});` : ''),
  ]);
  const constructions = Object.entries(CONSTRUCTIONS).map(([name, options]) => [name, () => constructionMs(options)]);
  return [
    { what: 'import', rows: await inTurns(Object.fromEntries(imports), rounds) },
    { what: 'first registry constructed', rows: await inTurns(Object.fromEntries(constructions), rounds) },
  ];
}

function constructionMs({ before = '', logger, after = '' }) {
  return msOf(
    `const { OwnerTokenRegistry, TokenEndpoint } = await import('${ours}'); ${before}`,
    `const source = new TokenEndpoint({ baseUrl: 'https://service.example', clientId: 'id', clientSecret: 's' });
    const registry = new OwnerTokenRegistry({ source, logger: ${logger} });
    ${after}`,
  );
}

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
