import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { bundlePage, PORTAL } from '../../../src/page-engine/bundle.ts';
import { startSandbox } from '../../../src/sandbox/index.ts';
import { PORTAL_ASSETS } from '../../../src/sandbox/portal/assets.ts';
import { call } from '../client.ts';

it('the portal serves the page, its script and its style sheet, each with its type', async () => {
  await using sandbox = await startSandbox();
  for (const [path, type, text] of [
    ['/', 'text/html; charset=utf-8', '<!doctype html>'],
    ['/portal.js', 'text/javascript; charset=utf-8', 'EventSource'],
    ['/portal.css', 'text/css; charset=utf-8', 'color-scheme: light dark'],
  ] as const) {
    const reply = await call(`${sandbox.portalUrl}${path}`);
    expect(reply).toMatchObject({ status: 200, headers: { 'content-type': type } });
    expect(reply.text).toContain(text);
  }
});

it('the page has nothing that the content security policy would refuse', () => {
  const page = PORTAL_ASSETS.get('/')?.body ?? '';
  expect(page).not.toMatch(/<style|style=|<script(?![^>]* src="\/)|\son\w+=|https?:\/\/(?!www\.w3\.org\/)/);
});

it('the script of the page bundles no more than it uses: no Node module, nothing of the token plane', () => {
  const script = PORTAL_ASSETS.get('/portal.js')?.body ?? '';
  expect(script).not.toMatch(/node:|createHmac|invalid_options/);
  expect(gzipSync(script).length).toBeLessThan(60_000);
});

it('the script of the page bundles no package that is not named, and hands over the licence of each', async () => {
  await expect(bundlePage(PORTAL, [])).rejects.toThrow('the portal bundles preact');
  const { bundled } = await bundlePage(PORTAL, ['preact', 'valibot']);
  const licensed = { license: 'MIT', licenseText: expect.stringContaining('MIT') };
  expect(bundled).toMatchObject([
    { name: 'preact', ...licensed },
    { name: 'valibot', ...licensed },
  ]);
});
