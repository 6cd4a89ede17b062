/** A status in words: what an operator has to know first. */

import { countWord, plural, sentence, spanWord } from '../page-engine/words.ts';
import type { RegistryStats } from '../registry/stats.ts';
import type { Cause, Facts } from './status.ts';

type Lapsed = NonNullable<RegistryStats['withoutService']['lapsed']>;

/** A moment in words. */
export type TimeWord = (atMs: number) => string;

/** Causes that a sentence names. */
const MOST_NAMED = 3;

/** A failure this soon after the start of the process is probably older: the process before knew of it. */
const SOON_MS = 60_000;

export const sinceWord = (sinceMs: number, { startedAtMs }: Pick<Facts, 'startedAtMs'>, time: TimeWord): string =>
  `since ${Math.abs(sinceMs - startedAtMs) < SOON_MS ? 'this process started, or longer' : time(sinceMs)}`;

export function sentenceOf(status: Facts, time: TimeWord): string {
  const { known, causes } = status;
  if (known === 0 && causes.length === 0) return 'No owner has asked for a token yet.';
  const circuit = causes.find(({ scope }) => scope === 'client' || scope === 'endpoint');
  const rejected = causes.find(({ code }) => code === 'token_rejected');
  const sentences = circuit ? outageSentences(status, circuit, time) : ownersSentences(status, time);
  if (rejected) {
    const owners = plural(rejected.owners, 'owner');
    sentences.push(`The API has rejected the tokens of ${owners} ${sinceWord(rejected.sinceMs, status, time)}.`);
  }
  if (status.slowService) sentences.push(`${slowWord(status.slowService, status, time)}.`);
  return sentences.join(' ');
}

export function slowWord(slow: NonNullable<Facts['slowService']>, status: Facts, time: TimeWord): string {
  const { times, latencyMs, sinceMs } = slow;
  const much = times === undefined ? spanWord(latencyMs) : `${countWord(Math.round(times))} times as long as before`;
  return `Tokens take ${much} ${sinceWord(sinceMs, status, time)}`;
}

function outageSentences(status: Facts, circuit: Cause, time: TimeWord): string[] {
  const { known, unserved } = status;
  const what = circuit.scope === 'client' ? 'The token service has refused this client' : 'The endpoint has failed';
  const others = causeWords(
    status.causes.filter((cause) => cause !== circuit && cause.unserved > 0),
    status,
    time,
  );
  const owners =
    unserved > 0
      ? `${countWord(unserved)} of ${plural(known, 'owner')} cannot be served${others && ` (also ${others})`}.`
      : servedWords(known, ' from cached tokens', 'known owners');
  return [
    `${what} ${sinceWord(circuit.sinceMs, status, time)} (${circuit.status ?? causePhrase(circuit)}).`,
    owners,
    `${sentence(nextWord(circuit, status, time))}.`,
    ...runwayWords(status, time),
  ];
}

/** When a request may start: one starts with a call, not by itself. */
export function nextWord({ probing, retryAtMs }: Cause, { atMs }: Pick<Facts, 'atMs'>, time: TimeWord): string {
  if (probing) return 'an attempt is in flight';
  return retryAtMs <= atMs ? 'the next call makes an attempt' : `next attempt at ${time(retryAtMs)}`;
}

function ownersSentences(status: Facts, time: TimeWord): string[] {
  const { known, unserved, causes } = status;
  const late = lateWords(status);
  const failing = causes.filter((cause) => cause.unserved > 0);
  if (unserved === 0) {
    const others = causes.filter(({ code }) => code !== 'token_rejected');
    const count = others.reduce((sum, { owners }) => sum + owners, 0);
    const unrenewed =
      count > 0
        ? [
            `${countWord(count)} of them cannot renew ${count === 1 ? 'its token' : 'their tokens'} (${causeWords(others, status, time)}).`,
          ]
        : [];
    return [servedWords(known, late), ...unrenewed, ...runwayWords(status, time)];
  }
  const why = causeWords(failing, status, time);
  if (unserved === known) {
    return [
      known === 1
        ? `The only owner cannot be served: ${why}.`
        : `None of the ${plural(known, 'owner')} can be served: ${why}.`,
    ];
  }
  const others = known - unserved === 1 ? 'the other one is served' : 'the others are served';
  return [`${plural(unserved, 'owner')} cannot be served: ${why}; ${others}${late}.`, ...runwayWords(status, time)];
}

/** `who`: in an outage also calls of new owners fail, which are not among those that are known. */
const servedWords = (known: number, how: string, who = 'owners') =>
  known === 1 ? `The only ${who.slice(0, -1)} is served${how}.` : `All ${countWord(known)} ${who} are served${how}.`;

function causeWords(causes: readonly Cause[], status: Facts, time: TimeWord): string {
  const words = causes
    .slice(0, MOST_NAMED)
    .map(
      (cause) =>
        `${causes.length > 1 ? `${countWord(cause.owners)} × ` : ''}${causePhrase(cause)} ${sinceWord(cause.sinceMs, status, time)}`,
    );
  if (causes.length > MOST_NAMED) words.push(`${plural(causes.length - MOST_NAMED, 'other cause')}`);
  return words.join(', ');
}

const REASONS: Readonly<Partial<Record<Cause['code'], string>>> = {
  owner_refused: 'refused',
  client_refused: 'client refused',
  rate_limited: 'limited',
  endpoint_unavailable: 'no answer',
  invalid_response: 'unusable answers',
  redirect_refused: 'redirected',
  source_failed: 'the token source throws',
  queue_full: 'the queue is full',
  queue_timeout: 'timed out in the queue',
};

export const reasonWord = (code: Cause['code']): string => REASONS[code] ?? code;

/** A status says more than the code of a failure of the service. */
export function causePhrase({ code, status }: Pick<Cause, 'code' | 'status'>): string {
  const reason = reasonWord(code);
  if (status === undefined) return reason;
  return code === 'endpoint_unavailable' || code === 'rate_limited' ? `${status}` : `${reason} (${status})`;
}

/** Owners that are in no count, because nobody has called them for hours. */
export function lapsedWord({ owners, firstFailedAtMs, lastFailedAtMs }: Lapsed, nowMs: number): string {
  const [least, most] = [lastFailedAtMs, firstFailedAtMs].map((atMs) => Math.floor((nowMs - atMs) / 3_600_000));
  return `${countWord(owners)} more failed when last called, ${least === most ? '' : `${least} to `}${most} h ago.`;
}

/** How late queued calls are served, and why. */
function lateWords({ longestQueuedMs, pace }: Facts): string {
  if (longestQueuedMs < 1000) return '';
  const delay = `, with delays of up to ${countWord(Math.ceil(longestQueuedMs / 1000))} s`;
  return `${delay}: token requests are ${pace ? paceWord(pace) : 'queued'}`;
}

export const paceWord = ({ perSecond, reason }: NonNullable<Facts['pace']>): string =>
  `limited to ${countWord(Math.round(perSecond * 10) / 10)} per second${reason === 'quota' ? ' (requestsPerSecond)' : ''}`;

function runwayWords({ runway, unserved }: Facts, time: TimeWord): string[] {
  if (!runway) return [];
  const which = unserved > 0 ? 'next' : 'first';
  const half = runway.halfAtMs === undefined ? '' : `, half of all by ${time(runway.halfAtMs)}`;
  return [`If this continues, the ${which} owner loses service at ${time(runway.firstAtMs)}${half}.`];
}

/** `11:14:20 UTC`, with the day if that is another one. */
export const utcWord = (nowMs: number): TimeWord => {
  const today = isoOf(nowMs).slice(0, 10);
  return (atMs) => {
    const iso = isoOf(atMs);
    const clock = `${iso.slice(11, 19)} UTC`;
    return iso.startsWith(today) ? clock : `${iso.slice(0, 10)} ${clock}`;
  };
};

/** The clock of a host may exceed the range of `Date`. */
const MOST_MS = 8.64e15;
const isoOf = (ms: number): string => new Date(Math.max(-MOST_MS, Math.min(MOST_MS, ms || 0))).toISOString();
