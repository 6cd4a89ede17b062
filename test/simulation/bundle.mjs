import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'tsdown';

const ROOT = join(import.meta.dirname, '../..');

/** Bundles a TypeScript file of this project with what it imports of it, and gives the module. */
export async function bundled(path) {
  const outDir = join(ROOT, 'node_modules/.cache/simulation', String(process.pid));
  const name = path.replaceAll(/\W+/g, '-');
  await build({
    ...{ cwd: ROOT, config: false, entry: { [name]: join(ROOT, path) }, outDir },
    ...{ platform: 'node', format: 'esm', dts: false, clean: false, hash: false, fixedExtension: true },
    ...{ sourcemap: true, logLevel: 'warn', outputOptions: { chunkFileNames: '[name].mjs' } },
  });
  return import(pathToFileURL(join(outDir, `${name}.mjs`)).href);
}
