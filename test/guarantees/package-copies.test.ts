/** Row M6: two copies of the package in one process know each other. */

import { mkdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildSync, type Format } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as Library from '../../src/index.ts';
import { ROOT } from '../helpers/source-files.ts';

const HOME = join(ROOT, 'reports/copies');

function bundle(entry: string, outfile: string, format: Format): string {
  const options = { bundle: true, platform: 'node', logLevel: 'error', absWorkingDir: ROOT } as const;
  buildSync({ ...options, entryPoints: [entry], outfile, format });
  return outfile;
}

type Copy = typeof Library;
let copies: [esm: Copy, cjs: Copy];

beforeAll(async () => {
  mkdirSync(HOME, { recursive: true });
  const esm = bundle('src/index.ts', join(HOME, 'copy.mjs'), 'esm');
  const cjs = bundle('src/index.ts', join(HOME, 'copy.cjs'), 'cjs');
  copies = [await import(pathToFileURL(esm).href), createRequire(import.meta.url)(cjs)];
});

afterAll(() => rmSync(HOME, { recursive: true, force: true }));

describe('M6 two copies', () => {
  it('have different classes', () => {
    const [esm, cjs] = copies;
    expect(esm.OwnerTokenError).not.toBe(cjs.OwnerTokenError);
    expect(esm.AccessToken).not.toBe(cjs.AccessToken);
  });

  it('know each other’s errors: by instanceof, by isOwnerTokenError, and thrown by a source', async () => {
    for (const [ours, theirs] of [copies, copies.toReversed()] as [Copy, Copy][]) {
      const error = new theirs.OwnerTokenError('rate_limited', 'slow down', {
        failureScope: 'endpoint',
        retryAfterMs: 5_000,
        cause: Object.assign(new Error('?'), { code: 'ECONNRESET' }),
      });
      expect(error instanceof ours.OwnerTokenError).toBe(true);
      expect(ours.isOwnerTokenError(error)).toBe(true);
      const source = { requestToken: () => Promise.reject(error) };
      const registry = new ours.OwnerTokenRegistry({ source });
      const thrown = await registry.getToken('key').catch((reason: unknown) => reason);
      const expected = { code: 'rate_limited', failureScope: 'endpoint', cause: { code: 'ECONNRESET' } };
      expect(thrown).toMatchObject(expected);
      expect(registry.stats().pauses.endpoint).toMatchObject({ code: 'rate_limited' });
      await registry.close();
    }
  });

  it('escalate each other’s errors: failures of the other copy open the endpoint’s circuit like our own', async () => {
    const [ours, theirs] = copies;
    const requestToken = () => Promise.reject(new theirs.OwnerTokenError('endpoint_unavailable', 'down'));
    const registry = new ours.OwnerTokenRegistry({ source: { requestToken } });
    for (let owner = 0; owner < 10; owner++) await registry.getToken(`key-${owner}`).catch(() => {});
    expect(registry.stats().pauses.endpoint).toMatchObject({ code: 'endpoint_unavailable' });
    await registry.close();
  });

  it('know each other’s tokens: reject() of the other’s drops it', async () => {
    for (const [ours, theirs] of [copies, copies.toReversed()] as [Copy, Copy][]) {
      let issued = 0;
      const source = { requestToken: async () => ({ token: `token-${++issued}` }) };
      const [one, other] = [new ours.OwnerTokenRegistry({ source }), new theirs.OwnerTokenRegistry({ source })];
      const token = await one.getToken('key');
      expect(token instanceof theirs.AccessToken).toBe(true);
      const same = new theirs.AccessToken({ ...token, value: token.value, refreshAtMs: 0 });
      expect(one.reject('key', same)).toBe(true);
      expect((await one.getToken('key')).value).toBe('token-2');
      await Promise.all([one.close(), other.close()]);
    }
  });
});
