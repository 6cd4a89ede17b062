/** What the figures of the Live screen say. Pure. */

import { countsBetween, hasFailed, MARK_KINDS, type Seconds } from '../../../page-engine/data.ts';
import { countWord, plural, spanWord } from '../../../page-engine/words.ts';
import type { FiguresView } from '../../control/shapes.ts';

export type Tone = 'warning' | 'alarm' | undefined;

export interface Figure {
  readonly value: string;
  readonly tone: Tone;
  /** What it counts, and over which period. */
  readonly hint: string;
}

export interface HeadlineFacts {
  readonly figures: FiguresView;
  readonly seconds: Seconds;
  /** Whether a fault rule is in force. */
  readonly faulty: boolean;
  readonly frozen: boolean;
  readonly windowMs: number;
  readonly nowMs: number;
}

const RATE_MS = 10_000;

/** Long enough for the counts of a second to have arrived. */
const LAG_MS = 1000;

/** Requests by kind over a period. */
function outcomesOf(seconds: Seconds, fromMs: number, toMs: number) {
  const counts = countsBetween(seconds, fromMs, toMs);
  let [good, bad, all] = [0, 0, 0];
  for (const [index, kind] of MARK_KINDS.entries()) {
    const count = counts[index] ?? 0;
    all += count;
    if (hasFailed(kind)) bad += count;
    else if (kind !== 'pending') good += count;
  }
  return { good, bad, all };
}

/** Rate, success, owners covered and waste. In an outage none of them looks calm. */
export function headlineOf(facts: HeadlineFacts): Record<'rate' | 'success' | 'covered' | 'wasted', Figure> {
  const { figures, seconds, faulty, frozen, windowMs, nowMs } = facts;
  // Whole seconds only, so that a steady rate is shown as one.
  const toMs = Math.floor((nowMs - LAG_MS) / 1000) * 1000;
  const rate = outcomesOf(seconds, toMs - RATE_MS, toMs).all / (RATE_MS / 1000);
  const { good, bad } = outcomesOf(seconds, nowMs - windowMs, nowMs + 1);
  const missing = Math.max(0, figures.ownersAsked - figures.ownersCovered);
  const outage = missing > 0 && (faulty || bad > 0);
  const alarm = outage && 2 * missing >= figures.ownersAsked;
  const quietMs = nowMs - lastRequestMs(seconds);
  const silent = alarm && quietMs > RATE_MS;
  const share = good + bad > 0 && !silent ? good / (good + bad) : undefined;
  const since = Number.isFinite(quietMs) ? `no request for ${spanWord(Math.floor(quietMs / 1000) * 1000)}` : '';
  return {
    rate: {
      value: frozen ? '–' : rate.toFixed(1),
      tone: silent ? 'alarm' : undefined,
      hint: `${frozen ? 'time is frozen' : 'last 10 s'}; ${countWord(figures.tokenRequests)} since the start, ${figures.inFlight} in flight`,
    },
    success: {
      value: share === undefined ? '–' : percent(share),
      tone: silent ? 'alarm' : share === undefined || share >= 0.99 ? undefined : share >= 0.9 ? 'warning' : 'alarm',
      hint: silent ? since : `${plural(bad, 'failure')}, last ${spanWord(windowMs)}`,
    },
    covered: {
      value: countWord(figures.ownersCovered),
      tone: alarm ? 'alarm' : outage ? 'warning' : undefined,
      hint: `of ${countWord(figures.owners)} have a usable token now${outage ? `; ${countWord(missing)} asked and have none` : ''}`,
    },
    wasted: {
      value: countWord(figures.wasted),
      tone: figures.wasted > 0 ? 'warning' : undefined,
      hint: 'since the start, for owners with a good token',
    },
  };
}

/** The second of the last request. */
function lastRequestMs(seconds: Seconds): number {
  let last = Number.NEGATIVE_INFINITY;
  for (const [second, ...counts] of seconds.values()) {
    if (second > last && counts.some((count) => count > 0)) last = second;
  }
  return last * 1000;
}

/** Rounds down to 99.9 % unless every request succeeded. */
const percent = (share: number): string => `${share === 1 ? 100 : Math.min(99.9, share * 100).toFixed(1)}%`;
