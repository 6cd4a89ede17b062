/**
 * The makers of all schemas of the sandbox. A schema states a shape once: TypeScript types, checks and the portal's forms
 * derive from it. Messages say what was expected and never quote a value, which may be a secret.
 */

import * as v from 'valibot';
import { nearest } from '../../../nearest.ts';
import { EMPTY, invalidOptions, unknownOption } from '../../../option-check.ts';

/** A schema of values of this type. */
export type Schema<Value = unknown> = v.GenericSchema<unknown, Value>;

export const string = v.string('expected a string');
export const number = v.number('expected a number');
export const boolean = v.boolean('expected true or false');

/** A member that may be absent. */
export const maybe = v.exactOptional;

/** An integer in this range. `unit`: such as `milliseconds`. */
export function integer(min: number, max: number, unit?: string) {
  const message = `expected ${unit === undefined ? '' : `${unit}, `}an integer from ${min} to ${max}`;
  return v.pipe(v.number(message), v.integer(message), v.minValue(min, message), v.maxValue(max, message));
}

/** Any number in this range. */
export const between = (min: number, max: number, expected: string) =>
  v.pipe(
    v.number(`expected ${expected}`),
    v.minValue(min, `expected ${expected}`),
    v.maxValue(max, `expected ${expected}`),
  );

/** A string that matches. */
export const text = (pattern: RegExp, expected: string) =>
  v.pipe(v.string(`expected ${expected}`), v.regex(pattern, `expected ${expected}`));

/** One of these values. For a mistyped one, the error names the nearest. */
export const oneOf = <const Values extends readonly (string | number)[]>(values: Values) =>
  v.picklist(values, ({ input }) => {
    const near = typeof input === 'string' ? nearest(input, values.map(String)) : undefined;
    return `expected one of ${values.join(', ')}${near === undefined ? '' : `; did you mean ${near}?`}`;
  });

/** An object with these members and no other. */
export const object = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.strictObject(entries, ({ expected, path }) => {
    const at = path?.[0];
    if (!at) return 'expected an object';
    const known = Object.keys(entries);
    if (expected === 'never') {
      const unknown = Object.keys(at.input as object).filter((name) => !known.includes(name));
      return unknown.map((name) => unknownOption(name, known)).join('\n');
    }
    const { message = '' } = entries[String(at.key)] as { message?: string | ((issue: object) => string) };
    return (typeof message === 'string' ? message : message({})).replace(/^(expected)?/, 'required:');
  });

/** What a form shows for a value. `start`: what it begins with. `words`: for each value of a choice. */
export interface FieldFacts {
  readonly label: string;
  readonly start?: string | number;
  readonly unit?: 'ms' | 'bytes';
  readonly words?: Readonly<Record<string, string>>;
}

/** A schema with what a form shows for it. */
export const field = <const S extends Schema>(schema: S, facts: FieldFacts) => v.pipe(schema, v.metadata({ ...facts }));

/** The facts for a form, and the schema itself where it is optional. */
export function fieldOf(schema: Schema): { schema: Schema; facts: FieldFacts } {
  const inner = 'wrapped' in schema ? (schema.wrapped as Schema) : schema;
  return { schema: inner, facts: v.getMetadata(inner) as unknown as FieldFacts };
}

/** A value that fits its schema, as a copy. Throws `invalid_options`, listing every problem. */
export function checked<Value>(subject: string, schema: Schema<Value>, given: unknown): Value {
  const { success, output, issues } = v.safeParse(schema, definedIn(given, 3), { abortPipeEarly: true });
  if (success) return output;
  throw invalidOptions(subject, [...new Set(issues.flatMap(problemsOf))]);
}

/** Without members that are undefined, which count as absent. `levels`: of objects in objects. */
function definedIn(given: unknown, levels: number): unknown {
  const isPlain = typeof given === 'object' && given !== null && Object.getPrototypeOf(given) === Object.prototype;
  if (!isPlain || levels === 0) return given;
  const members = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(members.map(([name, value]) => [name, definedIn(value, levels - 1)]));
}

/** The problems of an issue, by path. */
function problemsOf(issue: v.BaseIssue<unknown>): string[] {
  const path = (issue.path ?? []).map(({ key }) => String(key));
  if (issue.expected === 'never') {
    const parent = path.slice(0, -1).map((name) => `${name}.`);
    return issue.message.split('\n').map((line) => `${parent.join('')}${line}`);
  }
  return [`${path.join('.') || 'options'}: ${issue.message}${issue.input === '' ? EMPTY : ''}`];
}
