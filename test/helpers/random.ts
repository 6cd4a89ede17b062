import { seeded } from './seeded.mjs';

/** Everything random in a world comes from one seed and one sequence. */
export class Random {
  /** A number in [0, 1). */
  readonly next: () => number;

  constructor(seed: number) {
    this.next = seeded(seed);
  }

  /** An integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }

  /** Milliseconds between two bounds on a logarithmic scale, because time scales differ by orders of magnitude. */
  span(fromMs: number, toMs: number): number {
    return Math.round(fromMs * (toMs / fromMs) ** this.next());
  }
}
