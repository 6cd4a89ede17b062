import { expect, it } from 'vitest';
import { leavesAllowedOrigins } from '../../src/calling/leaving.ts';

const call = {
  check: (url: string | URL) => {
    if (new URL(url).host !== 'api.example') throw new Error('refused');
  },
};

it.each([
  ['https://api.example/a', 'https://api.example/b', false],
  ['https://api.example/a', 'https://files.example/b', true],
  ['http://api.example/a', 'https://api.example/b', false],
  ['http://api.example/a', 'http://files.example/b', true],
])('a redirect from %s to %s leads away: %s', (from, to, expected) => {
  expect(leavesAllowedOrigins(call, from, new URL(to))).toBe(expected);
});

it.each([
  ['https://api.example/a', 'http://api.example/b', 'leads from https to http'],
  ['https://api.example/a', 'http://files.example/b', 'leads from https to http'],
  ['http://api.example/a', 'ftp://api.example/b', 'does not lead to an http(s) URL'],
  ['http://api.example/a', 'blob:http://api.example/b', 'does not lead to an http(s) URL'],
])('a redirect from %s to %s is not followed', (from, to, problem) => {
  expect(() => leavesAllowedOrigins(call, from, to)).toThrow(problem);
});
