/**
 * The portal at 10,000 owners and 100,000 requests: size of the state, first paint, and what a reader of the event stream
 * costs the service. The cost is processor time per request of one process, in rounds with a reader and without one in
 * turn. Needs `npm run build` and a Chromium.
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { launchBrowser, median, print, requestTokens } from '../portal/parts.mjs';

const OWNERS = 10_000;
const REQUESTS = 100_000;
const ROUNDS = 7;
const ROUND_REQUESTS = 8000;
const BOUND = 0.05;

if (process.argv[2] === 'serve') await serve();
else await measure();

async function serve() {
  const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../../dist/sandbox/index.js');
  const { url, portalUrl, clientId, clientSecret, accessKeys } = await startSandbox({ owners: OWNERS, seed: 1 });
  process.on('message', () => process.send(process.cpuUsage()));
  process.send({ url, portalUrl, clientId, clientSecret, accessKeys });
}

async function measure() {
  const child = fork(new URL(import.meta.url).pathname, ['serve']);
  const [sandbox] = await once(child, 'message');
  await requestTokens(sandbox, REQUESTS);
  const costs = { without: [], with: [] };
  for (let round = 0; round < ROUNDS; round++) {
    costs.without.push(await costOf(child, sandbox));
    const reader = await openReader(sandbox.portalUrl);
    costs.with.push(await costOf(child, sandbox));
    const closed = once(reader, 'close');
    reader.destroy();
    await closed;
  }
  const state = await (await fetch(`${sandbox.portalUrl}/api/state`)).text();
  print('state', `${(state.length / 1024).toFixed(0)} KB`, `${OWNERS} owners, ${REQUESTS} requests`);
  print('first paint', `${(await firstPaint(sandbox.portalUrl)).toFixed(0)} ms`, 'navigation to the lanes');
  const [without, withOne] = [median(costs.without), median(costs.with)];
  const ratios = costs.with.map((cost, round) => cost / costs.without[round]);
  const share = median(ratios) - 1;
  print('processor time of a request, no reader', `${(without * 1000).toFixed(0)} µs`);
  print('processor time of a request, one reader', `${(withOne * 1000).toFixed(0)} µs`);
  print('a reader costs', `${(share * 100).toFixed(1)} %`, `figure: at most ${BOUND * 100} %`);
  child.kill();
  process.exitCode = share <= BOUND ? 0 : 1;
}

async function costOf(child, sandbox) {
  const before = await cpuOf(child);
  await requestTokens(sandbox, ROUND_REQUESTS);
  const after = await cpuOf(child);
  return (after.user + after.system - before.user - before.system) / 1000 / ROUND_REQUESTS;
}

async function cpuOf(child) {
  child.send('cpu');
  const [answer] = await once(child, 'message');
  return answer;
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

async function firstPaint(portalUrl) {
  const browser = await launchBrowser();
  const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
  const startedMs = performance.now();
  await page.goto(portalUrl);
  await page.locator('canvas.lanes').waitFor();
  const tookMs = performance.now() - startedMs;
  await browser.close();
  return tookMs;
}
