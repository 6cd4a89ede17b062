/**
 * The owners that this replica was told to forget. The record gives the generation, which a message to the other replicas then
 * proves. What Redis does not carry out is kept until it does, and told once more a while later, because the subscribers come back
 * at their own pace.
 */

import { startIdleTimer, stopTimer, type Timer } from '../clock.ts';
import { FORGET } from './record-scripts.ts';
import type { SharedCallDeps } from './shared-call.ts';

/** The most owners that are kept while Redis is unavailable. */
const MAX_KEPT = 10_000;

const AGAIN_MS = 5_000;

interface Forgetting {
  readonly accessKey: string;
  /** The record's; undefined until it has been asked. */
  generation?: number;
  isTold?: boolean;
  /** The attempt in flight: whether the others were told. */
  sending?: Promise<boolean> | undefined;
}

export class Forgettings {
  /** By access key: those on their way too. */
  readonly kept = new Map<string, Forgetting>();
  readonly #deps: SharedCallDeps;
  /** Whether one was not sent at once; it has been warned of. */
  #isDelayed = false;
  #timer: Timer | undefined;

  constructor(deps: SharedCallDeps) {
    this.#deps = deps;
  }

  async add(accessKey: string): Promise<void> {
    const forgetting: Forgetting = { accessKey };
    this.kept.set(accessKey, forgetting);
    const isSent = await this.#send(forgetting);
    const isLast = this.kept.get(accessKey) === forgetting;
    if (isLast && (isSent || this.kept.size > MAX_KEPT)) this.kept.delete(accessKey);
    if (!isSent) this.#later();
  }

  /** Whether the owner's record has no token from before. */
  async isRecorded(accessKey: string): Promise<boolean> {
    const forgetting = this.kept.get(accessKey);
    return !forgetting || (await this.#send(forgetting)) || forgetting.generation !== undefined;
  }

  /** Sends all that is kept, one after the other, while Redis is available. */
  async flush(): Promise<void> {
    for (const forgetting of this.kept.values()) {
      const { isTold } = forgetting;
      if (!(await this.#send(forgetting))) break;
      if (isTold) this.kept.delete(forgetting.accessKey);
      forgetting.isTold = true;
    }
    this.#isDelayed &&= this.kept.size > 0;
    if (this.#isDelayed) this.#later();
  }

  /** Sends what is kept for the last time. */
  async close(): Promise<void> {
    await this.flush();
    stopTimer(this.#timer);
  }

  #later(): void {
    const { clock, diagnostics } = this.#deps;
    if (!this.#isDelayed) diagnostics.report('forget_delayed');
    this.#isDelayed = true;
    stopTimer(this.#timer);
    this.#timer = startIdleTimer(clock, () => void this.flush(), AGAIN_MS);
  }

  /** One attempt at a time. Fails too if the source's identity() does. */
  async #send(forgetting: Forgetting): Promise<boolean> {
    forgetting.sending ??= this.#tell(forgetting).catch(() => false);
    const isSent = await forgetting.sending;
    forgetting.sending = undefined;
    return isSent;
  }

  async #tell(forgetting: Forgetting): Promise<boolean> {
    const { link, names, known, identity } = this.#deps;
    const name = names.ofOwner(await identity(), forgetting.accessKey);
    const args = [names.channel, name, known.meet(name, forgetting.accessKey).generation];
    if (forgetting.generation === undefined) {
      const [, , generation] = (await link.run([FORGET, name, args])) ?? [];
      if (generation === undefined) return false;
      forgetting.generation = Number(generation);
      // So that this replica's own message changes nothing here.
      known.hear('forgotten', name, forgetting.generation);
    }
    const proof = names.proofOf('forgotten', name, forgetting.generation);
    return (await link.run([FORGET, name, [...args, forgetting.generation, proof]])) !== undefined;
  }
}
