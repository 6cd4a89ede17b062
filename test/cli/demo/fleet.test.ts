/** The fleet demo as its users run it: the built command, its processes and a Redis of its own. */

import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'tsdown';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noRedis } from '../../helpers/redis-server.ts';
import { ROOT } from '../../helpers/source-files.ts';

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

  it('says what to do where there is no Redis', () => {
    const { status, stdout, stderr } = run([], { PATH: '/nowhere' });
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/there is no Redis here.*apt install redis-server.*REDIS_URL/s);
  });

  it.skipIf(noRedis)('asks once an owner, and loses no call when a process is killed', { timeout: 60_000 }, () => {
    const { status, stdout, stderr } = run(['--json'], { PATH: process.env.PATH });
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, alone: 1600, killed: { calls: 280, served: 280 } });
    expect(status).toBe(0);
  });
});
