/** Holds the state of `failures/reducer.ts`, and reports when the circuit opens and closes. */

import type { Instant } from '../clock.ts';
import type { Diagnostics, ReportedRequest } from '../diagnostics.ts';
import { type Circuit, mayStart, refusingCircuit, trialDueAtMs } from '../failures/blame.ts';
import {
  type Health,
  type HealthEvent,
  initialHealth,
  reduce,
  roomAt,
  roomGrowsAtMs,
  type Step,
  slowAfterMs,
} from '../failures/reducer.ts';
import { withOutcome } from '../failures/refusals.ts';
import type { RegistrySettings } from './options.ts';

export class ServiceHealth {
  readonly #settings: RegistrySettings;
  readonly #diagnostics: Diagnostics;
  #health: Health<string>;
  /** The circuit that was reported last. */
  #reported: Circuit | undefined;

  constructor(settings: RegistrySettings, diagnostics: Diagnostics) {
    this.#settings = settings;
    this.#diagnostics = diagnostics;
    this.#health = initialHealth(settings.requestsPerSecond);
  }

  /** The open circuit, and whether its trial is in flight. */
  get circuit(): (Circuit & { readonly probing: boolean }) | undefined {
    const { circuit, outstanding } = this.#health.blame;
    return circuit && { ...circuit, probing: outstanding > 0 };
  }

  /** The circuit that refuses calls now. */
  refusingCircuit(nowMs: number): Circuit | undefined {
    return refusingCircuit(this.#health.blame, nowMs);
  }

  get mayStart(): boolean | 'trial' {
    return mayStart(this.#health.blame);
  }

  /** When the pace lets the next request start. */
  get nextStartMs(): number {
    return this.#health.pace.nextStartMs;
  }

  /** Counts how often the circuit has closed. */
  get round(): number {
    return this.#health.blame.round;
  }

  get slowAfterMs(): number {
    return slowAfterMs(this.#health);
  }

  get trialDueAtMs(): number | undefined {
    return trialDueAtMs(this.#health.blame);
  }

  roomAt(nowMs: number): number {
    return roomAt(this.#health, this.#settings.concurrency, nowMs);
  }

  /** When a queued request may start merely because time has passed; undefined if that takes an outcome. */
  mayStartAtMs(nowMs: number): number | undefined {
    if (nowMs < this.nextStartMs) return this.nextStartMs;
    return roomGrowsAtMs(this.#health, this.#settings.concurrency, nowMs);
  }

  step(event: HealthEvent<string>, { monotonicMs }: Instant): Step<string> {
    const step = reduce(this.#health, event, this.#settings.pauses, monotonicMs);
    this.#health = step.health;
    return step;
  }

  /** The canary to ask next: of the owners that succeeded most recently, the first that is free. */
  nextCanary(isFree: (accessKey: string) => boolean): string | undefined {
    const { canaries, asked } = this.#health.blame;
    return canaries.find((owner) => !asked.includes(owner) && isFree(owner));
  }

  /** All owners that it refers to. */
  get owners(): readonly string[] {
    const { canaries, suspects } = this.#health.blame;
    return [...canaries, ...suspects];
  }

  /** Reports a circuit that has opened or closed since the last report. */
  report(now: Instant, message: ReportedRequest | undefined): void {
    const { circuit } = this.#health.blame;
    const reported = this.#reported;
    if (circuit === reported) return;
    this.#reported = circuit;
    if (reported && reported.scope !== circuit?.scope) this.#diagnostics.lifted(reported.scope);
    if (!circuit) return;
    const { scope, error } = circuit;
    this.#diagnostics.paused(scope, circuit, withOutcome(error, scope, circuit, now), message);
  }
}
