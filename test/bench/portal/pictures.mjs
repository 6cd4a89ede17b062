/**
 * Makes the pictures of `docs/`: the Live screen of 200 owners in a black hole, light and dark. `npm run build` comes first.
 * `node test/bench/portal/pictures.mjs <folder>` writes every screen at three widths instead, to look at.
 */

import { spawnSync } from 'node:child_process';
import http from 'node:http';
import { fileURLToPath } from 'node:url';
import { launchBrowser, requestToken } from './parts.mjs';

const { startSandbox } = await import(process.env.SANDBOX_ENTRY ?? '../../../dist/sandbox/index.js');
const browser = await launchBrowser();
const OTHER_SCREENS = ['owners', 'owners?owner=owner-003', 'faults', 'response', 'scenarios'];
const SIZES = [
  { width: 1440, height: 1000 },
  { width: 1024, height: 900 },
  { width: 390, height: 1200 },
];
const [folder] = process.argv.slice(2);
if (folder === undefined) await picturesOfDocs();
else await everyScreen(folder);
await browser.close();

async function picturesOfDocs() {
  const sandbox = await startSandbox({ owners: 200, seed: 1, lifetimeSeconds: 40 });
  await blackHole(sandbox);
  for (const [name, scheme] of [
    ['portal.png', 'light'],
    ['portal-dark.png', 'dark'],
  ]) {
    const path = fileURLToPath(new URL(`../../../docs/${name}`, import.meta.url));
    await picture(sandbox, 'live', path, { width: 1440, height: 1000 }, scheme);
    // They ship in the package. Without pngquant they are left as they are.
    const { error } = spawnSync('pngquant', ['--force', '--skip-if-larger', '--strip', '128', '--output', path, path]);
    if (error) console.log(`${name} is as large as it was made: ${error.message}`);
  }
  await sandbox.close();
}

async function everyScreen(into) {
  for (const owners of (process.env.OWNERS ?? '5,200,10000').split(',').map(Number)) {
    const sandbox = await startSandbox({ owners, seed: 1, lifetimeSeconds: 40 });
    if (owners === 5) await picture(sandbox, 'live', `${into}/first-visit.png`, SIZES[0], 'light');
    await blackHole(sandbox);
    for (const screen of owners === 200 ? ['live', ...OTHER_SCREENS] : ['live', 'owners']) {
      for (const size of SIZES) {
        for (const scheme of size.width === 1440 ? ['light', 'dark'] : ['light']) {
          const name = `${owners}-${screen.replaceAll(/\W+/g, '-')}-${size.width}-${scheme}.png`;
          await picture(sandbox, screen, `${into}/${name}`, size, scheme);
        }
      }
    }
    await sandbox.close();
  }
}

/** A cold start, some seconds of work with waste and failures, and then a black hole that is not over yet. */
async function blackHole(sandbox) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
  const keys = sandbox.accessKeys.slice(0, 400);
  const all = (list) => Promise.all(list.map((key) => requestToken(sandbox, key, { agent })));
  // A cold start creates owners up to 200.
  if (keys.length >= 200) sandbox.runScenario('cold-start');
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
    for (const key of keys.filter((_, index) => index % 13 === n)) {
      void requestToken(sandbox, key, { agent, signal: AbortSignal.timeout(900) }).catch(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  agent.destroy();
}

async function picture(sandbox, screen, path, viewport, colorScheme) {
  const page = await browser.newPage({ viewport, colorScheme });
  await page.goto(`${sandbox.portalUrl}/#/${screen}`);
  await page.getByText('Connected').waitFor();
  await page.waitForTimeout(400);
  await page.screenshot({ path });
  await page.close();
  console.log(path);
}
