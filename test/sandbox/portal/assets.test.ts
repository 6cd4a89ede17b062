import { expect, it } from 'vitest';
import { startSandbox } from '../../../src/sandbox/index.ts';
import { portalAssets } from '../../../src/sandbox/portal/assets.ts';
import { call } from '../client.ts';

it('serves the page, its script and its style sheet, each with its type', async () => {
  await using sandbox = await startSandbox();
  for (const [path, type, text] of [
    ['/', 'text/html; charset=utf-8', '<!doctype html>'],
    ['/portal.js', 'text/javascript; charset=utf-8', 'EventSource'],
    ['/portal.css', 'text/css; charset=utf-8', 'prefers-color-scheme'],
  ] as const) {
    const reply = await call(`${sandbox.portalUrl}${path}`);
    expect(reply).toMatchObject({ status: 200, headers: { 'content-type': type } });
    expect(reply.text).toContain(text);
  }
});

it('has nothing in the page that the content security policy would refuse', () => {
  const page = portalAssets().get('/')?.body ?? '';
  expect(page).not.toMatch(/<style|style=|<script(?![^>]* src="\/)|\son\w+=|https?:\/\/(?!www\.w3\.org\/)/);
});

it('bundles no more than it uses: no Node module, nothing of the token plane', () => {
  const script = portalAssets().get('/portal.js')?.body ?? '';
  expect(script).not.toMatch(/node:|createHmac|invalid_options/);
  expect(script.length).toBeLessThan(100_000);
});
