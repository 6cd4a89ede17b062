// A new process, in which a package is the one that the benchmarks have. A file, as the main module of a backend is:
// Node's first import of a file takes longer from `--eval`.

import 'node:http'; // because most backends load it anyway

const [what, specifier, logger] = process.argv.slice(2);
const run = { import: () => import(specifier), construct: await construction() }[what];

const started = process.cpuUsage();
await run();
const { user, system } = process.cpuUsage(started);
console.log((user + system) / 1_000);

async function construction() {
  if (what !== 'construct') return;
  const { OwnerTokenRegistry, TokenEndpoint } = await import(specifier);
  return () => {
    const source = new TokenEndpoint({ baseUrl: 'https://service.example', clientId: 'id', clientSecret: 's' });
    return new OwnerTokenRegistry(logger ? { source, logger } : { source });
  };
}
