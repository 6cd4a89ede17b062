/**
 * The portal at 10,000 owners and 100,000 requests: size of the state, first paint, and what a reader of the event stream
 * costs the service, as processor time per request with and without one. Needs `npm run build` and a Chromium.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';

const OWNERS = 10_000;
const REQUESTS = 100_000;
const ROUNDS = 5;
const ROUND_REQUESTS = 4000;
const BOUND = 0.05;

const print = (name, value, remark = '') => console.log(`${name.padEnd(56)}${value.padStart(12)}  ${remark}`);
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const isServer = process.argv[2] === 'serve';

if (isServer) await serve();
else await measure();

async function serve() {
  const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../dist/sandbox/index.js');
  const { url, portalUrl, clientId, clientSecret, accessKeys } = await startSandbox({ owners: OWNERS, seed: 1 });
  process.on('message', () => process.send(process.cpuUsage()));
  process.send({ url, portalUrl, clientId, clientSecret, accessKeys });
}

async function measure() {
  const [read, unread] = [await start(), await start()];
  const { sandbox } = read;
  await load(sandbox, REQUESTS);
  await load(unread.sandbox, REQUESTS / 5);
  const state = await (await fetch(`${sandbox.portalUrl}/api/state`)).text();
  print('state', `${(state.length / 1024).toFixed(0)} KB`, `${OWNERS} owners, ${REQUESTS} requests`);
  print('first paint', `${(await firstPaint(sandbox.portalUrl)).toFixed(0)} ms`, 'navigation to the lanes');
  const perRequest = { without: [], with: [] };
  // Two processes, because one that was read keeps frames for a while for a reader that may come back.
  const reader = await openReader(sandbox.portalUrl);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, server] of [
      ['without', unread],
      ['with', read],
    ]) {
      const before = await cpuMs(server.child);
      await load(server.sandbox, ROUND_REQUESTS);
      perRequest[name].push(((await cpuMs(server.child)) - before) / ROUND_REQUESTS);
    }
  }
  reader.destroy();
  const [without, withOne] = [median(perRequest.without), median(perRequest.with)];
  const share = withOne / without - 1;
  print('processor time of a request, nobody reads', `${(without * 1000).toFixed(0)} µs`);
  print('processor time of a request, one reader', `${(withOne * 1000).toFixed(0)} µs`);
  print('a reader costs', `${(share * 100).toFixed(1)} %`, `at most ${BOUND * 100} %`);
  for (const { child } of [read, unread]) child.kill();
  process.exitCode = share <= BOUND ? 0 : 1;
}

async function start() {
  const child = fork(new URL(import.meta.url).pathname, ['serve']);
  const [sandbox] = await once(child, 'message');
  return { child, sandbox };
}

async function cpuMs(child) {
  child.send('cpu');
  const [{ user, system }] = await once(child, 'message');
  return (user + system) / 1000;
}

function openReader(portalUrl) {
  return new Promise((resolve) => {
    http.get(`${portalUrl}/api/events`, { agent: false }, (res) => {
      res.resume();
      res.on('error', () => {});
      resolve(res);
    });
  });
}

async function load({ url, clientId, clientSecret, accessKeys }, count) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
  let next = 0;
  const worker = async () => {
    while (next < count) await ask(agent, accessKeys[next++ % accessKeys.length]);
  };
  const ask = (connection, key) =>
    new Promise((resolve, reject) => {
      const fields = { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret };
      const headers = { 'content-type': 'application/json' };
      const options = { method: 'POST', headers, agent: connection };
      const req = http.request(`${url}/auth/v1/token`, options, (res) => res.resume().on('end', resolve));
      req.on('error', reject);
      req.end(JSON.stringify({ ...fields, appliance_owner_scope: key }));
    });
  await Promise.all(Array.from({ length: 32 }, worker));
  agent.destroy();
}

async function firstPaint(portalUrl) {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
  });
  const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
  const startedMs = performance.now();
  await page.goto(portalUrl);
  await page.locator('svg.lanes path.bar').first().waitFor({ state: 'attached' });
  const tookMs = performance.now() - startedMs;
  await browser.close();
  return tookMs;
}
