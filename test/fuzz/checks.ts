/** What several targets hold of every outcome. */

import { inspect } from 'node:util';
import { ERROR_CODES, OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import type { AccessToken } from '../../src/token.ts';
import { leaksIn } from '../helpers/canaries.ts';
import { type ManualClock, settle } from '../helpers/manual-clock.ts';
import { must } from './target.ts';

export const SCOPES: readonly unknown[] = ['owner', 'client', 'endpoint'];
const TEN_YEARS_MS = 10 * 365 * 86_400_000;

/** Nothing that is printed of these values holds a secret. */
export function mustNotLeak(what: string, ...values: unknown[]): void {
  for (const value of values) {
    const all = { depth: Number.POSITIVE_INFINITY, showHidden: true, getters: true };
    const leaks = leaksIn(
      `${inspect(value, all)} ${inspect(value, { ...all, customInspect: false })} ${JSON.stringify(value)}`,
    );
    must(leaks.length === 0, `${what} prints ${leaks.join(', ')}`);
  }
}

/** An error of ours, whose message ends no line early and whose time lies ahead. */
export function mustBeTyped(error: unknown, nowMs: number): asserts error is OwnerTokenError {
  must(error instanceof OwnerTokenError, `it failed with ${String(error)}`);
  must(ERROR_CODES.includes(error.code), `the code ${error.code} is unknown`);
  must(error.failureScope === undefined || SCOPES.includes(error.failureScope), `scope ${error.failureScope}`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not occur.
  must(!/[\u0000-\u001f\u007f]/.test(error.message) && error.message.length < 1_000, 'the message is garbled');
  must(error.retryAtMs === undefined || error.retryAtMs >= nowMs, `retryAtMs is ${error.retryAtMs}, now is ${nowMs}`);
}

/** A token that can be sent, and that ends. */
export function mustBeUsable(token: AccessToken, nowMs: number): void {
  must(/^[\x21-\x7e]+$/.test(token.value), 'the token cannot be sent');
  must(new Headers({ authorization: token.authorization }).has('authorization'), 'the header cannot be sent');
  const { expiresAtMs, refreshAtMs } = token;
  must(expiresAtMs > nowMs && expiresAtMs <= nowMs + TEN_YEARS_MS, `it expires at ${expiresAtMs}, now is ${nowMs}`);
  must(refreshAtMs <= expiresAtMs, `it is refreshed at ${refreshAtMs}, after its end`);
}

/** The outcome of a call after at most so many steps of the clock. */
export async function outcomeOf<T>(
  call: Promise<T>,
  clock: ManualClock,
  { steps = 700, stepMs = 100, turns = 1 }: { steps?: number; stepMs?: number; turns?: number } = {},
): Promise<PromiseSettledResult<T>> {
  let outcome: PromiseSettledResult<T> | undefined;
  void Promise.allSettled([call]).then(([settled]) => {
    outcome = settled;
  });
  for (let step = 0; step < steps; step++) {
    for (let turn = 0; turn < turns && !outcome; turn++) await settle();
    if (outcome) return outcome;
    clock.advance(stepMs);
  }
  throw new Error(`the call did not settle in ${steps} steps of ${stepMs} ms`);
}
