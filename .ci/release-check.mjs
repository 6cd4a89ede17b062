/** Fails while something is missing without which a release cannot be published: see docs/internals/releasing.md. */

import { readFileSync } from 'node:fs';

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const manifest = JSON.parse(read('package.json'));
const problems = ['repository', 'homepage', 'bugs']
  .filter((field) => !manifest[field])
  .map((field) => `package.json has no ${field}`);
if (!new RegExp(`^## \\[${manifest.version}\\] - \\d{4}-\\d\\d-\\d\\d$`, 'm').test(read('CHANGELOG.md'))) {
  problems.push(`CHANGELOG.md has no heading with a date for ${manifest.version}`);
}
const tag = process.env.GITHUB_REF_TYPE === 'tag' ? process.env.GITHUB_REF_NAME : undefined;
if (tag && tag !== `v${manifest.version}`) problems.push(`the tag ${tag} is not v${manifest.version}`);

for (const problem of problems) console.error(`${problem} (docs/internals/releasing.md)`);
process.exitCode = problems.length > 0 ? 1 : 0;
