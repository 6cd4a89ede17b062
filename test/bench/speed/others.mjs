/** Measures the CPU time of other processes, because the figures of a disturbed run are not published. */

import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const WATCH_MS = 2_000;

/** The share of the machine's CPU time that is in use while the benchmarks pause. */
export async function shareOfOthers() {
  const before = cpuTimes();
  await sleep(WATCH_MS);
  const after = cpuTimes();
  return 1 - (after.idle - before.idle) / (after.all - before.all);
}

function cpuTimes() {
  const times = os.cpus().map((cpu) => cpu.times);
  const sum = (of) => times.reduce((total, each) => total + of(each), 0);
  return { idle: sum(({ idle }) => idle), all: sum((each) => Object.values(each).reduce((a, b) => a + b)) };
}
