/**
 * What a call through `ownerFetch` costs on a warm owner, over the same `fetch` with a hand-written header. Both run in
 * this process against one service in another, taking turns call by call (or batch by batch), so that whatever else the
 * machine does meets both alike; the figure is the ratio of the medians.
 *
 * `npm run build` first; then `npm run bench -- owner-fetch`, or `node test/bench/owner-fetch.mjs [--json] [--turns N]`.
 */

import { fork } from 'node:child_process';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';

const BOUND = 1.1;
const KIB = 'x'.repeat(1_024);

if (process.send) serve();
else await compare();

/** The service: a token for everybody, and a short answer to everything else. */
function serve() {
  const server = createServer((request, response) => {
    request.resume();
    const isToken = request.url === '/auth/v1/token';
    const body = isToken ? { access_token: 'a'.repeat(40), token_type: 'Bearer', expires_in: 3600 } : { ok: true };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1', () => process.send(server.address().port));
  process.on('disconnect', () => process.exit());
}

async function compare() {
  const { values } = parseArgs({ options: { json: { type: 'boolean' }, turns: { type: 'string', default: '1000' } } });
  const { OwnerTokenRegistry, TokenEndpoint } = await import(process.env.OTR_DIST ?? '../../dist/index.js');
  const service = fork(new URL(import.meta.url), { execArgv: [] });
  const baseUrl = `http://127.0.0.1:${await new Promise((resolve) => service.once('message', resolve))}`;
  const source = new TokenEndpoint({ baseUrl, clientId: 'client', clientSecret: 'secret' });
  const registry = new OwnerTokenRegistry({ source });
  const { authorization } = await registry.getToken('key');
  const ownerFetch = registry.ownerFetch('key');
  const url = `${baseUrl}/resource`;
  const accept = { accept: 'application/json' };

  const cases = [
    {
      name: 'GET, one after another',
      atOnce: 1,
      plain: () => fetch(url, { headers: { authorization } }),
      ours: () => ownerFetch(url),
    },
    {
      name: 'GET, 32 at once',
      atOnce: 32,
      plain: () => fetch(url, { headers: { authorization } }),
      ours: () => ownerFetch(url),
    },
    {
      name: 'POST of 1 KiB with headers, 32 at once',
      atOnce: 32,
      plain: () => fetch(url, { method: 'POST', body: KIB, headers: { ...accept, authorization } }),
      ours: () => ownerFetch(url, { method: 'POST', body: KIB, headers: accept }),
    },
    {
      name: 'GET of a Request, 32 at once',
      atOnce: 32,
      plain: () => fetch(new Request(url, { headers: { ...accept, authorization } })),
      ours: () => ownerFetch(new Request(url, { headers: accept })),
    },
  ];
  const results = [];
  for (const { name, atOnce, plain, ours } of cases) {
    const perCall = { plain: [], ours: [] };
    for (let warm = 0; warm < 100; warm++) for (const call of [plain, ours]) await time(call, 50);
    for (let turn = 0; turn < Number(values.turns); turn++) {
      // By turns the one and the other goes first.
      for (const which of turn % 2 === 0 ? ['plain', 'ours'] : ['ours', 'plain']) {
        perCall[which].push(await time(which === 'plain' ? plain : ours, atOnce));
      }
    }
    const [plainUs, oursUs] = [perCall.plain, perCall.ours].map(median);
    results.push({ name, plainUs, oursUs, ratio: oursUs / plainUs, within: oursUs / plainUs <= BOUND });
  }
  await registry.close();
  service.disconnect();
  report(results, values.json);
}

/** Microseconds a call. */
async function time(call, atOnce) {
  const startMs = performance.now();
  await Promise.all(Array.from({ length: atOnce }, async () => (await call()).arrayBuffer()));
  return ((performance.now() - startMs) * 1_000) / atOnce;
}

function median(all) {
  const sorted = all.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

function report(results, json) {
  if (json) return console.log(JSON.stringify({ bench: 'owner-fetch', bound: BOUND, results }));
  console.log('ownerFetch on a warm owner, over the same fetch with a hand-written header (medians)\n');
  for (const { name, plainUs, oursUs, ratio, within } of results) {
    const figures = `${plainUs.toFixed(0).padStart(5)} us → ${oursUs.toFixed(0).padStart(5)} us`;
    console.log(`${name.padEnd(40)} ${figures}   ${ratio.toFixed(3)}   ${within ? 'within' : 'OVER'} ${BOUND}`);
  }
  process.exitCode = results.every(({ within }) => within) ? 0 : 1;
}
