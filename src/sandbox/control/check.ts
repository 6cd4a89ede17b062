import { nearest } from '../../option-check.ts';
import { BadRequest } from '../state/problems.ts';
import { OPERATIONS, type Operation, type OperationId, type ValueType } from './openapi.ts';

type Types = Readonly<Record<string, ValueType>>;

/** The body of a request, checked against its description; undefined for an operation without a body. */
export function checkBody(id: OperationId, text: string): unknown {
  const operation: Operation = OPERATIONS[id];
  if (operation.body === undefined) return undefined;
  const body = parseObject(text);
  if (typeof operation.body !== 'string') checkMembers(body, operation.body);
  return body;
}

/** The query parameters, checked against their description, with numbers and booleans parsed. */
export function checkQuery(id: OperationId, params: URLSearchParams): Record<string, string | number | boolean> {
  const operation: Operation = OPERATIONS[id];
  const types = operation.query ?? {};
  const query: Record<string, string | number | boolean> = {};
  for (const [name, value] of params) query[name] = read(value, Object.hasOwn(types, name) ? types[name] : undefined);
  checkMembers(query, types);
  return query;
}

function read(value: string, type: ValueType | undefined): string | number | boolean {
  if (type?.startsWith('number') && value.trim() !== '' && Number.isFinite(Number(value))) return Number(value);
  if (type?.startsWith('boolean') && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
      return parsed as Record<string, unknown>;
  } catch {
    // Reported below, like anything else that is not an object.
  }
  throw new BadRequest('the body is not a JSON object');
}

function checkMembers(given: Record<string, unknown>, types: Types): void {
  const problems: string[] = [];
  for (const [name, type] of Object.entries(types)) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    const wanted = type.replace('?', '');
    const isMissing = value === undefined && !type.endsWith('?');
    if (isMissing || (value !== undefined && typeof value !== wanted)) problems.push(`${name}: expected a ${wanted}`);
  }
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(types, name)) continue;
    const near = nearest(name, Object.keys(types));
    const shown = /^[A-Za-z_]\w{0,40}$/.test(name) ? name : '(not an identifier)';
    problems.push(`${shown}: unknown${near ? `; did you mean ${near}?` : ''}`);
  }
  if (problems.length > 0) throw new BadRequest(problems.join('; '));
}
