/**
 * Writes the SBOM (CycloneDX) of what users install with the packed tarball: the package, its dependencies, and the
 * packages that are bundled in it. Fails for a component without a version or a licence.
 *
 *   node .ci/sbom.mjs <tarball> <output file>
 */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [tarball, output] = process.argv.slice(2);
const user = mkdtempSync(join(tmpdir(), 'sbom-'));
try {
  const npm = (...args) => execFileSync('npm', args, { cwd: user, encoding: 'utf8' });
  writeFileSync(join(user, 'package.json'), JSON.stringify({ name: 'user', version: '0.0.0', private: true }));
  npm('install', '--ignore-scripts', '--no-audit', '--no-fund', resolve(tarball));
  const sbom = JSON.parse(npm('sbom', '--sbom-format=cyclonedx'));
  const own = sbom.components.find(({ name }) => name === 'owner-token-registry');
  own.components = bundled(join(user, 'node_modules/owner-token-registry/dist/THIRD-PARTY-LICENSES.txt'));

  const all = [...sbom.components, ...own.components];
  const names = all.map(({ name }) => name);
  for (const name of ['lru-cache', 'p-limit', 'pino', 'preact', 'yocto-queue']) assert.ok(names.includes(name), name);
  const incomplete = all.filter(({ version, licenses }) => !version || !licenses?.length);
  assert.deepEqual(incomplete, [], 'components without a version or a licence');
  writeFileSync(output, `${JSON.stringify(sbom, undefined, 2)}\n`);
  console.log(`${sbom.bomFormat} ${sbom.specVersion}: ${all.length} components`);
} finally {
  rmSync(user, { recursive: true, force: true });
}

/** The headings of the file: `preact 10.0.0 (MIT)`. */
function bundled(path) {
  const headings = readFileSync(path, 'utf8').matchAll(/^(\S+) (\d\S*) \((.+)\)$/gm);
  return [...headings].map(([, name, version, licence]) => ({
    type: 'library',
    name,
    version,
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    licenses: [{ license: { id: licence } }],
  }));
}
