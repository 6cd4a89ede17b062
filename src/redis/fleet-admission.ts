/**
 * Admits requests past the fleet's circuit breaker. See `shared-circuit.ts` for its states. Its record is read with the
 * same script as an owner's.
 */

import type { Clock } from '../clock.ts';
import { type Decision, FALL_BACK, type Trial } from './decision.ts';
import type { SharedCall } from './shared-call.ts';
import type { SharedCircuit } from './shared-circuit.ts';
import type { SharedRecord } from './shared-record.ts';
import type { StoredFailures } from './stored-failure.ts';
import type { Wakeups } from './wakeups.ts';

/** The call's request may be sent, perhaps as the fleet's trial. */
export interface Admitted {
  readonly do: 'send';
  readonly trial: Trial | undefined;
}

export const ADMITTED: Admitted = Object.freeze({ do: 'send', trial: undefined });

export interface FleetAdmissionOptions {
  readonly record: SharedRecord;
  readonly failures: StoredFailures;
  readonly wakeups: Wakeups;
  readonly clock: Clock;
}

export class FleetAdmission {
  readonly #options: FleetAdmissionOptions;

  constructor(options: FleetAdmissionOptions) {
    this.#options = options;
  }

  /** Reads the circuit's record for the first time and notes whether it may hold a failure. */
  async readFirst(circuit: SharedCircuit): Promise<void> {
    const { inTime, late } = await this.#options.record.acquire(circuit.name, { call: '', mayLead: false });
    const found = inTime ?? (await late);
    if (!circuit.isUnread) return;
    if (found?.what === 'free' && found.failure === '') circuit.foundClosed();
    else circuit.suspect();
  }

  /** Admits the call, perhaps as the fleet's trial, or returns what it does instead. */
  async admit(call: SharedCall, waitDeadlineMs: number): Promise<Admitted | Decision> {
    const { record, failures, wakeups, clock } = this.#options;
    const { id, circuit, request } = call;
    if (!circuit.mustRead) return ADMITTED;
    const watch = wakeups.watch(circuit.name);
    let mayLead = false;
    let unreadable = '';
    try {
      for (;;) {
        request.signal.throwIfAborted();
        const readAtMs = clock.monotonic();
        const { inTime: reply, late } = await record.acquire(circuit.name, { call: id, mayLead, unreadable });
        switch (reply?.what) {
          case 'lead':
            return { do: 'send', trial: { failureBefore: reply.failure } };
          case 'failure': {
            const error = failures.read(circuit.name, reply.failure, reply.nowUs, 0);
            if (error) return { do: 'refuse', error };
            unreadable = reply.failure;
            break;
          }
          case 'free':
            mayLead = reply.failure !== '';
            if (mayLead) break;
            circuit.foundClosed();
            return ADMITTED;
          case 'wait': {
            const leftMs = waitDeadlineMs - clock.monotonic();
            if (leftMs <= 0) return FALL_BACK;
            await call.waitToReread(watch, Math.min(reply.remainingMs, leftMs), readAtMs);
            await call.takePermit();
            break;
          }
          default:
            // No reply in time: admit, because Redis must not block a call.
            record.abandon(circuit.name, id, late);
            return ADMITTED;
        }
      }
    } finally {
      watch.stop();
    }
  }
}
