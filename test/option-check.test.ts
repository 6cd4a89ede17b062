import { describe, expect, it } from 'vitest';
import type { OwnerTokenError } from '../src/errors/owner-token-error.ts';
import { aFunction, checkOptions, integer, type OptionRule, type OptionRules } from '../src/option-check.ts';

interface Options {
  size?: number;
  name?: string;
  hook?: () => void;
  other?: () => void;
  inner?: { depth?: { deepest?: number } };
}

const aName: OptionRule = { passes: (value) => value !== '', expected: 'a name' };
const RULES: OptionRules<Options> = {
  size: integer(1, 5, 3),
  name: aName,
  hook: aFunction,
  other: aFunction,
  inner: { options: { depth: { options: { deepest: integer(0, 9, 7) } } } },
};

/** What a check of these options complains of, a line each. */
function problemsOf(options: object, rules: Partial<OptionRules<Options>> = {}): string[] {
  try {
    checkOptions<Options>('Thing', options, { ...RULES, ...rules }, (_, problems) => {
      if ('together' in options) problems.push('name: expected a better one');
    });
  } catch (thrown) {
    const { code, message } = thrown as OwnerTokenError;
    expect(code).toBe('invalid_options');
    const [title, ...problems] = message.split('\n  - ');
    expect(title).toBe('Thing: invalid options:');
    return problems;
  }
  return [];
}

describe('a check of options', () => {
  it('lists all problems together, by path, without a value', () => {
    const given = { size: 'canary-7c1d', hook: 'canary-7c1d', inner: { depth: { deepest: 99 } }, together: 1 };
    expect(problemsOf(given)).toEqual([
      'together: unknown option; expected one of size, name, hook, other, inner',
      'size: expected an integer from 1 to 5',
      'hook: expected a function',
      'inner.depth.deepest: expected an integer from 0 to 9',
      'name: expected a better one',
    ]);
  });

  it('fills in the defaults of those that are absent', () => {
    const defaults = { size: 3, inner: { depth: { deepest: 7 } } };
    expect(checkOptions<Options>('Thing', {}, RULES)).toEqual(defaults);
  });

  it('says of an empty string that it is empty, since a variable that is not set is the usual cause', () => {
    const empty = 'it is empty (is its environment variable set?)';
    expect(problemsOf({ name: '', inner: { depth: { deepest: '' } } })).toEqual([
      `name: expected a name; ${empty}`,
      `inner.depth.deepest: expected an integer from 0 to 9; ${empty}`,
    ]);
    const name = { ...aName, isRequired: true };
    expect(problemsOf({}, { name })).toEqual(['name: required: a name']);
  });

  it('shows an unknown name only if it is made of letters', () => {
    const hidden = '(a name with characters other than letters): unknown option; expected one of';
    for (const name of ['canary-7c1d', '7', '', 'a b', 'x'.repeat(41)]) {
      expect(problemsOf({ [name]: 1 })).toEqual([expect.stringContaining(hidden)]);
    }
    for (const name of ['x'.repeat(40), 'snake_case']) {
      expect(problemsOf({ [name]: 1 })).toEqual([expect.stringContaining(`${name}: unknown option`)]);
    }
  });

  it('names the option that a mistyped name is nearest to, also where the name itself is not shown', () => {
    const list = 'unknown option; expected one of size, name, hook, other, inner';
    expect(problemsOf({ sise: 1 })).toEqual([`sise: ${list}; did you mean size?`]);
    expect(problemsOf({ INNER: 1 })).toEqual([`INNER: ${list}; did you mean inner?`]);
    expect(problemsOf({ 'oth-er': 1 })).toEqual([
      `(a name with characters other than letters): ${list}; did you mean other?`,
    ]);
    expect(problemsOf({ colour: 1 })).toEqual([`colour: ${list}`]);
  });

  it('includes options inside options, whose problems are its own', () => {
    expect(problemsOf({ inner: 7 })).toEqual(['inner: expected an object']);
    expect(problemsOf({ inner: { dept: 1 } })).toEqual([
      'inner.dept: unknown option; expected one of depth; did you mean depth?',
    ]);
    expect(problemsOf({ inner: { depth: null } })).toEqual(['inner.depth: expected an object']);
  });
});
