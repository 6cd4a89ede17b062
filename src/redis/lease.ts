/** Leases that this replica holds while its request is in flight. */

import { type Clock, startTimer } from '../clock.ts';
import type { SharedRecord } from './shared-record.ts';

/** Renews the leases of a call at a third of their length, until stopped or one is lost. Returns what stops it. */
export function keepLeases(
  record: SharedRecord,
  clock: Clock,
  leaseMs: number,
  call: string,
  names: readonly string[],
): () => void {
  let stopped = false;
  let cancel = () => {};
  const renew = async () => {
    const held = await Promise.all(names.map((name) => record.renew(name, call)));
    if (!stopped && !held.includes(false)) wait();
  };
  const wait = () => {
    cancel = startTimer(clock, () => void renew(), leaseMs / 3);
  };
  wait();
  return () => {
    stopped = true;
    cancel();
  };
}
