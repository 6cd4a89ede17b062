/**
 * Makes the pictures of the live view in `docs/`, light and dark: 3,000 owners, of whom each tenth is on a part of the service that
 * answers 503. `npm run build` comes first. Takes about half a minute.
 */

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { OwnerTokenError, OwnerTokenRegistry } from '../../../dist/index.js';
import { liveView } from '../../../dist/live-view/index.js';
import { seeded } from '../../helpers/seeded.mjs';
import { launchBrowser } from '../portal/parts.mjs';

const OWNERS = 3_000;
const RECORDED_MS = 15_000;
const random = seeded(1);
const keys = Array.from({ length: OWNERS }, (_, index) => `access-key-${String(index).padStart(4, '0')}`);
const fails = (accessKey) => accessKey.endsWith('0');

let issued = 0;
const source = {
  async requestToken(accessKey) {
    await sleep(60 + 60 * random());
    const facts = { status: 503 };
    if (fails(accessKey))
      throw new OwnerTokenError('endpoint_unavailable', 'the token endpoint responded with 503', facts);
    return { token: `token-${++issued}`, response: { expires_in: 3_600 } };
  },
};
const registry = new OwnerTokenRegistry({ source, ownerLabel: (accessKey) => `TENANT-${accessKey.slice(-4)}` });
// As if the process had run for long: what fails in its first minute is said to be older, perhaps.
Object.defineProperty(performance, 'timeOrigin', { value: Date.now() - 3_600_000 });

const call = (accessKey) => registry.getToken(accessKey).catch(() => {});
await Promise.all(keys.slice(0, 2_600).map(call));
// Mounted now, so that the many requests of a start do not dwarf the others.
const server = http.createServer(liveView(registry, { public: true }).node).listen(0, '127.0.0.1');
await once(server, 'listening');
const browser = await launchBrowser();
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
await page.goto(`http://127.0.0.1:${server.address().port}/#window=60`);
const calling = setInterval(() => {
  for (let calls = 0; calls < 10; calls++) void call(keys[Math.floor(random() * OWNERS)]);
}, 100);
await sleep(RECORDED_MS);
for (const [name, colorScheme] of [
  ['live-view.png', 'light'],
  ['live-view-dark.png', 'dark'],
]) {
  const path = fileURLToPath(new URL(`../../../docs/${name}`, import.meta.url));
  await page.emulateMedia({ colorScheme });
  await page.screenshot({ path, timeout: 300_000 });
  // Without pngquant they are left as they are.
  spawnSync('pngquant', ['--force', '--skip-if-larger', '--strip', '64', '--output', path, path]);
  console.log(path);
}
clearInterval(calling);
await browser.close();
server.closeAllConnections();
server.close();
await registry.close();
