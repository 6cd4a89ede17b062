/** The table of commands and their dispatch. To add a command, add its module and a row to the table. */

import { readFileSync } from 'node:fs';
import { OwnerTokenError } from '../index.ts';
import { nearest } from '../nearest.ts';
import { type Command, CommandFailure, EXIT, type Terminal, UsageError } from './command.ts';

interface Entry {
  readonly summary: string;
  /** Imported on demand: no command pays for the imports of another. */
  readonly load: () => Promise<Command>;
}

const COMMANDS: Readonly<Record<string, Entry>> = {
  demo: { summary: 'run the library against a sandbox and draw what happens', load: () => import('./demo/demo.ts') },
  sandbox: {
    summary: 'run a local emulator of the token service, with a portal',
    load: () => import('./sandbox/sandbox.ts'),
  },
  doctor: {
    summary: 'examine a token service and recommend options for it',
    load: () => import('./doctor/doctor.ts'),
  },
  token: { summary: 'obtain one token and describe it', load: () => import('./token.ts') },
};

const HELP_WORDS = ['help', '--help', '-h'];
const VERSION_WORDS = ['--version', '-v'];

/**
 * Runs one command line and returns its exit code: 0 success, 1 failure, 2 invalid usage, 3 not tested (`sandbox`), 130 interrupted, unless it runs until then.
 *
 * `help`, or no arguments, lists the commands; `help <command>` and `<command> --help` print a command's usage. An
 * unknown command is an error that suggests the nearest name. Everything that a command throws is reported here, without
 * any of its arguments.
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
    report(error, name, rest.includes('--json'), terminal);
    return error instanceof UsageError ? EXIT.usage : EXIT.failed;
  }
}

function overview(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length)) + 3;
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}${summary}`);
  return `Usage: owner-token-registry <command> [options]

Commands
${lines.join('\n')}

  help <command>, <command> --help    print the usage of a command
  --version                           print the version of this package
`;
}

function version(): string {
  // Two folders up, both from src/cli/ and from the build.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Reports an error: with `--json` as one line on standard output, otherwise as text on standard error. */
function report(error: unknown, name: string, isJson: boolean, { out, err }: Terminal): void {
  const failure = describeFailure(error, name);
  if (isJson) out.write(`${JSON.stringify({ error: failure })}\n`);
  else err.write(`owner-token-registry ${name}: ${failure.message}${codesOf(failure)}\n${failure.advice}\n`);
}

/** The codes to search for, printed after a message of the library. */
function codesOf({ code, failureScope, cause }: Failure): string {
  return failureScope === undefined ? '' : ` (${[code, cause].filter(Boolean).join(', ')})`;
}

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly advice: string;
  readonly failureScope?: unknown;
  readonly cause?: unknown;
}

/**
 * Describes an error. An unexpected one is a defect: its description has stack frames but not its message, which may
 * quote a secret.
 */
function describeFailure(error: unknown, name: string): Failure {
  const usage = `Run owner-token-registry ${name} --help for usage.`;
  if (error instanceof UsageError) return { code: 'usage', message: error.message, advice: usage };
  if (error instanceof CommandFailure) {
    const { code, message, advice, facts } = error;
    return { code, message, advice, ...facts };
  }
  const { cause } = new OwnerTokenError('source_failed', 'unexpected error', { cause: error });
  const frames = [cause?.name, cause?.code, ...(cause?.frames ?? [])].filter(Boolean).join('\n  ');
  return { code: 'unexpected', message: 'unexpected error', advice: `This is a defect of the command.\n  ${frames}` };
}
