/** Runs an export of a module in a process of its own, and gives what it returns. */

import { fork } from 'node:child_process';
import { once } from 'node:events';

const EXEC_ARGV = ['--expose-gc', '--max-old-space-size=6000'];

/**
 * Resolves when that process has ended, because freeing a large heap takes time from what is measured next.
 *
 * @param execArgv more options of Node
 */
export async function inProcess(module, name, argument, execArgv = []) {
  const args = [module, name, JSON.stringify(argument)];
  const child = fork(new URL('child.mjs', import.meta.url), args, { execArgv: [...EXEC_ARGV, ...execArgv] });
  let message;
  child.once('message', (received) => {
    message = received;
  });
  const [[code]] = await Promise.all([once(child, 'exit'), once(child, 'disconnect')]);
  if (message === undefined) throw new Error(`${module} ended with ${code} and no result`);
  if (message.failure) throw new Error(message.failure);
  return message.result;
}
