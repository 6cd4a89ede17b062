/** `Retry-After`, as its reader and as a registry that obeys it. */

import fc from 'fast-check';
import { retryAfterMsOf } from '../../../src/http-failure.ts';
import { OwnerTokenError, OwnerTokenRegistry } from '../../../src/index.ts';
import { ManualClock } from '../../helpers/manual-clock.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';
import { mustBeTyped, outcomeOf } from '../checks.ts';
import { mutated, texts } from '../inputs.ts';
import { must, targetOf } from '../target.ts';

/** An owner waits at most so long, whatever `Retry-After` says. */
const MOST_MS = 3_600_000;

const dates = fc
  .date({ min: new Date(0), max: new Date(253_402_300_799_000), noInvalidDate: true })
  .map((date) => date.toUTCString());

/** The two older forms that recipients must accept. */
const oldForms = dates.map((text) => {
  const [day = '', date = '', month = '', year = '', time = ''] = text.split(/,? /);
  return Number(date) % 2
    ? `${day} ${month} ${date.replace(/^0/, ' ')} ${time} ${year}`
    : `${day}day, ${date}-${month}-${year.slice(2)} ${time} GMT`;
});

export const retryAfters = targetOf(
  'Retry-After',
  fc.oneof(
    dates,
    oldForms,
    mutated(dates),
    fc.nat().map(String),
    fc.bigInt({ min: 0n, max: 10n ** 40n }).map(String),
    texts,
  ),
  async (text) => {
    const clock = new ManualClock();
    const ms = retryAfterMsOf({ retryAfter: text }, clock.now());
    must(ms === undefined || (ms > 0 && ms <= Number.MAX_SAFE_INTEGER), `${ms} ms`);
    const seconds = /^\s*(\d+)\s*$/.exec(text)?.[1];
    // A number close to the present is a date in Unix time.
    const isUnixTime = Math.abs(Number(seconds) - clock.now() / 1_000) < 100_000;
    if (seconds !== undefined && !isUnixTime) {
      const wantedMs = Math.min(Number(seconds) * 1_000, Number.MAX_SAFE_INTEGER);
      must((ms ?? 0) === wantedMs, `${seconds} seconds are ${ms} ms`);
    }
    const date = new Date(text);
    if (!Number.isNaN(date.getTime()) && date.toUTCString() === text) {
      must((ms ?? 0) === Math.max(0, date.getTime() - clock.now()), `${text} is ${ms} ms ahead`);
    }
    const retryAfterMs = ms === undefined ? {} : { retryAfterMs: ms };
    const source = new ScriptedSource((call) => call.fail(new OwnerTokenError('rate_limited', 'wait', retryAfterMs)));
    const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5 });
    const outcome = await outcomeOf(registry.getToken('key'), clock);
    must(outcome.status === 'rejected', 'the call succeeded');
    mustBeTyped(outcome.reason, clock.now());
    const waitMs = (registry.describe('key').retryAtMs ?? clock.now()) - clock.now();
    must(waitMs > 0 && waitMs <= MOST_MS, `the owner pauses for ${waitMs} ms`);
  },
);
