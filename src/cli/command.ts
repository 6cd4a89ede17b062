/** The interface of a command, its view of the outside world, and flag parsing. */

import { type ParseArgsConfig, parseArgs } from 'node:util';
import { nearest } from '../nearest.ts';

/** The exports of a command's module: `usage` is its help text; `run` resolves to its exit code. */
export interface Command {
  readonly usage: string;
  run(args: readonly string[], terminal: Terminal): Promise<number>;
}

/** Everything outside the package that a command uses. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: Output;
  readonly err: Output;
  /** Aborted by the first Ctrl-C or SIGTERM; the second ends the process. */
  readonly signal: AbortSignal;
}

/** The part of a stream that commands use. */
export type Output = Pick<NodeJS.WriteStream, 'write'> & Partial<Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>>;

export const EXIT = { ok: 0, failed: 1, usage: 2, notTested: 3, interrupted: 130 } as const;

/** The command line is invalid. The message never repeats an argument, which may be a secret. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A failure whose message and advice are ready to print: neither holds a secret. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly code: string;
  /** The next step. */
  readonly advice: string;
  /** Further facts for `--json`. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, advice: string, facts: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.code = code;
    this.advice = advice;
    this.facts = facts;
  }
}

/** The flags of a command, as Node's `parseArgs` declares them. */
type Flags = NonNullable<ParseArgsConfig['options']>;

/** What {@link readFlags} returns for these flags. */
export type FlagValues<F extends Flags> = ReturnType<typeof readFlags<F>>;

const SECRET_LOOKING = /secret|key|token|password|credential|authorization/i;

/**
 * Parses a command's flags. Positional arguments are an error.
 *
 * For an unknown flag the error suggests the nearest name; if the flag looks like a secret, it says that secrets come
 * from the environment. Only a name that is nearly one of ours is repeated: arguments already leak into the shell
 * history and the process list, and an error must not carry them further.
 */
export function readFlags<const F extends Flags>(args: readonly string[], flags: F) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: false }).values;
  } catch (error) {
    throw new UsageError(usageProblem(args, flags, error as NodeJS.ErrnoException));
  }
}

function usageProblem(args: readonly string[], flags: Flags, error: NodeJS.ErrnoException): string {
  // Node's message names the flag, which is one of ours, and never quotes its value.
  if (error.code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return error.message;
  const { tokens } = parseArgs({ args: [...args], options: flags, strict: false, tokens: true });
  const unknown = tokens.find((token) => token.kind !== 'option' || !Object.hasOwn(flags, token.name));
  if (unknown?.kind !== 'option') return 'unexpected argument (not repeated here, in case it is a secret)';
  // Not `--no-access-key` for `--access-key`, which means the opposite.
  const isNegated = (name: string): boolean => name.startsWith('no-');
  const candidates = Object.keys(flags).filter((name) => isNegated(name) === isNegated(unknown.name));
  const near = nearest(unknown.name, candidates);
  if (near) return `unknown option ${unknown.rawName}; did you mean --${near}?`;
  if (!SECRET_LOOKING.test(unknown.name)) return 'unknown option';
  return 'secrets are read from the environment, never from arguments, which stay in the shell history';
}
