/** One type check of what users write: the contract's signatures (`types.test-d.ts`) and every example of docs and doc comments. */

import { join } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';
import { docCommentExamples, EXAMPLES_FOLDER, examplesOf, pages } from './helpers/examples.ts';
import { isEntryPoint, packageName, pathsBelow, ROOT } from './helpers/source-files.ts';

const SIGNATURES = join(ROOT, 'test/types.test-d.ts');
const ENTRY_POINTS = pathsBelow('src').filter(isEntryPoint);
const examples = [...pages().flatMap(examplesOf), ...docCommentExamples()].filter(({ language }) => language === 'ts');

describe('the types', () => {
  let program: ts.Program;
  beforeAll(() => {
    program = checkedProgram();
  }, 60_000);

  it('have the signatures of the contract', () => {
    expect(errorsIn(program, SIGNATURES)).toEqual([]);
  }, 60_000);

  it.each(ENTRY_POINTS)('have an example of each export of %s', (path) => {
    expect(withoutExample(program, path)).toEqual([]);
  });

  for (const { place, file } of examples) {
    it(`allow the example in ${place}`, () => expect(errorsIn(program, file)).toEqual([]));
  }
});

/** A program in which the package's names lead to the sources, and the examples exist in memory only. */
function checkedProgram(): ts.Program {
  const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile);
  const options: ts.CompilerOptions = {
    ...ts.parseJsonConfigFileContent(config.config, ts.sys, ROOT).options,
    paths: packagePaths(),
    noUnusedLocals: false,
    // For the examples with experimental decorators and constructor parameters as properties.
    experimentalDecorators: true,
    erasableSyntaxOnly: false,
  };
  const codes = new Map(examples.map(({ file, code }) => [file, code]));
  const host = ts.createCompilerHost(options);
  const { directoryExists = () => true, fileExists, readFile, getSourceFile } = host;
  host.directoryExists = (path) => path.startsWith(EXAMPLES_FOLDER) || directoryExists(path);
  host.fileExists = (path) => codes.has(path) || fileExists(path);
  host.readFile = (path) => codes.get(path) ?? readFile(path);
  host.getSourceFile = (path, languageVersion, ...rest) => {
    const code = codes.get(path);
    return code === undefined
      ? getSourceFile(path, languageVersion, ...rest)
      : ts.createSourceFile(path, code, languageVersion);
  };
  return ts.createProgram(
    [SIGNATURES, ...ENTRY_POINTS.map((path) => join(ROOT, 'src', path)), ...codes.keys()],
    options,
    host,
  );
}

/** The package's entry points by the names that users import. */
function packagePaths(): Record<string, string[]> {
  return Object.fromEntries(ENTRY_POINTS.map((path) => [packageName(path), [join(ROOT, 'src', path)]]));
}

/** The exports of an entry point whose doc comments have no example. */
function withoutExample(program: ts.Program, path: string): string[] {
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(join(ROOT, 'src', path));
  const module = file && checker.getSymbolAtLocation(file);
  if (!module) throw new Error(`${path} is not in the program`);
  return checker
    .getExportsOfModule(module)
    .map((found) => (found.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(found) : found))
    .filter((found) => !found.getJsDocTags().some(({ name }) => name === 'example'))
    .map(({ name }) => name);
}

function errorsIn(program: ts.Program, file: string): string[] {
  const source = program.getSourceFile(file);
  if (!source) throw new Error(`${file} is not in the program`);
  const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}
