/** Leases that this replica holds while its request is in flight. */

import { type Clock, startTimer } from '../clock.ts';
import type { SharedRecord } from './shared-record.ts';

/**
 * Renews the leases of a call each time that a third of their length has passed, until stopped or one is lost. Returns what
 * stops it.
 *
 * @param firstRenewalAtMs a monotonic time. Renews at once if that time has passed.
 */
export function keepLeases(
  record: SharedRecord,
  clock: Clock,
  leaseMs: number,
  call: string,
  names: readonly string[],
  firstRenewalAtMs: number,
): () => void {
  let stopped = false;
  let cancel = () => {};
  const renew = async () => {
    const held = await Promise.all(names.map((name) => record.renew(name, call)));
    if (!stopped && !held.includes(false)) wait(leaseMs / 3);
  };
  const wait = (ms: number) => {
    cancel = startTimer(clock, () => void renew(), ms);
  };
  const untilRenewalMs = firstRenewalAtMs - clock.monotonic();
  if (untilRenewalMs > 0) wait(untilRenewalMs);
  else void renew();
  return () => {
    stopped = true;
    cancel();
  };
}
