import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'tsdown';

const ROOT = join(import.meta.dirname, '../..');
const OUT = join(ROOT, 'node_modules/.cache/owner-token-registry', `bundle-${process.pid}`);
let bundles = 0;
process.once('exit', () => rmSync(OUT, { recursive: true, force: true }));

/**
 * Bundles TypeScript files of this project, for plain Node. The bundles are below `node_modules`, where they can resolve
 * packages, and are removed when the process exits.
 *
 * @param entry the files by name, relative to the project's root.
 * @param patches `{ file, from, to }`: the sources are taken as if changed so. One that does not apply is an error.
 * @returns the bundles by the same names.
 */
export async function bundle(entry, patches = []) {
  const outDir = join(OUT, `${++bundles}`);
  const left = new Set(patches);
  await build({
    cwd: ROOT,
    config: false,
    entry,
    outDir,
    plugins: [patching(patches, (patch) => left.delete(patch))],
    deps: { onlyBundle: false },
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    dts: false,
    clean: false,
    fixedExtension: true,
    hash: false,
    sourcemap: true,
    logLevel: 'error',
    outputOptions: { chunkFileNames: '[name].mjs' },
  });
  for (const { file, from } of left) throw new Error(`does not apply to ${file}: ${from}`);
  return Object.fromEntries(Object.keys(entry).map((name) => [name, join(outDir, `${name}.mjs`)]));
}

/** A plugin of Rollup that changes sources by the patches, and reports each that applies. */
export function patching(patches, onApplied = () => {}) {
  return {
    name: 'patching',
    transform(code, id) {
      let changed = code;
      for (const patch of patches) {
        if (id !== join(ROOT, patch.file) || !changed.includes(patch.from)) continue;
        changed = changed.replace(patch.from, () => patch.to);
        onApplied(patch);
      }
      return changed === code ? undefined : { code: changed };
    },
  };
}

/** Bundles one file and imports it. */
export async function bundled(path, patches = []) {
  const { main } = await bundle({ main: path }, patches);
  return import(pathToFileURL(main).href);
}
