/** What the benchmarks of the portal share: the browser, and clients that request tokens. */

import http from 'node:http';
import { chromium } from 'playwright-core';

export const launchBrowser = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
  });

/** Requests one token, and reads the answer. Rejects if the socket fails. */
export function requestToken({ url, clientId, clientSecret }, accessKey, { agent, signal } = {}) {
  const body = JSON.stringify({
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    appliance_owner_scope: accessKey,
  });
  const headers = { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', headers, agent, signal };
    const req = http.request(`${url}/auth/v1/token`, options, (res) => res.resume().on('end', resolve));
    req.on('error', reject);
    req.end(body);
  });
}

/** Requests this many tokens for the owners in turn, over 32 connections. */
export async function requestTokens(sandbox, count) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
  const keys = sandbox.accessKeys;
  let next = 0;
  const worker = async () => {
    while (next < count) await requestToken(sandbox, keys[next++ % keys.length], { agent });
  };
  await Promise.all(Array.from({ length: 32 }, worker));
  agent.destroy();
}

export const print = (name, value, remark = '') => console.log(`${name.padEnd(64)}${value.padStart(10)}  ${remark}`);

export const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
