import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A change that makes a test spin must not end the run. An unchanged run takes a minute. */
const TIMEOUT_MS = 900_000;

/** The tests of guarantees that fail with the patches, by name. */
export function brokenGuarantees(patches) {
  const folder = mkdtempSync(join(tmpdir(), 'ablation-'));
  const report = join(folder, 'report.json');
  const config = join(import.meta.dirname, 'vitest.config.mjs');
  try {
    const { error } = spawnSync(
      process.execPath,
      ['node_modules/vitest/vitest.mjs', 'run', '--config', config, '--reporter=json', `--outputFile=${report}`],
      {
        env: { ...process.env, PATCHES: JSON.stringify(patches) },
        stdio: 'ignore',
        timeout: TIMEOUT_MS,
        killSignal: 'SIGKILL',
      },
    );
    if (error) return ['their tests never end'];
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
    const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
    return tests.filter(({ status }) => status === 'failed').map(({ fullName }) => fullName);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
