/** What the page knows: the last frame, in the terms of the picture. Pure. */

import { type Bar, bySecond, type Lane, type PictureData } from '../../page-engine/data.ts';
import type { Clocked } from '../../page-engine/page-clock.ts';
import type { Frame, RequestView, SentFrame } from '../frames.ts';

export interface Model extends PictureData, Clocked, Omit<Frame, 'clock' | 'picture'> {
  /** Epoch ms: no request since then is missing. */
  readonly completeSinceMs: number;
  /** The request that is described. */
  readonly request: RequestView | undefined;
  /** What happened to the connection, in words. */
  readonly news: string;
}

/** The model of a frame. `seenAtMs`: the page's own clock. */
export function modelOf(sent: SentFrame, seenAtMs: number, before: Model | undefined): Model {
  const { clock, picture, ...frame } = sent;
  const { lanes, seconds, matching, bands, completeSinceMs, request } = picture;
  return {
    ...frame,
    clock: { nowMs: clock.nowMs, frozen: false, seenAtMs },
    lanes: lanes ? lanesOf(lanes) : (before?.lanes ?? []),
    seconds: bySecond(seconds),
    matching,
    bands,
    completeSinceMs,
    request,
    news: newsOf(sent, seenAtMs, before),
  };
}

/** The end of a token that has none is null in JSON. */
export const lanesOf = (lanes: readonly Lane[]): Lane[] =>
  lanes.map((lane) => ({
    ...lane,
    bars: lane.bars.map((bar): Bar => ({ ...bar, toMs: bar.toMs ?? Number.POSITIVE_INFINITY })),
  }));

function newsOf({ replica, clock }: SentFrame, seenAtMs: number, before: Model | undefined): string {
  if (!before || before.replica.id === replica.id) return before?.news ?? '';
  const { host, pid } = replica;
  // One that ran already while the page still heard of the other is another replica.
  const isRestart = host === before.replica.host && clock.upMs < seenAtMs - before.clock.seenAtMs;
  return isRestart ? 'The process has restarted.' : `Another replica answers now: ${host}, process ${pid}.`;
}
