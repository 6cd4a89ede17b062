/** Runs an export of a module in a process of its own, and gives what it returns. */

import { fork } from 'node:child_process';

const EXEC_ARGV = ['--expose-gc', '--max-old-space-size=6000'];

export function inProcess(module, name, argument) {
  const args = [module, name, JSON.stringify(argument)];
  const child = fork(new URL('child.mjs', import.meta.url), args, { execArgv: EXEC_ARGV });
  return new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('exit', (code) => reject(new Error(`${module} ended with ${code} and no result`)));
  });
}
