import type http from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, startSandbox } from '../../../src/sandbox/index.ts';
import { type Call, call } from '../client.ts';

let sandbox: Sandbox;

afterEach(() => sandbox.close());

const ask = (path: string, options: Call = {}) => call(`${sandbox.portalUrl}${path}`, options);
const JSON_TYPE = { 'content-type': 'application/json' };

/** An attempt to do harm: it must be refused, and must have changed nothing. */
async function attack(headers: http.OutgoingHttpHeaders, status: number, path = '/api/faults', method = 'POST') {
  const reply = await ask(path, { method, headers, body: JSON.stringify({ kind: 'silence' }) });
  expect(reply.status).toBe(status);
  expect(sandbox.faults.list()).toEqual([]);
  return reply;
}

describe('on loopback', () => {
  beforeEach(async () => {
    sandbox = await startSandbox();
  });

  it('a page cannot reach the control plane by a name of its own that resolves to it (DNS rebinding)', async () => {
    const { port } = new URL(sandbox.portalUrl);
    for (const host of [`evil.example:${port}`, 'evil.example', `127.0.0.1.evil.example:${port}`, 'localhost.evil:1']) {
      await attack({ ...JSON_TYPE, host }, 403);
      expect((await ask('/api/credentials', { headers: { host } })).status).toBe(403);
      expect((await ask('/api/events', { headers: { host } })).status).toBe(403);
      expect((await ask('/', { headers: { host } })).status).toBe(403);
    }
    for (const host of [`localhost:${port}`, `LocalHost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      expect((await ask('/api/state', { headers: { host } })).status).toBe(200);
    }
  });

  it('a page of another origin can neither write, nor listen, nor read', async () => {
    const { port } = new URL(sandbox.portalUrl);
    for (const origin of ['https://evil.example', 'null', 'http://localhost:3000', `https://127.0.0.1:${port}`]) {
      await attack({ ...JSON_TYPE, origin }, 403);
      await attack({ origin }, 403, '/api/faults', 'DELETE');
      expect((await ask('/api/events', { headers: { origin } })).status).toBe(403);
      expect((await ask('/api/credentials', { headers: { origin } })).status).toBe(403);
    }
    await attack({ ...JSON_TYPE, 'sec-fetch-site': 'cross-site' }, 403);
    expect((await ask('/api/credentials', { headers: { 'sec-fetch-site': 'same-site' } })).status).toBe(403);
    const own = { ...JSON_TYPE, origin: sandbox.portalUrl, 'sec-fetch-site': 'same-origin' };
    expect((await ask('/api/seed', { method: 'POST', headers: own, body: '{"owners":1}' })).status).toBe(200);
  });

  it('the control plane accepts neither a form nor JSON sent as text', async () => {
    for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'text/plain', '']) {
      await attack(type ? { 'content-type': type } : {}, 415);
    }
    for (const method of ['POST', 'PATCH', 'PUT']) {
      await attack({ 'content-type': 'application/jsonp' }, 415, '/api/faults', method);
    }
  });

  it('the control plane never lets another origin read it', async () => {
    const preflight = {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    };
    for (const headers of [preflight, {}]) {
      for (const path of ['/api/faults', '/api/credentials', '/']) {
        const reply = await ask(path, { method: 'OPTIONS', headers });
        expect(reply.status).toBeGreaterThanOrEqual(400);
        expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
      }
    }
  });

  it('every answer of the control plane forbids loading anything from elsewhere', async () => {
    for (const path of ['/', '/api/state', '/nothing', '/livez']) {
      const { headers } = await ask(path);
      expect(headers['content-security-policy']).toContain("default-src 'none'");
      expect(headers['content-security-policy']).not.toContain('unsafe');
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['x-frame-options']).toBe('DENY');
    }
  });

  it('the control plane serves only what exists', async () => {
    for (const path of ['/../package.json', '/..%2fpackage.json', '//etc/passwd', '/%00', '/portal/assets.ts']) {
      expect((await ask(path)).status).toBe(404);
    }
    expect((await ask('/')).headers['content-type']).toMatch(/^text\/html/);
    expect((await ask('/', { method: 'HEAD' })).text).toBe('');
    expect((await ask('/', { method: 'DELETE' })).status).toBe(405);
  });
});

describe('where others can reach the control plane', () => {
  let token: string;

  beforeEach(async () => {
    sandbox = await startSandbox({ host: '0.0.0.0' });
    token = sandbox.portalToken ?? '';
  });

  it('a token is required for everything but health', async () => {
    expect(token.length).toBeGreaterThan(30);
    const wrong = [
      `${token.slice(0, -1)}${token.endsWith('x') ? 'y' : 'x'}`,
      token.slice(0, -1),
      token.slice(0, 1),
      `${token}x`,
      token.toUpperCase(),
    ];
    const sent = wrong.flatMap((each) => [{ authorization: `Bearer ${each}` }, { cookie: `sandbox_control=${each}` }]);
    for (const each of wrong) expect((await ask(`/?token=${each}`)).status).toBe(401);
    for (const headers of [{}, { cookie: 'sandbox_control=' }, ...sent]) {
      await attack({ ...JSON_TYPE, ...headers }, 401);
      for (const path of ['/', '/api/state', '/api/credentials', '/api/events', '/nothing']) {
        expect((await ask(path, { headers })).status).toBe(401);
      }
    }
    expect((await ask('/livez')).status).toBe(200);
    expect((await ask('/readyz')).status).toBe(200);
    expect((await ask('/api/state', { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
  });

  it('the token moves from the address of the page into a cookie', async () => {
    expect((await ask('/?token=')).status).toBe(401);
    const opened = await ask(`/?token=${token}`);
    expect([opened.status, opened.headers.location]).toEqual([303, '/']);
    const [cookie = ''] = opened.headers['set-cookie'] ?? [];
    expect(cookie).toContain('HttpOnly; SameSite=Strict');
    const headers = { cookie: `other=1; ${cookie.split(';')[0]}` };
    expect((await ask('/', { headers })).status).toBe(200);
    expect((await ask(`/api/state?token=${token}`)).status).toBe(401);
  });
});
