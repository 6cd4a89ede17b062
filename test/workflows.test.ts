/** The workflows of the host: a job that may publish runs no code of a dependency. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT } from './helpers/source-files.ts';

const DIRECTORY = join(ROOT, '.github/workflows');

/** Each workflow without comments: what holds for all of its jobs, and the text of each job. */
const workflows = readdirSync(DIRECTORY).map((name) => {
  const text = readFileSync(join(DIRECTORY, name), 'utf8').replace(/ *#.*/g, '');
  const [head = '', jobs = ''] = text.split(/^jobs:\n/m);
  return { name, head, jobs: jobs.split(/^(?= {2}[\w-]+:\n)/m).filter((job) => job.trim() !== '') };
});

it.each(workflows)('$name grants rights to single jobs only', ({ head }) => {
  expect(head).toMatch(/^permissions: \{\}$/m);
});

it.each(workflows)('$name pins every action to a commit', ({ jobs }) => {
  const actions = jobs.flatMap((job) => job.match(/uses: .*/g) ?? []);
  expect(actions.length).toBeGreaterThan(0);
  expect(actions.filter((action) => !/@[\da-f]{40}$/.test(action))).toEqual([]);
});

it('one job may publish: it installs nothing, checks nothing out and runs no script of a package', () => {
  const jobs = workflows.flatMap((workflow) => workflow.jobs);
  const publishing = jobs.filter((job) => /id-token: *write|write-all|secrets\.|npm publish/.test(job));
  expect([jobs.length, publishing.length]).toEqual([4, 1]);
  const [job = ''] = publishing;
  expect(job).not.toMatch(/\b(npm (?!publish )|npx|node |yarn|pnpm)|actions\/checkout/);
  expect(job.match(/npm publish .*/g)).toEqual([expect.stringContaining('--ignore-scripts')]);
  expect(job).toMatch(/sha256sum --check --strict\n.*npm publish/s);
});
