/**
 * What an update of the lanes costs in Chromium, with 200 owners: all that the page's main thread does for it, on average,
 * painting and moving the picture too. Needs `npm run build` and a Chromium.
 */

import http from 'node:http';
import { launchBrowser, print, requestToken } from './parts.mjs';

const FRAME_MS = 1000 / 60;
const OWNERS = 200;
const SECONDS = 6;
/** The first is the one that the figure is for; the second shows how the cost grows. */
const REQUESTS_PER_SECOND = [200, 2000];

const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../../dist/sandbox/index.js');
const sandbox = await startSandbox({ owners: OWNERS, lifetimeSeconds: 30 });
// One request in ten meets an error, so that all kinds of marks are drawn.
sandbox.faults.add({ kind: 'status', status: 503, when: { probability: 0.1 } });
const browser = await launchBrowser();
const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
await page.addInitScript(watch);
await page.goto(sandbox.portalUrl);
await page.waitForSelector('svg.lanes');
const devtools = await page.context().newCDPSession(page);
// By the processor time of the page's main thread: on a shared machine, others' work is no cost of ours.
await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });

const [cost] = [await measure(REQUESTS_PER_SECOND[0]), await measure(REQUESTS_PER_SECOND[1])];
await browser.close();
await sandbox.close();
process.exitCode = cost < FRAME_MS ? 0 : 1;

/** In the page: counts the events that change the picture. */
function watch() {
  window.updates = 0;
  const { addEventListener } = EventSource.prototype;
  EventSource.prototype.addEventListener = function (type, listener) {
    addEventListener.call(this, type, (event) => {
      if (type === 'update') window.updates++;
      listener(event);
    });
  };
}

async function measure(requestsPerSecond) {
  const before = await metrics();
  await load(requestsPerSecond);
  const after = await metrics();
  const updates = after.updates - before.updates;
  const each = (...names) => names.reduce((sum, name) => sum + after[name] - before[name], 0) / updates;
  const printMs = (name, ms, remark) => print(name, `${ms.toFixed(1)} ms`, remark);
  print(`updates at ${requestsPerSecond} requests a second`, `${updates}`, `in ${SECONDS} s, ${OWNERS} owners`);
  printMs('  script', each('ScriptDuration'));
  printMs('  style and layout', each('RecalcStyleDuration', 'LayoutDuration'));
  const whole = each('TaskDuration');
  const remark = requestsPerSecond === REQUESTS_PER_SECOND[0] ? `figure: under ${FRAME_MS.toFixed(1)} ms` : '';
  printMs('  all that the main thread does, painting and moving too', whole, remark);
  return whole;
}

async function metrics() {
  const { metrics: list } = await devtools.send('Performance.getMetrics');
  const spans = Object.fromEntries(list.map(({ name, value }) => [name, value * 1000]));
  return { ...spans, updates: await page.evaluate('window.updates') };
}

/** Every owner requests a token in turn. */
async function load(requestsPerSecond) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const keys = sandbox.accessKeys;
  const endMs = performance.now() + SECONDS * 1000;
  for (let n = 0; performance.now() < endMs; ) {
    const batch = Array.from({ length: requestsPerSecond / 50 }, () =>
      requestToken(sandbox, keys[n++ % keys.length], { agent }),
    );
    await Promise.all([...batch, new Promise((resolve) => setTimeout(resolve, 20))]);
  }
  agent.destroy();
}
