/** When the tenants of a setting call. */

import type { ManualClock } from '../helpers/manual-clock.ts';
import { SEC, type TenantGroup } from './setting.ts';

/** Schedules one group's calls. Times between calls are exponential, unless they are even. */
export function scheduleCalls(
  group: TenantGroup,
  time: ManualClock,
  random: () => number,
  call: (number: number) => void,
  endsMs: number,
): void {
  const { count = 0, everyMs, isEven, perSecond, burstMs, fromMs = 0, untilMs = endsMs, pattern } = group;
  /** Runs something again and again from then on. */
  const repeat = (fromMs: number, meanMs: number, run: () => void) => {
    const gapMs = (least: number) => meanMs * (isEven ? least + random() : -Math.log(1 - random()));
    const after = (ms: number, least = 0.5) =>
      time.at(ms + gapMs(least), () => {
        if (time.monotonicMs >= untilMs) return;
        run();
        after(time.monotonicMs);
      });
    after(fromMs, 0);
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
