/**
 * Checks options once, at construction, and lists all problems by path with what was expected. The value is never
 * shown, because it may be a secret in the wrong place; only that it is empty or missing.
 */

import { OwnerTokenError } from './errors/owner-token-error.ts';
import { nearest } from './nearest.ts';
import { property } from './own-property.ts';

/** What an option may be, and its default. A test compares the docs and the doc comments with it. */
export interface OptionRule {
  readonly passes: (value: unknown) => boolean;
  /** In words, for the message. */
  readonly expected: string;
  readonly isRequired?: boolean;
  readonly range?: readonly [min: number, max: number];
  /** Used if the option is absent. */
  readonly fallback?: unknown;
}

/** An option that is itself an object of options. If it is absent, each of them takes its default. */
export interface NestedRule {
  readonly options: Rules;
}

type Rules = Readonly<Record<string, OptionRule | NestedRule>>;

/** A rule for each option of an object. */
export type OptionRules<T> = Readonly<Record<keyof T & string, OptionRule | NestedRule>>;

/** The options as given, of unknown types, with the defaults filled in. */
export type Unchecked<T> = { readonly [K in keyof T]?: unknown };

export const integer = (min: number, max: number, fallback?: number): OptionRule => ({
  passes: (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  expected: `an integer from ${min} to ${max}`,
  range: [min, max],
  fallback,
});

export const aFunction: OptionRule = { passes: (value) => typeof value === 'function', expected: 'a function' };
export const aBoolean: OptionRule = { passes: (value) => typeof value === 'boolean', expected: 'true or false' };
export const aClock: OptionRule = {
  passes: (value) => hasMethods(value, 'now', 'monotonic'),
  expected: 'an object with now() and monotonic()',
};

/**
 * The checked options, with the defaults of those that are absent. Each is read once, and none from `Object.prototype`.
 *
 * @param subject what takes the options, for the message.
 * @param together adds the problems that concern several options at once.
 * @throws OwnerTokenError `invalid_options`, listing every problem by path.
 */
export function checkOptions<T extends object>(
  subject: string,
  given: T,
  rules: OptionRules<T>,
  together?: (options: Unchecked<T>, problems: string[]) => void,
): T {
  const problems: string[] = [];
  const options = readOptions(given, rules, '', problems) as T;
  together?.(options, problems);
  if (problems.length > 0) throw invalidOptions(subject, problems);
  return options;
}

/** @param prefix path of the nested object, with a trailing dot; empty at the top. */
function readOptions(given: unknown, rules: Rules, prefix: string, problems: string[]): object {
  const options: Record<string, unknown> = Object.create(null);
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    problems.push(`${prefix.slice(0, -1) || 'options'}: expected an object`);
    return options;
  }
  const known = Object.keys(rules);
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) problems.push(`${prefix}${unknownOption(name, known)}`);
  }
  for (const [name, rule] of Object.entries(rules)) {
    const path = `${prefix}${name}`;
    const value = property(given, name);
    if (Object.hasOwn(rule, 'options')) {
      const nested = (rule as NestedRule).options;
      options[name] = readOptions(value === undefined ? {} : value, nested, `${path}.`, problems);
      continue;
    }
    const { passes, expected } = rule as OptionRule;
    const fallback = property(rule, 'fallback');
    if (value !== undefined) {
      options[name] = value;
      if (!passes(value)) problems.push(`${path}: expected ${expected}${value === '' ? EMPTY : ''}`);
    } else if (property(rule, 'isRequired')) {
      problems.push(`${path}: required: ${expected}`);
    } else if (fallback !== undefined) {
      options[name] = fallback;
    }
  }
  return options;
}

/** The error that lists these problems. */
export function invalidOptions(subject: string, problems: readonly string[]): OwnerTokenError {
  const list = problems.map((problem) => `\n  - ${problem}`).join('');
  return new OwnerTokenError('invalid_options', `${subject}: invalid options:${list}`);
}

/** The problem of a name that is not an option. For a mistyped one, it names the nearest. */
export function unknownOption(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const hint = near === undefined ? '' : `; did you mean ${near}?`;
  return `${printable(name)}: unknown option; expected one of ${known.join(', ')}${hint}`;
}

/** A name is shown only if it consists of letters: a secret may have been spread into the options by mistake. */
function printable(name: string): string {
  return /^[A-Za-z_]{1,40}$/.test(name) ? name : '(a name with characters other than letters)';
}

/** An empty string usually comes from `process.env.NAME ?? ''`. */
export const EMPTY = '; it is empty (is its environment variable set?)';

/** Whether a value has these methods. */
export function hasMethods(value: unknown, ...names: string[]): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  return names.every((name) => typeof property(value, name) === 'function');
}
