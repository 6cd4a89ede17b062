/**
 * Makes the pictures of `docs/`: the Live screen of 200 owners in a black hole, light and dark. `npm run build` comes first.
 * `node test/bench/portal-pictures.mjs <folder>` writes every screen at several widths instead, to look at.
 */

import { once } from 'node:events';
import http from 'node:http';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../dist/sandbox/index.js');
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
});
const SCREENS = ['owners', 'owners?owner=owner-003', 'apps', 'faults', 'response', 'scenarios'];
const [folder] = process.argv.slice(2);
if (folder === undefined) await picturesOfDocs();
else await everyScreen(folder);
await browser.close();

async function picturesOfDocs() {
  const sandbox = await startSandbox({ owners: 200, seed: 1, lifetimeSeconds: 40 });
  await blackHole(sandbox);
  const docs = fileURLToPath(new URL('../../docs/', import.meta.url));
  await picture(sandbox, '#/live', `${docs}portal.png`, { width: 1440, height: 1000, scheme: 'light' });
  await picture(sandbox, '#/live', `${docs}portal-dark.png`, { width: 1440, height: 1000, scheme: 'dark' });
  await sandbox.close();
}

async function everyScreen(into) {
  for (const owners of (process.env.OWNERS ?? '5,200,10000').split(',').map(Number)) {
    const sandbox = await startSandbox({ owners, seed: 1, lifetimeSeconds: 40 });
    await blackHole(sandbox);
    const name = (what) => `${into}/${owners}-${what}.png`;
    for (const scheme of ['light', 'dark']) {
      await picture(sandbox, '#/live', name(`live-${scheme}`), { width: 1440, height: 1000, scheme });
    }
    await picture(sandbox, '#/live', name('live-390'), { width: 390, height: 1200, scheme: 'light' });
    const screens = owners === 200 ? SCREENS : [];
    for (const screen of screens) {
      const file = name(screen.replaceAll(/\W+/g, '-'));
      await picture(sandbox, `#/${screen}`, file, { width: 1440, height: 1000, scheme: 'light' });
    }
    await sandbox.close();
  }
}

/** A cold start, a minute of work with some waste and failures, and then a black hole that is not over yet. */
async function blackHole(sandbox) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
  const keys = sandbox.accessKeys.slice(0, 400);
  const all = (list) => Promise.all(list.map((key) => ask(sandbox, agent, key)));
  sandbox.runScenario('cold-start');
  await all(keys);
  const id = sandbox.faults.add({ kind: 'status', status: 503, when: { probability: 0.3 } });
  for (let n = 0; n < 12; n++) {
    await all(keys.filter((_, index) => index % 17 === n % 17));
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
  sandbox.faults.remove(id);
  sandbox.stopScenario();
  sandbox.runScenario('black-hole');
  for (let n = 0; n < 8; n++) {
    for (const key of keys.filter((_, index) => index % 13 === n)) void ask(sandbox, agent, key, 900).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  agent.destroy();
}

async function picture(sandbox, hash, path, { width, height, scheme }) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
  await page.goto(`${sandbox.portalUrl}/${hash}`);
  await page.getByText('Connected').waitFor();
  await page.waitForTimeout(1200);
  await page.screenshot({ path });
  await page.close();
  console.log(path);
}

async function ask(sandbox, agent, accessKey, timeoutMs = 5000) {
  const body = JSON.stringify({
    grant_type: 'client_credentials',
    client_id: sandbox.clientId,
    client_secret: sandbox.clientSecret,
    appliance_owner_scope: accessKey,
  });
  const headers = { 'content-type': 'application/json' };
  const signal = AbortSignal.timeout(timeoutMs);
  const req = http.request(`${sandbox.url}/auth/v1/token`, { method: 'POST', headers, agent, signal }).end(body);
  const [res] = await once(req, 'response');
  res.resume();
  await once(res, 'end');
}
