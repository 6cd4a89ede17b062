import type { Operation } from './operation.ts';
import { OPERATIONS } from './operations.ts';

export interface Match {
  readonly operation: Operation;
  /** The parameters in the path, by name. */
  readonly path: Record<string, string>;
}

const PATTERNS = OPERATIONS.map((operation) => {
  const pattern = new RegExp(`^${operation.path.replaceAll('.', '\\.').replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`);
  return { operation, pattern };
});

/** The operation that a request matches, else the methods that its path supports: none for an unknown path. */
export function matchOperation(method: string, pathname: string): { match?: Match; methods: string[] } {
  const methods: string[] = [];
  for (const { operation, pattern } of PATTERNS) {
    const found = pattern.exec(pathname);
    if (!found) continue;
    if (operation.method === method) return { match: { operation, path: { ...found.groups } }, methods };
    methods.push(operation.method);
  }
  return { methods };
}
