/** One call of a shared source in progress. */

import { randomUUID } from 'node:crypto';
import type { TokenRequest } from '../token.ts';
import type { SendTime } from './pacer.ts';
import type { SharedCircuit } from './shared-circuit.ts';
import type { Watch } from './wakeups.ts';

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
