import { runCommandLine } from '../../src/cli/commands.ts';

/** The result of a command line. */
export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line in this process, with only the given environment, and collects what it prints. */
export async function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<Ended> {
  const printed = { out: '', err: '' };
  const into = (stream: 'out' | 'err') => ({
    write(text: string | Uint8Array) {
      printed[stream] += String(text);
      return true;
    },
  });
  const code = await runCommandLine(args, { env, out: into('out'), err: into('err'), signal });
  return { code, ...printed };
}
