/** Runs an export of a module in a process of its own, and gives what it returns. */

import { fork } from 'node:child_process';

const EXEC_ARGV = ['--expose-gc', '--max-old-space-size=6000'];

/** @param execArgv more options of Node */
export function inProcess(module, name, argument, execArgv = []) {
  const args = [module, name, JSON.stringify(argument)];
  const child = fork(new URL('child.mjs', import.meta.url), args, { execArgv: [...EXEC_ARGV, ...execArgv] });
  return new Promise((resolve, reject) => {
    child.once('message', ({ result, failure }) => (failure ? reject(new Error(failure)) : resolve(result)));
    child.once('exit', (code) => reject(new Error(`${module} ended with ${code} and no result`)));
  });
}
