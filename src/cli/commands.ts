/** The commands there are, and the way to each. A new one is a file beside this one and a line in the table. */

import { readFileSync } from 'node:fs';
import { OwnerTokenError } from '../index.ts';
import { nearest } from '../option-check.ts';
import { adviceFor } from './advice.ts';
import { type Command, EXIT, type Terminal, UsageError } from './command.ts';

interface Entry {
  readonly summary: string;
  /** Loaded when called for, so that one command does not wait for what another needs. */
  readonly load: () => Promise<Command>;
}

const COMMANDS: Readonly<Record<string, Entry>> = {
  demo: { summary: 'watch the registry at work on a sandbox of the service', load: () => import('./demo/demo.ts') },
  sandbox: {
    summary: 'run the service of the document on this machine, with its portal',
    load: () => import('./sandbox.ts'),
  },
  doctor: {
    summary: 'examine any token service, and say which options follow',
    load: () => import('./doctor/doctor.ts'),
  },
  token: { summary: 'obtain one token from any token service, and say what it is', load: () => import('./token.ts') },
};

const HELP_WORDS = ['help', '--help', '-h'];
const VERSION_WORDS = ['--version', '-v'];

/**
 * Runs one command line and gives its exit code: 0 done, 1 failed, 2 not understood, 130 interrupted.
 *
 * Without arguments, and with `help`, it prints the commands; `help <command>` and `<command> --help` print that
 * command's usage. An unknown command is refused with the nearest name. Whatever a command throws is told here, in
 * words that hold none of its arguments.
 */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<number> {
  const [word, ...rest] = args;
  if (word === undefined) {
    terminal.err.write(overview());
    return EXIT.usage;
  }
  if (VERSION_WORDS.includes(word)) {
    terminal.out.write(`${version()}\n`);
    return EXIT.ok;
  }
  const asksForHelp = HELP_WORDS.includes(word);
  const name = asksForHelp ? rest[0] : word;
  if (name === undefined || HELP_WORDS.includes(name)) {
    terminal.out.write(overview());
    return EXIT.ok;
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!entry) {
    const near = nearest(name, Object.keys(COMMANDS));
    terminal.err.write(`unknown command${near ? `; did you mean ${near}?` : ''}\n\n${overview()}`);
    return EXIT.usage;
  }
  const command = await entry.load();
  if (asksForHelp || rest.some((arg) => arg === '--help' || arg === '-h')) {
    terminal.out.write(command.usage);
    return EXIT.ok;
  }
  try {
    return await command.run(rest, terminal);
  } catch (error) {
    if (terminal.signal.aborted) return EXIT.interrupted;
    terminal.err.write(`owner-token-registry ${name}: ${tellFailure(error, name)}\n`);
    return error instanceof UsageError ? EXIT.usage : EXIT.failed;
  }
}

function overview(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length)) + 3;
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}${summary}`);
  return `Usage: owner-token-registry <command> [options]

Commands
${lines.join('\n')}

  help <command>, <command> --help    how to use it
  --version                           the version of this package
`;
}

function version(): string {
  // Two folders up from here, both in src/cli/ and in the build.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** An error in words. What is neither ours nor about usage is a defect: its place is told, what it says is not. */
function tellFailure(error: unknown, name: string): string {
  if (error instanceof UsageError) return `${error.message}\nHow to use it: owner-token-registry ${name} --help`;
  if (error instanceof OwnerTokenError) {
    const facts = [error.code, error.status && `status ${error.status}`, error.oauthError, error.cause?.code];
    return `${error.message} (${facts.filter(Boolean).join(', ')})\n${adviceFor(error)}`;
  }
  const { cause } = new OwnerTokenError('source_failed', 'a defect', { cause: error });
  return ['a defect in this command', cause?.name, cause?.code, ...(cause?.frames ?? [])].filter(Boolean).join('\n  ');
}
