/**
 * Stores the scores of the last `npm run mutation` and renews docs/internals/mutation.md.
 *
 *   node test/mutation/docs.mjs
 */

import { readFileSync } from 'node:fs';
import { storeFigures } from '../bench/stored.mjs';

const report = new URL('../../reports/mutation.json', import.meta.url);
const rows = [];
for (const [path, { mutants }] of Object.entries(JSON.parse(readFileSync(report, 'utf8')).files)) {
  const valid = mutants.filter(({ status }) => !['Ignored', 'CompileError', 'RuntimeError'].includes(status));
  const noticed = valid.filter(({ status }) => ['Killed', 'Timeout'].includes(status));
  const file = path.replace(/^src\/|\.ts$/g, '');
  if (valid.length > 0) rows.push([file, valid.length, noticed.length]);
}
storeFigures('test/mutation/results.json', 'npm run mutation', { scores: { rows } });
