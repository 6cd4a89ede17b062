import { inTurns, pooledCost, rowsOf } from '../measure.mjs';
import { openOurs, verify } from '../ours.mjs';
import { startService } from '../service.mjs';

export const title = 'ownerFetch with a cached token, compared with a fetch whose header is written by hand';

const BASE = 'fetch with an authorization header';
const KIB = 'x'.repeat(1_024);

/** Calls that warm the JIT up, and calls of a round. */
const CALLS = { warmUp: 3_000, counted: 400 };

/** Each pair makes the same request, as a user would write it. */
const CASES = [
  {
    what: 'GET, one after another',
    atOnce: 1,
    byHand: (url, authorization) => fetch(url, { headers: { authorization } }),
    owned: (ownerFetch, url) => ownerFetch(url),
  },
  {
    what: 'GET, 32 at once',
    atOnce: 32,
    byHand: (url, authorization) => fetch(url, { headers: { authorization } }),
    owned: (ownerFetch, url) => ownerFetch(url),
  },
  {
    what: 'POST of 1 KiB with a header, 32 at once',
    atOnce: 32,
    byHand: (url, authorization) =>
      fetch(url, { method: 'POST', body: KIB, headers: { accept: '*/*', authorization } }),
    owned: (ownerFetch, url) => ownerFetch(url, { method: 'POST', body: KIB, headers: { accept: '*/*' } }),
  },
];

export async function run({ quick }) {
  const service = await startService();
  const { registry, getToken, close } = openOurs(service);
  const url = service.resourceUrl('key');
  const token = await getToken('key');
  verify('key', token);
  const authorization = `Bearer ${token}`;
  const ownerFetch = registry.ownerFetch('key');
  const tables = [];
  for (const { what, atOnce, byHand, owned } of CASES) {
    const batch = (call) => (count) => pooledCost(() => consumed(call()), Array(count).fill(), atOnce);
    const batches = {
      [BASE]: batch(() => byHand(url, authorization)),
      ownerFetch: batch(() => owned(ownerFetch, url)),
    };
    for (const each of Object.values(batches)) await each(CALLS.warmUp);
    const counted = Object.entries(batches).map(([name, each]) => [name, () => each(CALLS.counted)]);
    const measured = await inTurns(Object.fromEntries(counted), quick ? 5 : 40, { collect: true });
    tables.push(
      {
        what: `${what}, CPU time`,
        unit: 'µs per call',
        base: BASE,
        rows: rowsOf(measured, BASE, ({ cpuUs }) => cpuUs),
      },
      { what: `${what}, by the clock`, unit: 'µs per call', base: BASE, rows: rowsOf(measured, BASE, ({ us }) => us) },
    );
  }
  await close();
  service.stop();
  return tables;
}

async function consumed(answer) {
  const response = await answer;
  if (response.status !== 200) throw new Error(`the resource answered ${response.status}`);
  await response.arrayBuffer();
}
