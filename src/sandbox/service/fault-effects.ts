/**
 * Carries faults out on real sockets. A fault that only spoils the answer carries the request out first, as the service
 * would: a token is issued and lost. A fault that wrote anything but a complete answer ends the connection, so that the
 * next request starts clean.
 */

import { gzipSync } from 'node:zlib';
import type { LedgerKind, Outcome } from '../state/ledger/ledger-entry.ts';
import type { AnswerFault } from '../state/world/faults.ts';
import { errorBodyFor } from './answers.ts';
import type { FaultedExchange } from './faulted-exchange.ts';
import { type Answer, headersOf, jsonAnswer, send } from './http-io.ts';

/**
 * Delay between a partial body and its reset, on the machine's clock. libuv reports an orderly end when data and reset
 * arrive together.
 */
const RESET_AFTER_MS = 10;

type EffectOf<Kind> = Extract<AnswerFault, { kind: Kind }>;

export function applyFault(on: FaultedExchange): void {
  const { effect, delayMs } = on.decision;
  if (!effect) on.attempt(() => answerLate(on, delayMs));
  else if (delayMs > 0) on.later(delayMs, () => act(on, effect));
  else on.attempt(() => act(on, effect));
}

function act(on: FaultedExchange, effect: AnswerFault): void {
  (EFFECTS[effect.kind] as (on: FaultedExchange, effect: AnswerFault) => void)(on, effect);
}

const EFFECTS: { [Kind in AnswerFault['kind']]: (on: FaultedExchange, effect: EffectOf<Kind>) => void } = {
  status: (on, effect) => {
    const { status } = effect;
    const answer = statusFaultAnswer(on.kind, effect, on.decision.windowEndsInMs);
    const seconds = Number(answer.headers['retry-after']);
    on.spoiled(outcomeOf(on.kind, status), { status, ...(seconds >= 0 && { retryAfterSeconds: seconds }) });
    if (status === 401) on.refuseToken();
    send(on.res, answer, on.nowMs());
  },

  refuse: (on) => {
    on.spoiled('socket_fault');
    on.socket.resetAndDestroy();
  },

  silence: (on) => on.spoiled('socket_fault'),

  stall: (on, { at, ms }) => {
    if (at === 'after_headers') stallAfterHeaders(on, ms);
    else if (ms === undefined) on.spoiled('socket_fault');
    else answerLate(on, ms);
  },

  drip: (on, { bytes = 1, everyMs = 100 }) => {
    const answer = correctAnswer(on);
    const body = Buffer.from(answer.body);
    writeHeaders(on, answer);
    const next = (from: number) => {
      on.res.write(body.subarray(from, from + bytes));
      if (from + bytes >= body.length) on.res.end();
      else on.later(everyMs, () => next(from + bytes));
    };
    on.later(everyMs, () => next(0));
  },

  truncate: (on, { keepBytes }) => writePart(on, keepBytes, () => on.socket.end()),

  reset: (on, { at }) => {
    if (at === 'in_body') {
      writePart(on, undefined, () => setTimeout(() => on.socket.resetAndDestroy(), RESET_AFTER_MS));
    } else {
      on.spoiled('socket_fault');
      on.socket.resetAndDestroy();
    }
  },

  garbage: (on) => {
    on.spoiled('socket_fault');
    on.socket.end(Buffer.from([0x15, 0x03, 0x01, 0, 2, 2, 0x50, 0xff, 0, 0x0d, 0x0a, 0x0d, 0x0a]));
  },

  wrong_gzip: (on, { how = 'plain' }) => {
    const answer = spoiledAnswer(on, 'bad_answer');
    sendBytes(on, answer, { 'content-encoding': 'gzip' }, wronglyZipped(answer.body, how));
  },

  redirect: (on, { status = 307, location = '/auth/v2/token' }) => {
    on.spoiled('bad_answer', { status });
    send(on.res, { status, headers: { location }, body: '' }, on.nowMs());
  },

  oversized_headers: (on, { bytes = 100_000 }) => {
    const answer = spoiledAnswer(on, 'bad_answer');
    const padding = Array.from({ length: Math.ceil(bytes / 1000) }, () => 'x'.repeat(990));
    sendBytes(on, answer, { 'x-padding': padding }, Buffer.from(answer.body));
  },

  oversized_body: (on, { bytes = 10_000_000 }) => {
    const answer = spoiledAnswer(on, 'bad_answer');
    writePadded(on, answer, bytes);
  },

  wrong_owner_token: (on) => {
    const { answer, outcome, facts } = on.respond({ wrongOwner: true });
    on.endsAs(outcome, facts);
    send(on.res, answer, on.nowMs());
  },
};

/** Delays the correct answer. The request is carried out now, so the token's lifetime runs during the delay. */
function answerLate(on: FaultedExchange, ms: number): void {
  const answer = correctAnswer(on);
  on.later(ms, () => send(on.res, answer, on.nowMs()));
}

function stallAfterHeaders(on: FaultedExchange, ms: number | undefined): void {
  const answer = ms === undefined ? spoiledAnswer(on, 'socket_fault') : correctAnswer(on);
  writeHeaders(on, answer);
  if (ms !== undefined) on.later(ms, () => on.res.end(answer.body));
}

/** The correct answer; it arrives unless the client leaves first. */
function correctAnswer(on: FaultedExchange): Answer {
  const { answer, outcome, facts } = on.respond();
  on.endsAs(outcome, facts);
  return answer;
}

/** The correct answer, of which only a spoiled form is sent. */
function spoiledAnswer(on: FaultedExchange, as: Outcome): Answer {
  const { answer, facts } = on.respond();
  on.spoiled(as, facts);
  return answer;
}

function writeHeaders(on: FaultedExchange, answer: Answer, bytes?: number): void {
  on.res.sendDate = false;
  on.res.writeHead(answer.status, headersOf(answer, on.nowMs(), bytes));
  on.res.flushHeaders();
}

function sendBytes(
  on: FaultedExchange,
  answer: Answer,
  headers: Record<string, string | string[]>,
  body: Buffer,
): void {
  on.res.sendDate = false;
  on.res.writeHead(answer.status, { ...headersOf(answer, on.nowMs(), body.length), ...headers });
  on.res.end(body);
}

/** Sends the headers of the complete answer and part of its body, then calls `end`. */
function writePart(on: FaultedExchange, keepBytes: number | undefined, end: () => void): void {
  const answer = spoiledAnswer(on, 'socket_fault');
  const body = Buffer.from(answer.body);
  const keep = Math.min(keepBytes ?? Math.floor(body.length / 2), body.length - 1);
  writeHeaders(on, answer);
  // An empty body write would call back before the headers are flushed.
  if (keep > 0) on.res.write(body.subarray(0, keep), end);
  else on.socket.write('', end);
}

/** Sends the correct JSON followed by this many spaces, a chunk at a time. */
function writePadded(on: FaultedExchange, answer: Answer, bytes: number): void {
  const padding = Buffer.alloc(65_536, ' ');
  const head = Buffer.from(answer.body);
  writeHeaders(on, answer, head.length + bytes);
  on.res.write(head);
  let left = bytes;
  const pump = () => {
    while (left > 0) {
      const chunk = padding.subarray(0, Math.min(left, padding.length));
      left -= chunk.length;
      if (!on.res.write(chunk)) {
        on.res.once('drain', pump);
        return;
      }
    }
    on.res.end();
  };
  pump();
}

function wronglyZipped(body: string, how: 'plain' | 'cut' | 'corrupt'): Buffer {
  if (how === 'plain') return Buffer.from(body);
  const zipped = gzipSync(body);
  if (how === 'cut') return zipped.subarray(0, Math.floor(zipped.length / 2));
  for (let index = 12; index < zipped.length; index += 5) zipped[index] = (zipped[index] ?? 0) ^ 0xff;
  return zipped;
}

/** The answer of a `status` fault, with `Retry-After` where one applies. */
function statusFaultAnswer(kind: LedgerKind, effect: EffectOf<'status'>, windowEndsInMs: number | undefined): Answer {
  const { status, body, headers } = effect;
  const windowSeconds = windowEndsInMs === undefined ? undefined : Math.max(1, Math.ceil(windowEndsInMs / 1000));
  const retryAfter = effect.retryAfter ?? (status === 429 ? windowSeconds : undefined);
  const more = { ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }), ...lowerCased(headers) };
  if (typeof body === 'string') {
    return { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...more }, body };
  }
  if (body !== undefined) return jsonAnswer(status, body, more);
  const due = errorBodyFor(kind, status);
  return { ...due, headers: { ...due.headers, ...more } };
}

const lowerCased = (headers: Record<string, string> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

function outcomeOf(kind: LedgerKind, status: number): Outcome {
  if (status === 429) return 'rate_limited';
  if (status >= 500) return 'server_error';
  if (status < 400) return 'bad_answer';
  return kind === 'echo' && status === 401 ? 'rejected' : 'refused';
}
