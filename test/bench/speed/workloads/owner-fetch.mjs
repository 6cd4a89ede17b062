import { cpuUsSince, inTurns, rowsOf } from '../measure.mjs';
import { openOurs, verify } from '../ours.mjs';
import { startService } from '../service.mjs';

export const title = 'ownerFetch on a warm owner, over the same fetch with a hand-written header';

const KIB = 'x'.repeat(1_024);

export async function run({ quick }) {
  const service = await startService();
  const { registry, getToken, close } = openOurs(service);
  const url = service.resourceUrl('key');
  const token = await getToken('key');
  verify('key', token);
  const callers = { fetch: withHeader(`Bearer ${token}`), ownerFetch: registry.ownerFetch('key') };
  const cases = [
    { what: 'GET, one after another', atOnce: 1 },
    { what: 'GET, 32 at once', atOnce: 32 },
    {
      what: 'POST of 1 KiB with headers, 32 at once',
      atOnce: 32,
      init: { method: 'POST', body: KIB, headers: { accept: '*/*' } },
    },
  ];
  const tables = [];
  for (const { what, atOnce, init } of cases) {
    const candidates = Object.fromEntries(
      Object.entries(callers).map(([name, call]) => [name, () => usPerCall(() => call(url, init), atOnce, quick)]),
    );
    const rows = rowsOf(await inTurns(candidates, quick ? 5 : 30), 'fetch');
    tables.push({ what, unit: 'µs of CPU time per call', base: 'fetch', rows });
  }
  await close();
  service.stop();
  return tables;
}

const withHeader = (authorization) => (url, init) =>
  fetch(url, { ...init, headers: { ...init?.headers, authorization } });

async function consumed(call) {
  const response = await call();
  if (response.status !== 200) throw new Error(`the resource answered ${response.status}`);
  await response.arrayBuffer();
}

async function usPerCall(call, atOnce, quick) {
  const times = quick ? 5 : 25;
  const started = process.cpuUsage();
  for (let turn = 0; turn < times; turn++) {
    await Promise.all(Array.from({ length: atOnce }, () => consumed(call)));
  }
  return cpuUsSince(started) / (times * atOnce);
}
