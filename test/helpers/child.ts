import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import { pathsBelow, ROOT } from './source-files.ts';

/** The exit of a process, and its output. */
export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
}

/** Folders that the main entry does not load. */
const NOT_CORE = /^(adapters|cli|otel|redis|sandbox)\//;

/** Runs modules in Node processes of their own, against the core's sources with only their types removed. */
export class Children implements Disposable {
  readonly #folder: string;

  constructor() {
    mkdirSync(join(ROOT, 'reports'), { recursive: true });
    this.#folder = mkdtempSync(join(ROOT, 'reports', 'child-'));
    const compilerOptions: ts.CompilerOptions = {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2022,
      rewriteRelativeImportExtensions: true,
      verbatimModuleSyntax: true,
    };
    for (const path of pathsBelow('src').filter((each) => !NOT_CORE.test(each))) {
      const { outputText } = ts.transpileModule(readFileSync(join(ROOT, 'src', path), 'utf8'), { compilerOptions });
      const file = join(this.#folder, path.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, outputText);
    }
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
