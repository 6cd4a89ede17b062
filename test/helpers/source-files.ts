import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';
import ts from 'typescript';

/** The root of the project. */
export const ROOT = join(import.meta.dirname, '../..');

/** One import or re-export in a source file. */
export interface Import {
  /** A project file by its path below `src`, a package by its name. */
  readonly from: string;
  readonly relative: boolean;
  /** Erased at compile time. */
  readonly typeOnly: boolean;
}

export interface SourceFile {
  /** Below `src` or `test`, with slashes: `sandbox/index.ts`. */
  readonly path: string;
  readonly lines: number;
  readonly tree: ts.SourceFile;
  readonly imports: readonly Import[];
}

/** All TypeScript files below a folder of the project, as paths below it. Installed packages do not count. */
export function pathsBelow(folder: string): string[] {
  const top = join(ROOT, folder);
  return readdirSync(top, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.parentPath.includes('node_modules'))
    .map((entry) => relative(top, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
    .sort();
}

/** Whether users import this file of `src`, by the name that {@link packageName} gives. */
export const isEntryPoint = (path: string): boolean =>
  /^(index|(sandbox|redis|otel|live-view)\/index|otel\/(instrumentation|prom-client)|adapters\/[^/]+)\.ts$/.test(path);

/** The name by which users import an entry point. */
export const packageName = (path: string): string => {
  const name = path.replace(/\/?index\.ts$|\.ts$/, '');
  return `owner-token-registry${name && `/${name}`}`;
};

/** Reads and parses all files of `src`, or those that contain a text, without resolving types. */
export function readSource(containing = ''): SourceFile[] {
  const texts = pathsBelow('src').map((path) => ({ path, text: readFileSync(join(ROOT, 'src', path), 'utf8') }));
  return texts
    .filter(({ text }) => text.includes(containing))
    .map(({ path, text }) => {
      const tree = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
      return { path, lines: text.trimEnd().split('\n').length, tree, imports: importsOf(path, tree) };
    });
}

function importsOf(path: string, tree: ts.SourceFile): Import[] {
  const found: Import[] = [];
  const add = (specifier: string, typeOnly: boolean) => {
    const isRelative = specifier.startsWith('.');
    const from = isRelative ? posix.join(dirname(path), specifier) : specifier;
    found.push({ from, relative: isRelative, typeOnly });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
      add(node.moduleSpecifier.text, importsTypesOnly(node.importClause));
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier && ts.isStringLiteral(node.moduleSpecifier)) {
      const named = node.exportClause && ts.isNamedExports(node.exportClause) ? node.exportClause.elements : [];
      add(node.moduleSpecifier.text, node.isTypeOnly || (named.length > 0 && named.every((name) => name.isTypeOnly)));
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier && ts.isStringLiteral(specifier)) add(specifier.text, false);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

function importsTypesOnly(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  const named = clause.namedBindings;
  if (clause.name || !named || !ts.isNamedImports(named)) return false;
  return named.elements.length > 0 && named.elements.every((name) => name.isTypeOnly);
}

/** Every import cycle among these files, types included, each as the chain of paths that closes it. */
export function importCycles(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, chain: readonly string[]): void => {
    if (chain.includes(path)) cycles.push([...chain.slice(chain.indexOf(path)), path].join(' → '));
    if (done.has(path) || chain.includes(path)) return;
    for (const { from, relative } of byPath.get(path)?.imports ?? []) if (relative) visit(from, [...chain, path]);
    done.add(path);
  };
  for (const { path } of files) visit(path, []);
  return cycles;
}

/** The names that a module exports; types are marked as such. */
export function exportsOf(file: SourceFile): string[] {
  const names: string[] = [];
  for (const statement of file.tree.statements) {
    if (ts.isExportDeclaration(statement)) {
      if (!statement.exportClause || !ts.isNamedExports(statement.exportClause)) {
        names.push(`* (${statement.moduleSpecifier?.getText()}: name what is public)`);
        continue;
      }
      for (const name of statement.exportClause.elements) {
        names.push(`${statement.isTypeOnly || name.isTypeOnly ? 'type ' : ''}${name.name.text}`);
      }
    } else if (
      ts.canHaveModifiers(statement) &&
      statement.modifiers?.some((m) => m.kind === ts.SyntaxKind.ExportKeyword)
    ) {
      const isType = ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
      const declared = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement];
      for (const { name } of declared as readonly ts.NamedDeclaration[]) {
        names.push(`${isType ? 'type ' : ''}${name?.getText() ?? 'default'}`);
      }
    }
  }
  return names.sort();
}

/** The members of an interface, wherever in `src` it is declared. */
export function membersOf(name: string): string[] {
  for (const { tree } of readSource(`interface ${name}`)) {
    for (const statement of tree.statements) {
      if (!ts.isInterfaceDeclaration(statement) || statement.name.text !== name) continue;
      return statement.members.map((member) => member.name?.getText() ?? '');
    }
  }
  throw new Error(`there is no interface ${name}`);
}

/** The doc comment of each member of an interface. */
export function commentsOf(name: string): Record<string, string> {
  const [file] = readSource(`interface ${name} `);
  const found = file?.tree.statements.find((each) => ts.isInterfaceDeclaration(each) && each.name.text === name);
  const members = found && ts.isInterfaceDeclaration(found) ? [...found.members] : [];
  return Object.fromEntries(members.map((member) => [member.name?.getText() ?? '', member.getFullText()]));
}

/** Module-level state: `let` and `var` declarations, mutable collections, and static fields. */
export function moduleState(file: SourceFile): string[] {
  const found: string[] = [];
  for (const statement of file.tree.statements) {
    if (ts.isVariableStatement(statement)) {
      const constant = (statement.declarationList.flags & ts.NodeFlags.Const) !== 0;
      for (const declaration of statement.declarationList.declarations) {
        if (!constant || canBeFilled(declaration)) found.push(declaration.name.getText());
      }
    } else if (ts.isClassDeclaration(statement)) {
      for (const member of statement.members) {
        if (!ts.isPropertyDeclaration(member)) continue;
        const kinds = member.modifiers?.map((modifier) => modifier.kind) ?? [];
        if (!kinds.includes(ts.SyntaxKind.StaticKeyword)) continue;
        if (!kinds.includes(ts.SyntaxKind.ReadonlyKeyword) || canBeFilled(member)) found.push(member.name.getText());
      }
    }
  }
  return found;
}

/** Whether a declaration is initialized with a collection that can be filled later. */
function canBeFilled({ initializer, type }: ts.VariableDeclaration | ts.PropertyDeclaration): boolean {
  if (!initializer || type?.getText().startsWith('Readonly')) return false;
  if (ts.isArrayLiteralExpression(initializer)) return initializer.elements.length === 0;
  if (ts.isObjectLiteralExpression(initializer)) return initializer.properties.length === 0;
  if (!ts.isNewExpression(initializer)) return false;
  // A set or map with initial contents is a constant table; any other new object counts as state.
  const isTable = /^(Set|Map)$/.test(initializer.expression.getText()) && Boolean(initializer.arguments?.length);
  return !isTable;
}
