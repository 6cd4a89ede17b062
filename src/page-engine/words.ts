/** Numbers, times and marks in words. */

import { MARK_KINDS, type MarkKind } from './data.ts';

export const MARK_WORDS: Readonly<Record<MarkKind, string>> = {
  ok: '200',
  wasted: 'wasted',
  limited: '429',
  error: '5xx',
  broken: 'no usable answer',
  refused: 'refused or revoked',
  pending: 'in flight',
};

/** Counts by {@link MARK_KINDS}; `none` where all are zero. */
export function marksWord(counts: readonly number[], none: string): string {
  const words = counts.flatMap((count, kind) =>
    count > 0 ? `${countWord(count)} × ${MARK_WORDS[MARK_KINDS[kind] ?? 'ok']}` : [],
  );
  return words.join(', ') || none;
}

/** What a browser has, and Node has not. */
type Global = { readonly document?: { readonly documentElement: { readonly dataset: { readonly time?: string } } } };

const isUtc = (): boolean => (globalThis as Global).document?.documentElement.dataset.time === 'utc';

/**
 * A time of day in the user's time zone, or in UTC where the page's root element says so. Called hundreds of times per update,
 * for which `Intl` is too slow.
 */
export const timeWord = (atMs: number): string => {
  const date = new Date(atMs);
  return isUtc() ? date.toISOString().slice(11, 19) : date.toTimeString().slice(0, 8);
};

export const clockWord = (atMs: number): string => {
  const date = new Date(atMs);
  return `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, '0')}`;
};

/** A span of time in at most two units: `0.4 ms`, `850 ms`, `12.5 s`, `3 min`, `1 h 20 min`, `3 days`. */
export function spanWord(ms: number): string {
  if (ms < 1000) return `${Number(ms.toFixed(ms < 10 ? 1 : 0))} ms`;
  if (ms < 60_000) return `${Number((ms / 1000).toFixed(ms < 10_000 ? 1 : 0))} s`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${countWord(Math.round(hours / 24))} days`;
}

/** With commas between the thousands. */
export const countWord = (count: number): string => `${count}`.replace(/\B(?=(\d{3})+$)/g, ',');

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${countWord(count)} ${count === 1 ? one : many}`;

/** With a capital letter. */
export const sentence = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
