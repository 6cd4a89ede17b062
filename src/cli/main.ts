#!/usr/bin/env node
/** The executable: runs one command line with this process's environment, streams and signals. */

import { runCommandLine } from './commands.ts';

const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  // `once`: a second signal finds no listener, so Node's default ends the process.
  process.once(name, () => interrupted.abort());
}
// A reader such as `head -1` closes the pipe when it has enough; that is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});
process.exitCode = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  out: process.stdout,
  err: process.stderr,
  signal: interrupted.signal,
});
