/**
 * The Live screen in Chromium while an integration works: 200 and 5,000 owners, 400 token requests a second. Prints the heap
 * after a forced collection, the frames a second, the longest frame, and the processor time of the page's processes as a
 * share of one core: on this machine as it is, with every core taken by others, and after an hour of updates, which the page
 * gets as fast as it takes them. Needs `npm run build` and a Chromium.
 *
 *   npm run bench -- portal --seconds 60     longer than 20 seconds each
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { availableParallelism, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { launchBrowser, print, requestToken } from './parts.mjs';

const REQUESTS_PER_SECOND = 400;
const HOUR_FRAMES = 36_000;
const FIGURES = { heapMB: 60, cpuShare: 0.3, longestMs: 200 };

const { values: options } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '20' }, owners: { type: 'string', default: '200,5000' } },
});
const SECONDS = Number(options.seconds);

if (process.argv[2] === 'serve') await serve(Number(process.argv[3]));
else await measure();

/** The sandbox and its clients, in a process of their own: one request in ten fails, so that all kinds of marks are drawn. */
async function serve(owners) {
  const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../../dist/sandbox/index.js');
  const sandbox = await startSandbox({ owners, lifetimeSeconds: 30 });
  sandbox.faults.add({ kind: 'status', status: 503, when: { probability: 0.1 } });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const keys = sandbox.accessKeys;
  const startMs = performance.now();
  let sent = 0;
  setInterval(() => {
    const due = ((performance.now() - startMs) / 1000) * REQUESTS_PER_SECOND;
    for (; sent < due; sent++) void requestToken(sandbox, keys[sent % keys.length], { agent }).catch(() => {});
  }, 20);
  process.on('disconnect', () => process.exit());
  process.send({ portalUrl: sandbox.portalUrl });
}

async function measure() {
  let missed = false;
  for (const owners of options.owners.split(',').map(Number)) {
    const child = fork(new URL(import.meta.url).pathname, ['serve', `${owners}`], { execArgv: [] });
    const [{ portalUrl }] = await once(child, 'message');
    const browser = await launchBrowser();
    const live = await opened(browser, portalUrl);
    console.log(`\n${owners} owners, ${REQUESTS_PER_SECOND} requests a second, load ${loadavg()[0].toFixed(1)}`);
    await wait(5);
    const idle = await spell(live, 'the machine as it is');
    await spell(live, 'every core taken by two others', busy);
    const heapMB = await heapOf(live);
    print('  heap after a forced collection', `${heapMB.toFixed(1)} MB`, `figure: under ${FIGURES.heapMB} MB`);
    await live.page.close();
    const hourMB = await anHour(await opened(browser, portalUrl, replayed));
    await browser.close();
    child.kill();
    missed ||= heapMB > FIGURES.heapMB || hourMB > FIGURES.heapMB;
    missed ||= idle.share > FIGURES.cpuShare || idle.longestMs > FIGURES.longestMs;
  }
  process.exitCode = missed ? 1 : 0;
}

async function opened(browser, portalUrl, script) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
  if (script) await page.addInitScript(script);
  await page.goto(portalUrl);
  await page.waitForSelector('.lanes');
  const devtools = await page.context().newCDPSession(page);
  return { page, devtools, system: await browser.newBrowserCDPSession() };
}

/** Watches the page for a while. @param during runs meanwhile. */
async function spell({ page, system }, title, during = () => wait(SECONDS)) {
  await page.evaluate(countFrames);
  const before = await processorSeconds(system);
  const startMs = performance.now();
  await during();
  const seconds = (performance.now() - startMs) / 1000;
  const share = ((await processorSeconds(system)) - before) / seconds;
  const { frames, longestMs } = await page.evaluate('window.stopCounting()');
  print(`  ${title}: frames a second`, (frames / seconds).toFixed(1));
  print('    longest frame', `${longestMs.toFixed(0)} ms`, `figure where idle: at most ${FIGURES.longestMs} ms`);
  const remark = `of one core; figure where idle: at most ${FIGURES.cpuShare * 100} %`;
  print('    processor time of the page', `${(share * 100).toFixed(0)} %`, remark);
  return { share, longestMs };
}

/** In the page. */
function countFrames() {
  let [frames, longestMs, lastMs, counts] = [0, 0, performance.now(), true];
  const next = () => {
    const nowMs = performance.now();
    frames++;
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    if (counts) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
  window.stopCounting = () => {
    counts = false;
    return { frames, longestMs };
  };
}

/** The processes that run and draw pages. */
async function processorSeconds(system) {
  const { processInfo } = await system.send('SystemInfo.getProcessInfo');
  return processInfo.filter(({ type }) => /renderer|gpu/i.test(type)).reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

async function busy() {
  const code = "const { parentPort } = require('node:worker_threads'); for (;;) Math.random();";
  const others = Array.from({ length: availableParallelism() * 2 }, () => new Worker(code, { eval: true }));
  await wait(SECONDS);
  await Promise.all(others.map((other) => other.terminate()));
}

async function heapOf({ devtools }) {
  await devtools.send('HeapProfiler.collectGarbage');
  const { usedSize } = await devtools.send('Runtime.getHeapUsage');
  return usedSize / 1e6;
}

/** In the page: an event stream whose events come from the benchmark, after the server's state. */
function replayed() {
  const sources = [];
  window.EventSource = class extends EventTarget {
    static CLOSED = 2;
    constructor(url) {
      super();
      sources.push(this);
      void this.begin(url);
    }
    async begin(url) {
      const state = await (await fetch(url.replace('events', 'state'))).json();
      this.dispatchEvent(new Event('open'));
      this.dispatchEvent(new MessageEvent('update', { data: JSON.stringify({ clock: state.clock, state }) }));
    }
    close() {}
  };
  let [id, second] = [1e6, 0];
  const outcomes = ['issued', 'issued', 'issued', 'server_error', 'rate_limited'];
  /** One tenth of a second: 40 requests of as many owners, each with a token. */
  const frame = (nowMs, owners) => {
    const requests = Array.from({ length: 40 }, (_, n) => {
      const owner = `owner-${`${1 + ((id + n) % owners)}`.padStart(3, '0')}`;
      const token = `f${id + n}`;
      const known = { owner, accessKey: `k${owner}`, token, status: 200, durationMs: 1.5, wasted: false };
      const outcome = outcomes[(id + n) % 5];
      return { id: id + n, kind: 'token', method: 'POST', atMs: nowMs - 40 + n, outcome, ...known };
    });
    id += 40;
    const tokens = requests.map(({ owner, token, atMs }) => {
      return { fingerprint: token, owner, issuedAtMs: atMs, expiresAtMs: atMs + 30_000 };
    });
    second = Math.floor(nowMs / 1000);
    const seconds = [[second, 200, 0, 100, 100, 0, 0, 0]];
    const figures = { total: id, tokenRequests: id, wasted: 0, inFlight: 0, owners, ownersAsked: owners };
    figures.ownersCovered = owners;
    return { clock: { nowMs, frozen: false }, figures, requests, tokens, seconds };
  };
  window.replay = async (fromMs, frames, owners) => {
    for (let n = 0; n < frames; n++) {
      const data = JSON.stringify(frame(fromMs + n * 100, owners));
      sources.at(-1).dispatchEvent(new MessageEvent('update', { data }));
      // Ten seconds of updates at once, and then time for the page to take and draw them.
      if (n % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 300));
    }
  };
}

async function anHour(live) {
  const heaps = [];
  const fromMs = Date.now();
  for (let part = 0; part < 6; part++) {
    const frames = HOUR_FRAMES / 6;
    await live.page.evaluate(`replay(${fromMs + part * frames * 100}, ${frames}, 200)`);
    heaps.push(await heapOf(live));
  }
  const list = heaps.map((heap) => heap.toFixed(1)).join(', ');
  print('  heap in an hour of updates, every ten minutes', `${heaps.at(-1).toFixed(1)} MB`, list);
  return heaps.at(-1);
}

function wait(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
