import { describe, expect, it } from 'vitest';
import type { OwnerTokenError } from '../src/errors.ts';
import { nearest, OptionCheck } from '../src/option-check.ts';

interface Options {
  size?: number;
  name?: string;
  hook?: () => void;
  other?: () => void;
  inner?: { depth?: number };
}

const KNOWN = ['size', 'name', 'hook', 'other', 'inner'];

/** What a check of these options complains of, a line each. */
function problemsOf(options: object, check: (check: OptionCheck<Options>) => void = () => {}): string[] {
  const checked = new OptionCheck<Options>('Thing', options as Options, KNOWN);
  try {
    check(checked);
    checked.done();
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
  it('a check of options lists all problems together, by path, without a value', () => {
    const problems = problemsOf({ size: 'canary-7c1d', hook: 'canary-7c1d', inner: { depth: 99 } }, (check) => {
      check.integer('size', 1, 5);
      check.functions('hook', 'other');
      check.nested<{ depth?: number }>('inner', ['depth'])?.integer('depth', 0, 9);
      check.problem('name', 'a better one');
    });
    expect(problems).toEqual([
      'size: expected an integer from 1 to 5',
      'hook: expected a function',
      'inner.depth: expected an integer from 0 to 9',
      'name: expected a better one',
    ]);
  });

  it('a check of options says of an empty string that it is empty, since a variable that is not set is the usual cause', () => {
    const problems = problemsOf({ name: '', inner: { depth: '' } }, (check) => {
      check.required('name', (value) => value !== '', 'a name');
      check.nested<{ depth?: number }>('inner', ['depth'])?.integer('depth', 0, 9);
    });
    const empty = 'it is empty (is its environment variable set?)';
    expect(problems).toEqual([
      `name: expected a name; ${empty}`,
      `inner.depth: expected an integer from 0 to 9; ${empty}`,
    ]);
  });

  it('a check of options refuses what it does not know, with the nearest of what it knows', () => {
    expect(problemsOf({ sise: 1, Name: 1, unrelated: 1 })).toEqual([
      'sise: unknown option; did you mean size?',
      'Name: unknown option; did you mean name?',
      'unrelated: unknown option',
    ]);
  });

  it('a check of options shows an unknown name only if it is made of letters', () => {
    const hidden = '(a name with characters other than letters): unknown option';
    for (const name of ['canary-7c1d', '7', '', 'a b', 'x'.repeat(41)]) {
      expect(problemsOf({ [name]: 1 })).toEqual([hidden]);
    }
    expect(problemsOf({ ['x'.repeat(40)]: 1, snake_case: 1 })).not.toContain(hidden);
  });

  it('a check of options checks options inside options, whose problems are its own', () => {
    const inside = (inner: unknown) =>
      problemsOf({ inner }, (check) => {
        const nested = check.nested<{ depth?: object }>('inner', ['depth']);
        nested?.nested<object>('depth', ['deepest'])?.problem('deepest', 'deeper');
      });
    expect(inside(undefined)).toEqual([]);
    expect(inside(7)).toEqual(['inner: expected an object']);
    expect(inside({ dept: 1 })).toEqual(['inner.dept: unknown option; did you mean depth?']);
    expect(inside({ depth: null })).toEqual([
      'inner.depth: expected an object',
      'inner.depth.deepest: expected deeper',
    ]);
  });
});

it.each([
  ['concurency', 'concurrency'],
  ['CONCURRENCY', 'concurrency'],
  ['maxOwner', 'maxOwners'],
  ['xaxOwnxrx', 'maxOwners'],
  ['clok', 'clock'],
  ['clxxk', 'clock'],
  ['clxxx', undefined],
  ['xaxOxnxrx', undefined],
  ['c', undefined],
  ['maxOwnersAndMore', undefined],
])('the nearest name to %s is %s', (name, near) => {
  expect(nearest(name, ['concurrency', 'maxOwners', 'clock'])).toBe(near);
});
