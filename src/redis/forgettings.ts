/**
 * The owners that this replica was told to forget. The record gives the generation, which a message to the other replicas then
 * proves. What Redis does not carry out is kept until it does, and told once more a while later, because the subscribers come back
 * at their own pace.
 */

import { startTimer, stopTimer, type Timer } from '../clock.ts';
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
  sending?: Promise<boolean> | undefined;
}

type Deps = Pick<SharedCallDeps, 'link' | 'names' | 'known' | 'clock' | 'diagnostics'>;

export class Forgettings {
  readonly #deps: Deps;
  readonly #nameOf: (accessKey: string) => Promise<string>;
  /** By access key: those on their way too. */
  readonly #kept = new Map<string, Forgetting>();
  /** Whether one was not sent at once; it has been warned of. */
  #isDelayed = false;
  #timer: Timer | undefined;

  /** @param nameOf the name of the owner's record. */
  constructor(deps: Deps, nameOf: (accessKey: string) => Promise<string>) {
    this.#deps = deps;
    this.#nameOf = nameOf;
  }

  async add(accessKey: string): Promise<void> {
    const forgetting: Forgetting = { accessKey };
    this.#kept.set(accessKey, forgetting);
    const isSent = await this.#send(forgetting);
    const isLast = this.#kept.get(accessKey) === forgetting;
    if (isLast && (isSent || this.#kept.size > MAX_KEPT)) this.#kept.delete(accessKey);
    if (!isSent) this.#later();
  }

  /** Whether the owner's record has no token from before. Undefined if the owner was not forgotten lately. */
  isRecorded(accessKey: string): Promise<boolean> | undefined {
    const forgetting = this.#kept.get(accessKey);
    return forgetting && this.#send(forgetting).then(() => forgetting.generation !== undefined);
  }

  /** Sends all that is kept, one after the other, while Redis is available. */
  async flush(): Promise<void> {
    for (const forgetting of this.#kept.values()) {
      const { isTold } = forgetting;
      if (!(await this.#send(forgetting))) break;
      if (isTold) this.#kept.delete(forgetting.accessKey);
      forgetting.isTold = true;
    }
    this.#isDelayed &&= this.#kept.size > 0;
    if (this.#isDelayed) this.#later();
  }

  /** Sends what is kept for the last time. */
  async close(): Promise<void> {
    await this.flush();
    stopTimer(this.#timer);
  }

  #later(): void {
    if (!this.#isDelayed) this.#deps.diagnostics.report('forget_delayed');
    this.#isDelayed = true;
    stopTimer(this.#timer);
    this.#timer = startTimer(this.#deps.clock, () => void this.flush(), AGAIN_MS);
    // It keeps no process alive.
    if (typeof this.#timer !== 'function') this.#timer.unref();
  }

  /** Whether the others were told. One attempt at a time. Fails too if the source's identity() does. */
  #send(forgetting: Forgetting): Promise<boolean> {
    const end = () => {
      forgetting.sending = undefined;
    };
    forgetting.sending ??= this.#tell(forgetting)
      .catch(() => false)
      .finally(end);
    return forgetting.sending;
  }

  async #tell(forgetting: Forgetting): Promise<boolean> {
    const { link, names, known } = this.#deps;
    const name = await this.#nameOf(forgetting.accessKey);
    const args = [names.channel, name, known.newest(name)];
    if (forgetting.generation === undefined) {
      const [, , generation] = (await link.run([FORGET, name, args])) ?? [];
      if (generation === undefined) return false;
      forgetting.generation = Number(generation);
      // So that this replica's own message changes nothing here.
      known.forget(name, forgetting.accessKey, forgetting.generation);
    }
    const proof = names.proofOf('forgotten', name, forgetting.generation);
    return (await link.run([FORGET, name, [...args, forgetting.generation, proof]])) !== undefined;
  }
}
