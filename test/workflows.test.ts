/** The workflows of the host: a job that may publish runs no code of a dependency. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT } from './helpers/source-files.ts';

const release = readFileSync(join(ROOT, '.github/workflows/release.yml'), 'utf8');

/** The text of each job, without comments. */
const jobs = release
  .replace(/ *#.*/g, '')
  .slice(release.replace(/ *#.*/g, '').indexOf('\njobs:'))
  .split(/\n(?= {2}\w+:\n)/)
  .slice(1);

it('a job that may publish installs nothing, checks nothing out and runs no script of a package', () => {
  const publishing = jobs.filter((job) => job.includes('id-token: write'));
  expect([jobs.length, publishing.length]).toEqual([2, 1]);
  const [job = ''] = publishing;
  expect(job).not.toMatch(/npm (ci|install|i|run|test|exec|pack)\b|npx|actions\/checkout|node \.ci/);
  expect(job.match(/npm publish .*/g)).toEqual([expect.stringContaining('--ignore-scripts')]);
  expect(job).toContain('sha256sum --check --strict');
});
