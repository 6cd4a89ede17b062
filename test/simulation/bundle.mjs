import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'tsdown';

const ROOT = join(import.meta.dirname, '../..');
let bundles = 0;

/**
 * Bundles a TypeScript file of this project with what it imports of it, and gives the module.
 *
 * @param patches `{ file, from, to }`: the sources are taken as if changed so. One that does not apply is an error.
 */
export async function bundled(path, patches = []) {
  const outDir = join(ROOT, 'node_modules/.cache/simulation', `${process.pid}-${++bundles}`);
  const name = path.replaceAll(/\W+/g, '-');
  const left = new Set(patches);
  const patching = {
    name: 'patching',
    transform(code, id) {
      let changed = code;
      for (const patch of patches) {
        if (id !== join(ROOT, patch.file) || !changed.includes(patch.from)) continue;
        changed = changed.replace(patch.from, () => patch.to);
        left.delete(patch);
      }
      return changed === code ? undefined : { code: changed };
    },
  };
  await build({
    ...{ cwd: ROOT, config: false, entry: { [name]: join(ROOT, path) }, outDir, plugins: [patching] },
    ...{ platform: 'node', format: 'esm', dts: false, clean: false, hash: false, fixedExtension: true },
    ...{ sourcemap: true, logLevel: 'warn', outputOptions: { chunkFileNames: '[name].mjs' } },
  });
  for (const { file, from } of left) throw new Error(`does not apply to ${file}: ${from}`);
  return import(pathToFileURL(join(outDir, `${name}.mjs`)).href);
}
