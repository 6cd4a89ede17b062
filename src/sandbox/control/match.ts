import { OPERATIONS, type OperationId } from './openapi.ts';

export interface Match {
  readonly id: OperationId;
  /** The parameters in the path, by name. */
  readonly path: Record<string, string>;
}

const PATTERNS = (Object.keys(OPERATIONS) as OperationId[]).map((id) => {
  const [method = '', path = ''] = id.split(' ');
  return { id, method, parts: path.split('/') };
});

/** The operation that a request matches, else the methods that its path supports: none for an unknown path. */
export function matchOperation(method: string, pathname: string): { match?: Match; methods: string[] } {
  const parts = pathname.split('/');
  const methods: string[] = [];
  for (const pattern of PATTERNS) {
    const path = matchPath(pattern.parts, parts);
    if (!path) continue;
    if (pattern.method === method) return { match: { id: pattern.id, path }, methods };
    methods.push(pattern.method);
  }
  return { methods };
}

function matchPath(pattern: string[], parts: string[]): Record<string, string> | undefined {
  if (pattern.length !== parts.length) return undefined;
  const path: Record<string, string> = {};
  for (const [index, expected] of pattern.entries()) {
    const part = parts[index] ?? '';
    if (expected.startsWith('{') && part !== '') path[expected.slice(1, -1)] = part;
    else if (expected !== part) return undefined;
  }
  return path;
}
