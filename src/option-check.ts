/**
 * Checks options once, at construction, and lists all problems by path with what was expected. The value is never
 * shown, because it may be a secret in the wrong place; only that it is empty or missing.
 */

import { OwnerTokenError } from './errors.ts';
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

export const integer = (min: number, max: number, fallback?: number): OptionRule => ({
  passes: (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  expected: `an integer from ${min} to ${max}`,
  range: [min, max],
  fallback,
});

export const aFunction: OptionRule = { passes: (value) => typeof value === 'function', expected: 'a function' };

/**
 * Collects the problems of one options object; {@link OptionCheck.done} throws if there are any, and returns the options as
 * they were when checked: each is read once, and none from `Object.prototype`.
 */
export class OptionCheck<T extends object> {
  readonly #subject: string;
  readonly #options: Record<string, unknown>;
  readonly #problems: string[];
  readonly #prefix: string;

  /** @param known the names of all options; any other is a problem, which suggests the nearest name. */
  constructor(subject: string, options: T, known: readonly string[], parent?: { prefix: string; problems: string[] }) {
    this.#subject = subject;
    this.#prefix = parent?.prefix ?? '';
    this.#problems = parent?.problems ?? [];
    this.#options = Object.create(null);
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
      this.#problems.push(`${this.#prefix.replace(/\.$/, '') || 'options'}: expected an object`);
      return;
    }
    for (const name of known) {
      const value = property(options, name);
      if (value !== undefined) this.#options[name] = value;
    }
    for (const name of Object.keys(options)) {
      if (!known.includes(name)) this.#problems.push(`${this.#prefix}${unknownOption(name, known)}`);
    }
  }

  /** Whether there is no problem so far. */
  get clean(): boolean {
    return this.#problems.length === 0;
  }

  /** The options that are given, for checks across several of them. */
  get values(): { readonly [K in keyof T]?: unknown } {
    return this.#options as { readonly [K in keyof T]?: unknown };
  }

  /** Records a problem of the option at this path. */
  problem(path: string, expected: string): void {
    const isEmpty = this.#options[path] === '';
    this.#problems.push(`${this.#prefix}${path}: expected ${expected}${isEmpty ? EMPTY : ''}`);
  }

  /** Records a problem unless the option is absent or passes. */
  when(name: keyof T & string, passes: (value: unknown) => boolean, expected: string): void {
    const value = this.#options[name];
    if (value !== undefined && !passes(value)) this.problem(name, expected);
  }

  /** Records a problem if the option is absent or does not pass. */
  required(name: keyof T & string, passes: (value: unknown) => boolean, expected: string): void {
    if (this.#options[name] === undefined) this.#problems.push(`${this.#prefix}${name}: required: ${expected}`);
    else this.when(name, passes, expected);
  }

  /** Checks each option of the table, and fills in the defaults. */
  table(rules: Readonly<Partial<Record<keyof T & string, OptionRule>>>): void {
    for (const [name, { passes, expected, isRequired, fallback }] of Object.entries<OptionRule>(
      rules as Record<string, OptionRule>,
    )) {
      if (isRequired) this.required(name as keyof T & string, passes, expected);
      else this.when(name as keyof T & string, passes, expected);
      if (fallback !== undefined) this.#options[name] ??= fallback;
    }
  }

  integer(name: keyof T & string, min: number, max: number): void {
    const { passes, expected } = integer(min, max);
    this.when(name, passes, expected);
  }

  functions(...names: (keyof T & string)[]): void {
    for (const name of names) this.when(name, aFunction.passes, aFunction.expected);
  }

  /** A check of a nested options object, whose problems count here. Undefined if it is absent. */
  nested<N extends object>(name: keyof T & string, known: readonly string[]): OptionCheck<N> | undefined {
    const value = this.#options[name];
    if (value === undefined) return undefined;
    const parent = { prefix: `${this.#prefix}${name}.`, problems: this.#problems };
    const check = new OptionCheck<N>(this.#subject, value as N, known, parent);
    this.#options[name] = check.values;
    return check;
  }

  /** The options, without those that are absent. Throws `invalid_options` with every problem found. */
  done(): T {
    if (this.#problems.length === 0) return this.#options as T;
    throw invalidOptions(this.#subject, this.#problems);
  }
}

/** The error that lists these problems. */
export function invalidOptions(subject: string, problems: readonly string[]): OwnerTokenError {
  const list = problems.map((problem) => `\n  - ${problem}`).join('');
  return new OwnerTokenError('invalid_options', `${subject}: invalid options:${list}`);
}

/** The problem of a name that is no option. */
export function unknownOption(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  return `${printable(name)}: unknown option${near ? `; did you mean ${near}?` : ''}`;
}

/** An empty string usually comes from `process.env.NAME ?? ''`. */
export const EMPTY = '; it is empty (is its environment variable set?)';

/** Whether a value has these methods. */
export function hasMethods(value: unknown, ...names: string[]): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  return names.every((name) => typeof property(value, name) === 'function');
}

/** Whether a value can be a clock. */
export const isClock = (value: unknown): boolean => hasMethods(value, 'now', 'monotonic');

export const aClock: OptionRule = { passes: isClock, expected: 'an object with now() and monotonic()' };

/** The known name closest to a mistyped one, within three edits and half its letters. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, edits: editDistance(name.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits)[0];
  return ranked && ranked.edits <= Math.min(3, ranked.candidate.length / 2) ? ranked.candidate : undefined;
}

/** Levenshtein distance, row by row. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 3) return 4;
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}

/** A name is shown only if it consists of letters: a secret may have been spread into the options by mistake. */
function printable(name: string): string {
  return /^[A-Za-z_]{1,40}$/.test(name) ? name : '(a name with characters other than letters)';
}
