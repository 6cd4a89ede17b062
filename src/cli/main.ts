#!/usr/bin/env node
/** The executable: hands the process to the commands. */

import { runCommandLine } from './commands.ts';

const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  // Once: the same signal again finds no listener, and ends the process.
  process.once(name, () => interrupted.abort());
}
// A reader that has seen enough (`… | head -1`) closes the pipe; that is no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});
process.exitCode = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  out: process.stdout,
  err: process.stderr,
  signal: interrupted.signal,
});
