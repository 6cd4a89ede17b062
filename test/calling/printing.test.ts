import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { printNameOnly } from '../../src/calling/printing.ts';

it('prints an object by the name of its class, however it is printed', () => {
  class Holder {
    readonly headers = { authorization: 'Bearer secret' };
  }
  const holder = new Holder();
  printNameOnly(holder);
  expect([inspect(holder, { showHidden: true }), JSON.stringify(holder)]).toEqual(['[Holder]', '"[Holder]"']);
});

it('prints an object without a prototype as such, and leaves other values alone', () => {
  const bare = Object.assign(Object.create(null), { authorization: 'Bearer secret' });
  printNameOnly(bare);
  expect(JSON.stringify(bare)).toBe('"[Object]"');
  for (const value of [undefined, null, 'text']) expect(() => printNameOnly(value)).not.toThrow();
});
