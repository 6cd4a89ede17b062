import { describe, expect, it } from 'vitest';
import { type Linked, LinkedList } from '../../src/registry/linked-list.ts';

interface Item extends Linked<Item> {
  readonly name: string;
}

/** A list of these items, by their names. */
function listOf(names: string) {
  const list = new LinkedList<Item>();
  const items = new Map([...names].map((name) => [name, { name } as Item]));
  for (const item of items.values()) list.push(item);
  return { list, item: (name: string) => items.get(name) as Item };
}

/** The names from the first item to the last, and back. */
function namesOf(list: LinkedList<Item>) {
  const items = [...list];
  const back: string[] = [];
  for (let item = items.at(-1); item; item = item.previous) back.unshift(item.name);
  const names = items.map(({ name }) => name).join('');
  expect([back.join(''), list.length, list.first, list.last]).toEqual([names, names.length, items[0], items.at(-1)]);
  return names;
}

describe('a linked list', () => {
  it('a linked list adds items to its end, and knows its own', () => {
    const { list, item } = listOf('bc');
    const added = { name: 'd' };
    expect([list.has(item('b')), list.has(added)]).toEqual([true, false]);
    list.push(added);
    expect(list.has(added)).toBe(true);
    expect(namesOf(list)).toBe('bcd');
  });

  it.each([
    ['abc', 'a', 'bc'],
    ['abc', 'b', 'ac'],
    ['abc', 'c', 'ab'],
    ['a', 'a', ''],
  ])('a linked list of %s removes %s, which leaves %s', (names, name, left) => {
    const { list, item } = listOf(names);
    expect(list.remove(item(name))).toBe(true);
    expect(namesOf(list)).toBe(left);
    list.push({ name: 'z' });
    expect(namesOf(list)).toBe(`${left}z`);
  });

  it('ignores items that are in no list or in another one', () => {
    const { list, item } = listOf('ab');
    const other = listOf('ab');
    list.remove(item('a'));
    expect([list.remove(item('a')), list.remove(other.item('b'))]).toEqual([false, false]);
    expect([namesOf(list), namesOf(other.list)]).toEqual(['b', 'ab']);
  });

  it('a linked list leaves no link in a removed item', () => {
    const { list, item } = listOf('abc');
    list.remove(item('b'));
    expect(item('b')).toEqual({ name: 'b' });
  });
});
