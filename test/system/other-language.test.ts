/** The Python client of docs/scenarios.md: `sandbox --exit-code` gives it the verdicts that the page shows. */

import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../src/cli/commands.ts';
import { ROOT } from '../helpers/source-files.ts';

const CLIENT = readFileSync(join(ROOT, 'docs/examples/client.py'), 'utf8');
const PAGE = readFileSync(join(ROOT, 'docs/scenarios.md'), 'utf8');

/** With `REQUIRE_PYTHON=1` the test runs and fails where there is none. */
const noPython = spawnSync('python3', ['--version']).status !== 0 && process.env.REQUIRE_PYTHON !== '1';

/** Runs a Python client through the outage. Its backoff takes real time; only the observation after it is shortened. */
async function judged(program: string): Promise<{ code: number; verdict: string }> {
  const printed = { out: '', err: '' };
  const into = (stream: 'out' | 'err') => ({
    write(text: string | Uint8Array) {
      printed[stream] += String(text);
      return true;
    },
  });
  const until = (stream: 'out' | 'err', pattern: RegExp) =>
    vi.waitUntil(() => pattern.test(printed[stream]), { timeout: 100_000 });
  const stop = new AbortController();
  const args = ['--port', '0', '--portal-port', '0', '--print-env', '--scenario', 'outage', '--exit-code'];
  const ended = runCommandLine(['sandbox', ...args], {
    env: {},
    out: into('out'),
    err: into('err'),
    signal: stop.signal,
  });
  await until('out', /PORTAL_URL/);
  const settings = parseEnv(printed.out);
  const env = { PATH: process.env.PATH, ...settings };
  const client = spawn('python3', ['-c', program], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  try {
    await until('err', /^ {2}(50|4\d) s left/m);
    await fetch(`${settings.PORTAL_URL}/api/clock`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ advanceMs: 50_000 }),
    });
    return { code: await ended, verdict: /^Scenario outage(.|\n)*/m.exec(printed.err)?.[0] ?? '' };
  } finally {
    client.kill();
    stop.abort();
  }
}

/** A verdict without its numbers, which differ from run to run. */
const shapeOf = (verdict = '') => verdict.trimEnd().replaceAll(/\d[\d,.]*/g, 'N');

describe('the client in Python', () => {
  const [passed, failed] = [...PAGE.matchAll(/^```text\n(Scenario .*?)^```/gms)].map(([, verdict]) => verdict);

  it('is on the page exactly as in its file', () => {
    expect(/^```python\n(.*?)^```/ms.exec(PAGE)?.[1]).toBe(CLIENT);
  });

  it.skipIf(noPython)('passes the outage, and fails it without its backoff (needs python3)', async () => {
    const withoutBackoff = CLIENT.replace(/^ +retry_at\[key\] = .*\n/m, '');
    expect(withoutBackoff).not.toBe(CLIENT);
    const [careful, hasty] = await Promise.all([judged(CLIENT), judged(withoutBackoff)]);
    expect(careful.code).toBe(0);
    expect(shapeOf(careful.verdict)).toBe(shapeOf(passed));
    expect(hasty.code).toBe(1);
    expect(shapeOf(hasty.verdict)).toBe(shapeOf(failed));
  });
});
