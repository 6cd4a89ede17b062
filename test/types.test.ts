/** One type check of what users write: the contract's signatures (`types.test-d.ts`) and every example of the docs. */

import { join } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';
import { examplesOf, pages } from './helpers/examples.ts';
import { pathsBelow, ROOT } from './helpers/source-files.ts';

const SIGNATURES = join(ROOT, 'test/types.test-d.ts');
const examples = pages()
  .flatMap(examplesOf)
  .filter(({ language }) => language === 'ts');

describe('types', () => {
  let program: ts.Program;
  beforeAll(() => {
    program = checkedProgram();
  }, 60_000);

  it('the signatures are those of the contract', () => {
    expect(errorsIn(program, SIGNATURES)).toEqual([]);
  });

  for (const { place, file } of examples) {
    it(`${place} passes the type check`, () => expect(errorsIn(program, file)).toEqual([]));
  }
});

/** A program in which the package's names lead to the sources, and the examples exist in memory only. */
function checkedProgram(): ts.Program {
  const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile);
  const options: ts.CompilerOptions = {
    ...ts.parseJsonConfigFileContent(config.config, ts.sys, ROOT).options,
    ...{ paths: packagePaths(), noUnusedLocals: false },
    // For the examples with experimental decorators and constructor parameters as properties.
    ...{ experimentalDecorators: true, erasableSyntaxOnly: false },
  };
  const codes = new Map(examples.map(({ file, code }) => [file, code]));
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (path) => codes.has(path) || fileExists(path);
  host.readFile = (path) => codes.get(path) ?? readFile(path);
  host.getSourceFile = (path, languageVersion, ...rest) => {
    const code = codes.get(path);
    return code === undefined
      ? getSourceFile(path, languageVersion, ...rest)
      : ts.createSourceFile(path, code, languageVersion);
  };
  return ts.createProgram([SIGNATURES, ...codes.keys()], options, host);
}

/** The package's entry points by the names that users import. */
function packagePaths(): Record<string, string[]> {
  const entryPoints = pathsBelow('src').filter((path) =>
    /^(index|\w+\/index|adapters\/[\w-]+|otel\/(instrumentation|prom-client))\.ts$/.test(path),
  );
  return Object.fromEntries(
    entryPoints.map((path) => {
      const name = path.replace(/\/?index\.ts$|\.ts$/, '');
      return [`owner-token-registry${name && `/${name}`}`, [join(ROOT, 'src', path)]];
    }),
  );
}

function errorsIn(program: ts.Program, file: string): string[] {
  const source = program.getSourceFile(file);
  if (!source) throw new Error(`${file} is not in the program`);
  const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}
