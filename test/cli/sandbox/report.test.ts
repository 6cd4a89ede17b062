import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { type Judged, writeReport } from '../../../src/cli/sandbox/report.ts';
import { SCENARIOS } from '../../../src/sandbox/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'reports-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('escapes every character that ends a text or an attribute', () => {
  const [scenario] = SCENARIOS as [Judged['scenario']];
  const text = 'a "quoted" <tag> & more';
  const findings = [{ expectation: text, observed: text, passed: false }];
  const verdict = { verdict: 'failed' as const, passed: false, conditions: [], findings };
  const file = join(folder, 'report.xml');
  writeReport(file, [{ scenario, verdict }]);
  const written = readFileSync(file, 'utf8');
  expect(written).not.toContain('<tag>');
  expect(written.split('a &quot;quoted&quot; &lt;tag&gt; &amp; more')).toHaveLength(3);
});
