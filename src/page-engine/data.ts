/**
 * What the picture shows: owners as lanes and requests over time, as plain data from whatever source. Times are epoch
 * milliseconds.
 */

/** How a request is drawn and counted. Each kind has a shape of its own. */
export const MARK_KINDS = ['ok', 'wasted', 'limited', 'error', 'broken', 'refused', 'pending'] as const;

export type MarkKind = (typeof MARK_KINDS)[number];

/** One request. `kind`: an index of {@link MARK_KINDS}. `wasted`: needless, however it ended. */
export type Mark = readonly [id: number, atMs: number, kind: number, wasted?: 1];

/** The lifetime of one token. */
export interface Bar {
  readonly id: string;
  readonly fromMs: number;
  readonly toMs: number;
  /** It ended before its time. */
  readonly cut: boolean;
}

export interface Lane {
  readonly id: string;
  readonly name: string;
  /** By `fromMs`. */
  readonly bars: readonly Bar[];
  /** By `id`. */
  readonly marks: readonly Mark[];
}

/** A second (epoch seconds), and the requests that began in it by {@link MARK_KINDS}. */
export type Second = readonly [second: number, ...counts: number[]];

export type Seconds = ReadonlyMap<number, Second>;

/** A span of time behind rail and lanes. */
export interface Band {
  readonly id: number;
  /** A shaded area (`unseen`: nobody recorded), a strip with a name on the rail, or a line. */
  readonly look: 'fault' | 'jump' | 'unseen' | 'strip' | 'line';
  readonly word: string;
  readonly fromMs: number;
  /** Absent: it continues. */
  readonly toMs?: number;
}

/** What a page shows of the requests. If the lanes are fewer than `matching`, they are the worst. */
export interface PictureData {
  readonly lanes: readonly Lane[];
  readonly matching: number;
  readonly seconds: Seconds;
  readonly bands: readonly Band[];
}

export const bySecond = (seconds: readonly Second[]): Seconds => new Map(seconds.map((second) => [second[0], second]));

/** Requests that began in `fromMs <= t < toMs`, by {@link MARK_KINDS}: the seconds that begin in the span count whole. */
export function countsBetween(seconds: Seconds, fromMs: number, toMs: number): number[] {
  const counts = MARK_KINDS.map(() => 0);
  for (const [second, ...own] of seconds.values()) {
    if (second * 1000 < fromMs || second * 1000 >= toMs) continue;
    for (const [index, count] of own.entries()) counts[index] = (counts[index] ?? 0) + count;
  }
  return counts;
}

export const kindOf = ([, , kind]: Mark): MarkKind => MARK_KINDS[kind] ?? 'ok';

const FAILED: readonly MarkKind[] = ['limited', 'error', 'broken', 'refused'];

/** Whether the request has ended without what it asked for. */
export const hasFailed = (kind: MarkKind): boolean => FAILED.includes(kind);

/** The bar that ends last, if one has not ended. */
export function liveBar({ bars }: Pick<Lane, 'bars'>, nowMs: number): Bar | undefined {
  let best: Bar | undefined;
  for (const bar of bars) if (bar.toMs > (best?.toMs ?? nowMs)) best = bar;
  return best;
}
