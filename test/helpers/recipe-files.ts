/** The files of the recipes in JavaScript: the same code without its types. */

import { execFileSync } from 'node:child_process';
import { basename, join } from 'node:path';
import ts from 'typescript';
import { type Example, examplesOf, pages } from './examples.ts';
import { ROOT } from './source-files.ts';

/** Where they are, for readers to copy. */
const FOLDER = join(ROOT, 'docs/examples/recipes');

/** Decorators are TypeScript's alone. */
const hasJavaScript = ({ page, file }: Example) =>
  /^docs\/(recipes\/|testing\.md)/.test(page) &&
  !page.endsWith('/nestjs.md') &&
  file.includes('/recipes/') &&
  !/\.md-\d/.test(file);

/** Each with the code that its file must have. */
export function recipesInJavaScript(): Example[] {
  return pages()
    .flatMap(examplesOf)
    .filter(hasJavaScript)
    .map((example) => {
      const file = join(FOLDER, basename(example.file).replace('.ts', '.mjs'));
      const place = `docs/examples/recipes/${basename(file)}`;
      return { ...example, place, file, code: withoutTypes(example.code), language: 'js' };
    });
}

function withoutTypes(code: string): string {
  // TypeScript drops blank lines, but keeps comments.
  const marked = code.replace(/\nexport {};\n$/, '').replace(/^$/gm, '//blank');
  const { outputText } = ts.transpileModule(marked, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  });
  const script = outputText.replace(/^ *\/\/blank$/gm, '').replace(/(from '\.\/[\w-]+)\.js'/g, "$1.mjs'");
  const biome = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');
  return execFileSync(process.execPath, [biome, 'format', '--stdin-file-path=recipe.mjs'], {
    input: script
      .replace(/^export {};\n/m, '')
      .replace(/\n{3,}/g, '\n\n')
      .trimStart(),
    encoding: 'utf8',
  });
}
