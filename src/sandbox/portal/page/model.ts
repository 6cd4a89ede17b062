/** The page's model of the sandbox: its state in the terms of the picture. Pure. */

import {
  type Band,
  type Bar,
  bySecond,
  type Lane,
  MARK_KINDS,
  type PictureData,
  type Seconds,
} from '../../../page-engine/data.ts';
import type { Clocked } from '../../../page-engine/page-clock.ts';
import type { Sent } from '../../../page-engine/state-stream.ts';
import { secondOf } from '../../../page-engine/timeline.ts';
import { sentence } from '../../../page-engine/words.ts';
import type {
  LaneView,
  LedgerEntry,
  PictureView,
  Band as ServerBand,
  StateView,
  TokenView,
} from '../../control/shapes.ts';
import { faultKindWord, ownerWord } from './words.ts';

export interface Model extends PictureData, Clocked, Omit<StateView, 'picture' | 'requests' | 'clock' | 'recent'> {
  /** Of the last minute, also while a window of the past is shown. */
  readonly recent: Seconds;
  /** The last requests, or those of a window of the past, by `id`. */
  readonly requests: readonly LedgerEntry[];
}

/** A state as the stream sends it: without lanes that have not changed. */
export type SentState = Omit<StateView, 'picture'> & { readonly picture: Sent<PictureView> };

/** The model of a state. `seenAtMs`: the page's own clock. `before`: the model of the state before. */
export function modelOf(state: SentState, seenAtMs: number, before?: Model): Model {
  const { picture, requests, clock, recent, ...rest } = state;
  return {
    ...rest,
    ...pictureOf(picture, before?.lanes),
    requests: picture.requests ?? requests,
    recent: bySecond(recent),
    clock: { ...clock, seenAtMs },
  };
}

const pictureOf = (
  { lanes, matching, seconds, bands }: Sent<PictureView>,
  before: readonly Lane[] = [],
): PictureData => ({
  lanes: lanes?.map(laneOf) ?? before,
  matching,
  seconds: bySecond(seconds),
  bands: bands.map(bandOf),
});

const laneOf = ({ id, name, tokens, marks }: LaneView): Lane => {
  return { id, name: name || ownerWord(id), bars: tokens.map(barOf), marks };
};

const barOf = ({ fingerprint, issuedAtMs, expiresAtMs, revokedAtMs = Infinity }: TokenView): Bar => ({
  id: fingerprint,
  fromMs: issuedAtMs,
  toMs: Math.min(expiresAtMs, revokedAtMs),
  cut: revokedAtMs <= expiresAtMs,
});

function bandOf({ id, kind, name = '', fromMs, toMs }: ServerBand): Band {
  const [look, word] = (
    {
      fault: ['fault', faultKindWord(name)],
      scenario: ['strip', sentence(name.replaceAll('-', ' '))],
      frozen: ['line', 'Time frozen'],
      jump: ['jump', 'Clock jump'],
    } as const
  )[kind];
  return { id, look, word, fromMs, ...(toMs !== undefined && { toMs }) };
}

/** The token requests of one lane by second. */
export function secondsOf(lane: Lane): Seconds {
  const seconds = new Map<number, [number, ...number[]]>();
  for (const [, atMs, kind] of lane.marks) {
    const second = secondOf(atMs);
    const counts = seconds.get(second) ?? [second, ...MARK_KINDS.map(() => 0)];
    counts[kind + 1] = (counts[kind + 1] ?? 0) + 1;
    seconds.set(second, counts);
  }
  return seconds;
}
