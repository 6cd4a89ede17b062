/** The CPU time of other processes: the figures of a run that shared the machine are not published. */

import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const WATCH_MS = 2_000;

/** The share of the CPU that other processes may use before or after a part of a run. */
const MAX_OTHERS = 0.1;

/** The share of the machine's CPU time that is in use while the benchmarks pause. */
export async function shareOfOthers() {
  const before = cpuTimes();
  await sleep(WATCH_MS);
  const after = cpuTimes();
  return 1 - (after.idle - before.idle) / (after.all - before.all);
}

/**
 * Throws if other processes used the CPU.
 *
 * @param shares by the name of the part that each was measured around
 * @param repeat how to run it again
 */
export function checkUndisturbed(shares, repeat) {
  const disturbed = Object.entries(shares).filter(([, share]) => !(share <= MAX_OTHERS));
  if (disturbed.length === 0) return;
  const around = disturbed.map(([name, share]) => `${percent(share)} around ${name}`);
  throw new Error(
    `other processes used more than ${percent(MAX_OTHERS)} of the CPU (${around.join(', ')}): ${repeat} on an idle machine`,
  );
}

export const percent = (share) => `${Math.round(100 * share)} %`;

function cpuTimes() {
  const times = os.cpus().map((cpu) => cpu.times);
  const sum = (of) => times.reduce((total, each) => total + of(each), 0);
  return { idle: sum(({ idle }) => idle), all: sum((each) => Object.values(each).reduce((a, b) => a + b)) };
}
