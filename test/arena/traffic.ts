/** When the tenants of a scene call. */

import type { ManualClock } from '../helpers/manual-clock.ts';
import { SEC, type TenantGroup } from './scene.ts';

/** Sets the calls of one group. Times between calls are exponential. */
export function scheduleCalls(
  group: TenantGroup,
  time: ManualClock,
  random: () => number,
  call: (number: number) => void,
  sceneEndMs: number,
): void {
  const { count = 0, everyMs, perSecond, burstMs, fromMs = 0, untilMs = sceneEndMs, pattern } = group;
  /** Runs something again and again from then on. */
  const repeat = (fromMs: number, meanMs: number, run: () => void) => {
    const after = (ms: number) =>
      time.at(ms - Math.log(1 - random()) * meanMs, () => {
        if (time.monotonicMs >= untilMs) return;
        run();
        after(time.monotonicMs);
      });
    after(fromMs);
  };
  if (perSecond !== undefined) {
    let arrived = 0;
    repeat(fromMs, SEC / perSecond, () => call(arrived++));
  }
  for (let number = 0; number < count; number++) {
    if (burstMs !== undefined) time.at(fromMs + (burstMs * number) / count, () => call(number));
    if (everyMs !== undefined) {
      repeat(fromMs + (burstMs ?? 0), everyMs, () => {
        if (!pattern || pattern(time.monotonicMs)) call(number);
      });
    }
  }
}
