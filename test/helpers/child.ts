import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { ROOT } from './source-files.ts';

/** The exit of a process, and its output. */
export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
}

/** Runs modules in Node processes of their own, against a bundle of the core. */
export class Children implements Disposable {
  readonly #folder: string;

  constructor() {
    mkdirSync(join(ROOT, 'reports'), { recursive: true });
    this.#folder = mkdtempSync(join(ROOT, 'reports', 'child-'));
    buildSync({
      absWorkingDir: ROOT,
      entryPoints: ['src/index.ts'],
      outfile: join(this.#folder, 'index.js'),
      bundle: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      target: 'node20.19',
    });
  }

  /**
   * Runs this module until it ends by itself. Its imports of `owner-token-registry` get the core.
   *
   * @param flags options of Node itself.
   */
  run(code: string, args: readonly string[] = [], flags: readonly string[] = []): Promise<ChildEnd> {
    const file = join(this.#folder, `${Math.random().toString(36).slice(2)}.mjs`);
    writeFileSync(file, code.replaceAll("'owner-token-registry'", "'./index.js'"));
    const child = spawn(process.execPath, [...flags, file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (out += text));
    return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, out })));
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
