import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';
import { expect, it } from 'vitest';
import { bundlePage, PORTAL, portalPlugin } from '../../../src/picture/bundle.ts';
import { startSandbox } from '../../../src/sandbox/index.ts';
import { portalAssets } from '../../../src/sandbox/portal/assets.ts';
import { ROOT } from '../../helpers/source-files.ts';
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
  const page = portalAssets().get('/')?.body ?? '';
  expect(page).not.toMatch(/<style|style=|<script(?![^>]* src="\/)|\son\w+=|https?:\/\/(?!www\.w3\.org\/)/);
});

it('the script of the page bundles no more than it uses: no Node module, nothing of the token plane', () => {
  const script = portalAssets().get('/portal.js')?.body ?? '';
  expect(script).not.toMatch(/node:|createHmac|invalid_options/);
  expect(gzipSync(script).length).toBeLessThan(60_000);
});

it('the page is built into files beside the package, each read when it is first asked for, and once', async () => {
  const home = mkdtempSync(join(tmpdir(), 'portal-'));
  try {
    const page = async () => ({ script: 'as built', style: '', bundled: [] });
    const input = join(ROOT, 'src/sandbox/portal/assets.ts');
    const build = await rolldown({ input, platform: 'node', plugins: [portalPlugin('files', page)] });
    await build.write({ dir: home, entryFileNames: 'deep/assets.mjs' });
    const built = (await import(pathToFileURL(join(home, 'deep/assets.mjs')).href)) as {
      portalAssets: typeof portalAssets;
    };
    const bodyOf = (assets: ReturnType<typeof portalAssets>) => assets.get('/portal.js')?.body;
    expect(bodyOf(built.portalAssets())).toBe('as built');
    const assets = built.portalAssets();
    writeFileSync(join(home, 'sandbox/portal/portal.js'), 'changed');
    expect(bodyOf(assets)).toBe('changed');
    writeFileSync(join(home, 'sandbox/portal/portal.js'), 'changed again');
    expect(bodyOf(assets)).toBe('changed');
  } finally {
    rmSync(home, { recursive: true });
  }
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
