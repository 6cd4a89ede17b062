/**
 * An adaptive concurrency limit: 32 requests, and more only while more helps. While the room is full, each step raises it by
 * half, as long as that brings more tokens a second; otherwise it returns to the size with the best rate, and tries again
 * later, ever more rarely. A new registry starts slowly, so that it meets a lower limit of the service before it exceeds it
 * by far: a burst of 429s as the first answers would look like an outage. Each event changes the state in place; nothing here
 * reads a clock.
 *
 * The rate follows from Little's law: concurrent requests, divided by their latency. Tokens counted per second are too noisy,
 * because answers come in bursts; latency alone varies between requests even without overload.
 *
 * @see {@link https://en.wikipedia.org/wiki/Little%27s_law Little's law}
 */

import { TRY_AGAIN } from './pauses.ts';

export interface Room {
  /** The option `concurrency`. */
  readonly most: number;
  size: number;
  /** When the first request was sent, and how many tokens have come. */
  firstSentMs: number | undefined;
  issued: number;
  /** The size with the best rate so far; undefined until the first measurement. */
  best: { readonly size: number; readonly perMs: number } | undefined;
  /** The number of the last request that was sent, and of the last one before the size changed. */
  lastSent: number;
  changedAfter: number;
  /** Answers to requests sent since then, while the room was full: counts, tokens, and sums of latency and concurrency. */
  answers: number;
  tokens: number;
  tookMs: number;
  atOnce: number;
  /** When a larger size is tried again, and how long the wait after that is. */
  tryAgainMs: number;
  waitMs: number;
}

/** The size before any measurement. */
const AT_FIRST = 32;
/** How many a new registry runs at once, and after how many milliseconds it adds one. */
const RAMP = { atFirst: 16, msPerRequest: 10 } as const;
const STEP = 1.5;
/** A step helps if it multiplies the rate by at least this. */
const HELPS = 1.05;
/** A step is taken back early if after this many answers it brings less than this share of the best rate. */
const HARMS = { answers: 12, share: 0.75 } as const;

export function initialRoom(most: number): Room {
  return {
    most,
    size: Math.min(AT_FIRST, most),
    firstSentMs: undefined,
    issued: 0,
    best: undefined,
    lastSent: 0,
    changedAfter: 0,
    answers: 0,
    tokens: 0,
    tookMs: 0,
    atOnce: 0,
    tryAgainMs: 0,
    waitMs: TRY_AGAIN.baseMs,
  };
}

/** A request that got an answer. */
export interface Answered {
  readonly number: number;
  readonly tookMs: number;
  /** How many requests ran, this one included: without slow ones, and with them. */
  readonly running: number;
  readonly atOnce: number;
}

/** How many requests may run now: at first 16, one more with each token and each 10 ms. */
export function roomAt({ size, firstSentMs, issued }: Room, nowMs: number): number {
  const sinceMs = firstSentMs === undefined ? 0 : nowMs - firstSentMs;
  return Math.min(size, RAMP.atFirst + issued + Math.floor(sinceMs / RAMP.msPerRequest));
}

/** When a queued request may start merely because time has passed; infinite if that takes an answer. */
export function growsAtMs(room: Room, nowMs: number): number {
  return roomAt(room, nowMs) < room.size ? nowMs + RAMP.msPerRequest : Number.POSITIVE_INFINITY;
}

export function roomAnswered(
  room: Room,
  { number, tookMs, running, atOnce }: Answered,
  isToken: boolean,
  nowMs: number,
): void {
  const { size, best, most } = room;
  room.issued += Number(isToken);
  if (size === best?.size && (size === most || nowMs < room.tryAgainMs)) return;
  if (running < size || number <= room.changedAfter) return;
  room.answers++;
  room.tokens += Number(isToken);
  room.tookMs += tookMs;
  room.atOnce += atOnce;
  const perMs = (room.atOnce * room.tokens) / (room.answers * room.tookMs);
  const isStep = best !== undefined && size > best.size;
  if (isStep && room.answers >= HARMS.answers && perMs < HARMS.share * best.perMs) stepBack(room, best.size, nowMs);
  else if (room.answers < size) return;
  else if (isStep && perMs < HELPS * best.perMs) stepBack(room, best.size, nowMs);
  else {
    room.best = { size, perMs };
    resize(room, Math.min(most, Math.ceil(size * STEP)));
  }
}

function stepBack(room: Room, size: number, nowMs: number): void {
  room.tryAgainMs = nowMs + room.waitMs;
  room.waitMs = Math.min(2 * room.waitMs, TRY_AGAIN.capMs);
  resize(room, size);
}

function resize(room: Room, size: number): void {
  room.size = size;
  room.changedAfter = room.lastSent;
  room.answers = 0;
  room.tokens = 0;
  room.tookMs = 0;
  room.atOnce = 0;
}
