/**
 * Admits requests past the fleet's circuit breaker. See `shared-circuit.ts` for its states; they are read from its record
 * with the same script as an owner's.
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

export interface AdmissionOptions {
  readonly record: SharedRecord;
  readonly failures: StoredFailures;
  readonly wakeups: Wakeups;
  readonly clock: Clock;
}

export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** The first read of the circuit's record. */
  async readFirst(circuit: SharedCircuit): Promise<void> {
    const { answer, late } = await this.#options.record.acquire(circuit.name, { call: '', mayLead: false });
    const found = answer ?? (await late);
    if (!circuit.isUnread) return;
    if (found?.what === 'free' && found.failure === '') circuit.foundClosed();
    else circuit.suspect();
  }

  /** Admits the call, perhaps as the fleet's trial, or returns what it does instead. */
  async admit(call: SharedCall, endsAtMs: number): Promise<Admitted | Decision> {
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
        const { answer, late } = await record.acquire(circuit.name, { call: id, mayLead, unreadable });
        switch (answer?.what) {
          case 'lead':
            return { do: 'send', trial: { failureBefore: answer.failure } };
          case 'failure': {
            const error = failures.read(circuit.name, answer.failure, answer.nowUs, 0);
            if (error) return { do: 'refuse', error };
            unreadable = answer.failure;
            break;
          }
          case 'free':
            mayLead = answer.failure !== '';
            if (mayLead) break;
            circuit.foundClosed();
            return ADMITTED;
          case 'wait': {
            const leftMs = endsAtMs - clock.monotonic();
            if (leftMs <= 0) return FALL_BACK;
            await call.follow(watch, Math.min(answer.remainingMs, leftMs), readAtMs);
            await call.takePermit();
            break;
          }
          default:
            record.abandon(circuit.name, id, late);
            return ADMITTED;
        }
      }
    } finally {
      watch.stop();
    }
  }
}
