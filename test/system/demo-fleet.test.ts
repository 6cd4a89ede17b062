/** The fleet demo as users run it: the built command, its processes and its own Redis. */

import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'tsdown';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noRedis } from '../helpers/redis-server.ts';
import { ROOT } from '../helpers/source-files.ts';

const outDir = `node_modules/.cache/owner-token-registry/demo-${process.pid}`;

describe('demo --fleet', () => {
  beforeAll(async () => {
    const target = { platform: 'node', target: 'node20.19', format: 'esm' } as const;
    const quiet = { config: false, dts: false, clean: false, logLevel: 'silent' } as const;
    await build({ ...quiet, ...target, cwd: ROOT, outDir, entry: { main: 'src/cli/main.ts' } });
  });
  afterAll(() => rmSync(join(ROOT, outDir), { recursive: true, force: true }));

  const run = (args: string[], env: NodeJS.ProcessEnv) => {
    const command = [join(ROOT, outDir, 'main.mjs'), 'demo', '--fleet', ...args];
    return spawnSync(process.execPath, command, { encoding: 'utf8', env, timeout: 60_000 });
  };

  it('without Redis names the next step', () => {
    const { status, stdout, stderr } = run([], { PATH: '/nowhere' });
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/no Redis found.*REDIS_URL.*apt install redis-server/s);
  });

  it.skipIf(noRedis)(
    'requests each owner once, and fails no call when a process is killed',
    { timeout: 60_000 },
    () => {
      const { status, stdout, stderr } = run(['--json'], { PATH: process.env.PATH });
      expect(stderr).toBe('');
      expect(JSON.parse(stdout)).toMatchObject({ ok: true, unshared: 1600, killed: { calls: 280, served: 280 } });
      expect(status).toBe(0);
    },
  );
});
