/** What the packed tarball holds, how large it is, and what it brings along. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { posix } from 'node:path';

/** Unpacked: with the dependencies, which take 4.56 MB, it is at most 6 MB. */
const MAX_BYTES = 1_500_000;
const tarball = process.argv[2];
const files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).trim().split('\n').sort();
const manifest = JSON.parse(execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' }));
const bytes = execFileSync('tar', ['-xzOf', tarball], { maxBuffer: 10 * MAX_BYTES }).length;

console.log(`${files.length} files, ${bytes} bytes`);
assert.ok(bytes <= MAX_BYTES, `larger than ${MAX_BYTES} bytes`);
assert.deepEqual(Object.keys(manifest.dependencies).sort(), ['lru-cache', 'p-limit', 'pino']);
assert.equal(manifest.bundleDependencies ?? manifest.bundledDependencies, undefined);
assert.deepEqual(
  Object.entries(manifest.peerDependencies ?? {}).filter(([name]) => !manifest.peerDependenciesMeta?.[name]?.optional),
  [],
);
for (const script of ['preinstall', 'install', 'postinstall', 'prepare']) {
  assert.equal(manifest.scripts?.[script], undefined, `${script} would run on the user's machine`);
}
const allowed =
  /^package\/(dist\/.*\.(c?js|d\.c?ts|txt)|docs\/.*\.(md|[cm]js|py|json|yaml)|package\.json|(README|CHANGELOG|SECURITY)\.md|LICENSE)$/;
assert.deepEqual(
  files.filter((path) => !allowed.test(path)),
  [],
);
/** What the README says is left out. Every other link of a packed page leads to a packed file. */
const leftOut = /^package\/(docs\/(api|performance)\.md|docs\/internals\/.*|docs\/.*\.svg|CONTRIBUTING\.md)$/;
const links = files
  .filter((path) => path.endsWith('.md'))
  .flatMap((path) => {
    const prose = execFileSync('tar', ['-xzOf', tarball, path], { encoding: 'utf8' }).replace(/^```.*?^```/gms, '');
    const targets = [...prose.matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g)].map(([, target]) => target);
    return targets.map((target) => posix.join(posix.dirname(path), target));
  });
assert.ok(links.length > 100);
assert.deepEqual(
  links.filter(
    (link) =>
      !leftOut.test(link) && !files.some((path) => path === link || path.startsWith(`${link.replace(/\/$/, '')}/`)),
  ),
  [],
);
const needed = [
  'LICENSE',
  'README.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'docs/errors.md',
  'dist/THIRD-PARTY-LICENSES.txt',
];
for (const path of needed) {
  assert.ok(files.includes(`package/${path}`), `${path} is missing`);
}
