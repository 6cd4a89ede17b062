import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommandLine } from '../../src/cli/commands.ts';
import { exportsOf, ROOT, readSource } from '../helpers/source-files.ts';
import { runCommand } from '../helpers/terminal.ts';

describe('help', () => {
  it('lists every command', async () => {
    const { code, out, err } = await runCommand(['--help']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const commands = readSource().filter((file) => file.path.startsWith('cli/') && exportsOf(file).includes('usage'));
    const names = commands.map(({ path }) => basename(path, '.ts'));
    expect(names).toContain('token');
    for (const name of names) expect(out).toMatch(new RegExp(`^ {2}${name} `, 'm'));
  });

  it.each([['help'], ['-h'], ['help', '--help']])('is printed for %s', async (...args) => {
    expect(await runCommand(args)).toEqual(await runCommand(['--help']));
  });

  it.each([
    ['token', '--help'],
    ['token', '--json', '-h'],
    ['help', 'token'],
  ])('of a command is printed for %s %s', async (...args) => {
    const { code, out } = await runCommand(args);
    expect(code).toBe(0);
    expect(out).toMatch(/^Usage: owner-token-registry token/);
  });

  it('goes to standard error with exit code 2 when there is no command', async () => {
    const { code, out, err } = await runCommand([]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(/^Usage: owner-token-registry <command>/);
  });
});

it('the command prints the version of the package', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  expect(await runCommand(['--version'])).toEqual({ code: 0, out: `${version}\n`, err: '' });
});

describe('an unknown command', () => {
  it('is rejected with the nearest name', async () => {
    const { code, err } = await runCommand(['tokn']);
    expect(code).toBe(2);
    expect(err).toContain('did you mean token?');
  });

  it.each(['toString', '__proto__', 'sbx_canary_5d1f', '--secret=canary'])('is not repeated: %s', async (word) => {
    const { code, out, err } = await runCommand([word]);
    expect(code).toBe(2);
    expect(out + err).not.toContain(word);
    expect(err).toMatch(/^unknown command\n/);
  });
});

it('an unexpected error of a command is reported by its stack frames, without its message', async () => {
  const said: string[] = [];
  const err = { write: (text: string | Uint8Array) => said.push(String(text)) > 0 };
  const get = (): never => {
    throw new TypeError('canary-4e');
  };
  const env = new Proxy({}, { get });
  const code = await runCommandLine(['token'], { env, out: err, err, signal: new AbortController().signal });
  expect(code).toBe(1);
  expect(said.join('')).toMatch(
    /unexpected error\nThis is a defect of the command\.\n {2}TypeError\n {2}at .*commands\.test\.ts/,
  );
  expect(said.join('')).not.toContain('canary');
});

describe('an error with --json', () => {
  it('is one line of JSON on standard output, with the same exit code', async () => {
    const text = await runCommand(['token']);
    const json = await runCommand(['token', '--json']);
    expect(json).toMatchObject({ code: text.code, err: '' });
    expect(JSON.parse(json.out)).toEqual({
      error: {
        code: 'usage',
        message: 'not set in the environment: OTR_BASE_URL, OTR_CLIENT_ID, OTR_CLIENT_SECRET, OTR_ACCESS_KEY',
        advice: 'Run owner-token-registry token --help for usage.',
      },
    });
  });

  it('has the facts of a failed request', async () => {
    const env = { OTR_CLIENT_ID: 'x', OTR_CLIENT_SECRET: 'canary', OTR_ACCESS_KEY: 'x' };
    const { code, out } = await runCommand(['token', '--json'], { ...env, OTR_BASE_URL: 'http://127.0.0.1:1' });
    expect(code).toBe(1);
    expect(JSON.parse(out).error).toMatchObject({
      code: 'endpoint_unavailable',
      failureScope: 'owner',
      cause: 'ECONNREFUSED',
      advice: expect.stringContaining('OTR_BASE_URL'),
    });
  });
});
