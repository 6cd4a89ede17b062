/** One call of a shared source in progress. */

import { randomUUID } from 'node:crypto';
import type { TokenRequest } from '../token.ts';
import type { SendTime } from './pacer.ts';
import type { SharedCircuit } from './shared-circuit.ts';
import type { Watch } from './wakeups.ts';

/** The part of a request's time that is left for the call's own request. */
const RESERVED_MS = 3_000;

export class SharedCall {
  /** Holds the leases. A replica may have several calls for one owner, of different generations. */
  readonly id = randomUUID();
  readonly accessKey: string;
  readonly request: TokenRequest;
  /** The name of the owner's record. */
  readonly owner: string;
  readonly circuit: SharedCircuit;
  /** The call's permission to send a request, if requests are paced. */
  sendTime: SendTime | undefined;
  #hasPermit = true;

  constructor(accessKey: string, request: TokenRequest, owner: string, circuit: SharedCircuit) {
    this.accessKey = accessKey;
    this.request = request;
    this.owner = owner;
    this.circuit = circuit;
  }

  /** Whether the call has a permit. It needs one to send a request, and none to wait for another replica's. */
  get hasPermit(): boolean {
    return this.#hasPermit;
  }

  /**
   * How long the call may wait for Redis and other replicas, so that the registry does not end it before its own request,
   * which would blame the service. Half of its time at least, or most short requests would not be shared.
   */
  get patienceMs(): number {
    const { timeoutMs = Infinity } = this.request;
    return Math.max(timeoutMs - RESERVED_MS, timeoutMs / 2);
  }

  releasePermit(): void {
    const { permit } = this.request;
    if (!permit || !this.#hasPermit) return;
    permit.release();
    this.#hasPermit = false;
  }

  async takePermit(): Promise<void> {
    if (this.#hasPermit) return;
    await this.request.permit?.take();
    this.#hasPermit = true;
  }

  /**
   * Releases the permit and waits until the record should be read again.
   *
   * @param readAtMs when it was last read (monotonic).
   */
  async waitToReread(watch: Watch, leaseMs: number, readAtMs: number): Promise<void> {
    this.releasePermit();
    await watch.next(leaseMs, readAtMs, this.request.signal);
  }
}
