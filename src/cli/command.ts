/** What a command is, what it may touch, and how its arguments are read. */

import { type ParseArgsConfig, parseArgs } from 'node:util';
import { nearest } from '../option-check.ts';

/** A command's module: `usage` is its help, `run` gives its exit code. */
export interface Command {
  readonly usage: string;
  run(args: readonly string[], terminal: Terminal): Promise<number>;
}

/** All of the outside that a command sees. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: Output;
  readonly err: Output;
  /** Aborted by the first Ctrl-C or SIGTERM; the second ends the process. */
  readonly signal: AbortSignal;
}

/** The part of a stream that commands use. */
export type Output = Pick<NodeJS.WriteStream, 'write'> & Partial<Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>>;

export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** The command was asked for in a way it does not understand. Says nothing of what was given: it may be a secret. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The flags a command takes, in the words of Node's `parseArgs`. */
type Flags = NonNullable<ParseArgsConfig['options']>;

const SECRET_LOOKING = /secret|key|token|password|credential|authorization/i;

/**
 * Reads a command's flags. It takes no other arguments.
 *
 * An unknown flag is refused with the nearest name, or, where it speaks of a secret, with the reason why there is none
 * such. What was given is never repeated: arguments stay in the shell's history and show in the process list, and an
 * error must not carry them further.
 */
export function readFlags<const F extends Flags>(args: readonly string[], flags: F) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: false }).values;
  } catch (error) {
    throw new UsageError(refusal(args, flags, error as NodeJS.ErrnoException));
  }
}

function refusal(args: readonly string[], flags: Flags, error: NodeJS.ErrnoException): string {
  // Of a flag's value Node tells only that it is missing, unwanted or ambiguous, and the flag is one we know.
  if (error.code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return error.message;
  const { tokens } = parseArgs({ args: [...args], options: flags, strict: false, tokens: true });
  const unknown = tokens.find((token) => token.kind !== 'option' || !Object.hasOwn(flags, token.name));
  if (unknown?.kind !== 'option') return 'unexpected argument (not repeated here, in case it is a secret)';
  const near = nearest(unknown.name, Object.keys(flags));
  if (near) return `unknown option; did you mean --${near}?`;
  if (!SECRET_LOOKING.test(unknown.name)) return 'unknown option';
  return 'secrets are read from the environment, never from arguments, which stay in the shell history';
}
