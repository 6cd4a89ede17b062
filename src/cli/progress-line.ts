import type { Output } from './command.ts';

/** Least time between two redraws on a terminal. */
const REDRAW_MS = 50;

/** One line of progress: rewritten in place on a terminal, elsewhere printed again now and then. */
export class ProgressLine {
  readonly #out: Output;
  readonly #plainMs: number;
  #writtenMs = Number.NEGATIVE_INFINITY;

  /** @param plainMs least time between two lines where they cannot be rewritten. */
  constructor(out: Output, plainMs: number) {
    this.#out = out;
    this.#plainMs = plainMs;
  }

  /** @param isDue shows this line even if the last one was shown just before. */
  write(line: string, isDue = false): void {
    const nowMs = performance.now();
    if (!isDue && nowMs - this.#writtenMs < (this.#out.isTTY ? REDRAW_MS : this.#plainMs)) return;
    this.#writtenMs = nowMs;
    // A line that wraps could not be rewritten.
    this.#out.write(this.#out.isTTY ? `\r${line.slice(0, (this.#out.columns ?? 80) - 1)}\u001b[K` : `${line}\n`);
  }

  /** Removes the line from a terminal. */
  clear(): void {
    if (this.#out.isTTY) this.#out.write('\r\u001b[K');
  }
}
