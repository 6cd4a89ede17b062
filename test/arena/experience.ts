/** What the calls of healthy tenants experienced, and how late those of ill ones failed. */

import { isWithin, MIN, SEC, type TenantGroup } from '../world/setting.ts';
import type { Scene } from './scene.ts';

const LATE_MS = 2 * SEC;
/** Nobody waits longer: a call that ends later counts as refused. */
const GIVE_UP_MS = MIN;
/** An owner that is not served so long after the end of a fault is locked out. */
const LOCKED_AFTER_MS = MIN;

export interface Experienced {
  readonly calls: number;
  /** Percentage of the calls that were served in time. */
  readonly inTime: number;
  readonly late: number;
  readonly refused: number;
  /** Calls that had not ended when the run did, those of ill tenants too. */
  readonly pending: number;
  /** How long each served call waited, ascending. */
  readonly waitsMs: readonly number[];
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** How long calls that do not count because their tenant is ill took to fail: the 99th percentile. */
  readonly illP99Ms: number;
  /** Owners that calls well after the end of the scene's fault did not serve, nor any before. */
  readonly locked: number;
  readonly owners: number;
  /** Owners of which no call was served in time. */
  readonly never: number;
  /** Why calls were refused, by the error's code. */
  readonly codes: Readonly<Record<string, number>>;
}

type Ended = (endedMs: number, error?: unknown) => void;

export class Experience {
  readonly #lateMs: number;
  readonly #uncounted: Scene['uncounted'];
  readonly #endsMs: number;
  readonly #illWaitsMs: number[] = [];
  #illPending = 0;
  readonly #back = new Set<string>();
  readonly #locked = new Set<string>();
  #calls = 0;
  #inTime = 0;
  #refused = 0;
  readonly #waitsMs: number[] = [];
  readonly #codes: Record<string, number> = {};
  /** Whether one of an owner's calls was served in time. */
  readonly #served = new Map<string, boolean>();

  constructor({ lateMs = LATE_MS, uncounted, endsMs = Number.POSITIVE_INFINITY }: Scene) {
    this.#lateMs = lateMs;
    this.#uncounted = uncounted;
    this.#endsMs = endsMs;
  }

  /** A call began. Returns what to call when it ends. */
  began(group: TenantGroup, owner: string, beganMs: number): Ended {
    const ended = this.#counted(group, owner, beganMs);
    return (endedMs, error) => {
      if (error === undefined && endedMs - beganMs <= this.#lateMs) this.#back.add(owner);
      else if (beganMs >= this.#endsMs + LOCKED_AFTER_MS && !this.#back.has(owner)) this.#locked.add(owner);
      ended?.(endedMs, error);
    };
  }

  #counted(group: TenantGroup, owner: string, beganMs: number): Ended | undefined {
    if (isIll(group, beganMs)) {
      this.#illPending++;
      return (endedMs, error) => {
        this.#illPending--;
        if (error !== undefined) this.#illWaitsMs.push(endedMs - beganMs);
      };
    }
    if (this.#uncounted?.some((span) => isWithin(span, beganMs))) return undefined;
    this.#calls++;
    if (!this.#served.has(owner)) this.#served.set(owner, false);
    return (endedMs, error) => {
      const waitMs = endedMs - beganMs;
      if (error !== undefined) this.#wasRefused(codeOf(error));
      else if (waitMs > Math.max(GIVE_UP_MS, this.#lateMs)) this.#wasRefused('gave up');
      else this.#wasServed(owner, waitMs);
    };
  }

  #wasRefused(code: string): void {
    this.#refused++;
    this.#codes[code] = (this.#codes[code] ?? 0) + 1;
  }

  #wasServed(owner: string, waitMs: number): void {
    this.#waitsMs.push(waitMs);
    if (waitMs > this.#lateMs) return;
    this.#inTime++;
    this.#served.set(owner, true);
  }

  result(): Experienced {
    const waitsMs = this.#waitsMs.sort((a, b) => a - b);
    return {
      calls: this.#calls,
      inTime: (100 * this.#inTime) / Math.max(1, this.#calls),
      late: waitsMs.length - this.#inTime,
      refused: this.#refused,
      pending: this.#calls - waitsMs.length - this.#refused + this.#illPending,
      waitsMs,
      p50Ms: quantile(waitsMs, 0.5),
      p99Ms: quantile(waitsMs, 0.99),
      illP99Ms: quantile(
        this.#illWaitsMs.sort((a, b) => a - b),
        0.99,
      ),
      locked: this.#locked.size,
      owners: this.#served.size,
      never: [...this.#served.values()].filter((wasServed) => !wasServed).length,
      codes: this.#codes,
    };
  }
}

function isIll({ ill = false, illFromMs, illUntilMs }: TenantGroup, ms: number): boolean {
  return ill || (illFromMs !== undefined && illUntilMs !== undefined && isWithin([illFromMs, illUntilMs], ms));
}

function codeOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return String(code ?? name);
}

const quantile = (ascending: readonly number[], share: number) =>
  ascending[Math.min(ascending.length - 1, Math.floor(share * ascending.length))] ?? 0;
