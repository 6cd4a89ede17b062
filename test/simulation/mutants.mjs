/**
 * Sees that the simulation can fail: breaks the core in one way after another, and runs worlds until one notices.
 *
 *   node test/simulation/mutants.mjs [part of a name]
 */

import { bundled } from './bundle.mjs';

/** What is broken, in which file, and how. One that does not apply any more is to be written anew. */
const MUTANTS = [
  [
    'late answers are kept',
    'registry/slot',
    '  if (generation !== slot.generation) return false;\n  // The token before',
    '  // The token before',
  ],
  ['expiry by the monotonic clock is ignored', 'registry/slot', ' && now.monotonicMs < held.expiresAtMonotonicMs', ''],
  ['expiry by the wall clock is ignored', 'registry/slot', 'now.wallMs < held.token.expiresAtMs && ', ''],
  [
    'a trial in flight is not seen',
    'failures/circuit-breaker',
    "  if (state.kind !== 'half-open') return true;\n",
    '  return true;\n',
  ],
  [
    'a pause does not hold back',
    'failures/circuit-breaker',
    'nowMs < pause.retryAtMonotonicMs || !mayBeTrial(',
    '!mayBeTrial(',
  ],
  ['no slow start after a pause', 'failures/slow-start', 'this.#limit = 1;', 'this.#limit = this.#concurrency;'],
  [
    'two owners are enough to stop all',
    'failures/circuit-breaker',
    'const SUSPECTS_TO_ESCALATE = 3;',
    'const SUSPECTS_TO_ESCALATE = 2;',
  ],
  ['Retry-After is not heeded', 'failures/backoff', 'retryAfterMsOf(error, range.capMs) ?? ', ''],
  [
    "a failing owner's turn is not given back",
    'registry/request-queue',
    '      this.#count(turn, -1);\n      this.dispatch();',
    '      if (!turn.failing) this.#count(turn, -1);\n      this.dispatch();',
  ],
  [
    'failing owners have more than their share',
    'registry/request-queue',
    'this.#failingUnderWay < this.#failingShare && ',
    '',
  ],
  ['the queue has no bound', 'registry/request-queue', 'const hasPlace = ', 'const hasPlace = true || '],
  [
    'the queue has no time limit',
    'registry/request-queue',
    'this.#options.startTimer(() => this.#expireOverdue(), this.#untilOverdueMs())',
    '(() => void this.#untilOverdueMs())',
  ],
  ['the timer of the queue is not stopped', 'registry/request-queue', '    this.#cancelTimer?.();\n', ''],
  [
    'one too many is under way',
    'registry/request-queue',
    'if (this.#underWay >= concurrency) return false;',
    'if (this.#underWay > concurrency) return false;',
  ],
  [
    'rejected tokens are not remembered',
    'registry/slot',
    'slot.rejected = [fingerprint, ...slot.rejected]',
    'slot.rejected = []',
  ],
  [
    'a rejection leaves the token',
    'registry/slot',
    '  slot.lastRejected = held.token;\n  hold(slot, undefined);',
    '  slot.lastRejected = held.token;',
  ],
  [
    'a rejection begins no new generation',
    'registry/slot',
    '  hold(slot, undefined);\n  slot.generation++;\n}',
    '  hold(slot, undefined);\n}',
  ],
  [
    'a failure drops the token',
    'registry/slot',
    '  slot.failure = failure;\n',
    '  slot.failure = failure;\n  hold(slot, undefined);\n',
  ],
  [
    'callers do not join',
    'registry/flights',
    'return found !== undefined && ',
    'return false && found !== undefined && ',
  ],
  ['an abort leaves its caller waiting', 'registry/flight', '        reject(signal.reason);\n', ''],
  [
    'an abort fails all who wait',
    'registry/flight',
    '        reject(signal.reason);\n',
    '        this.reject(signal.reason);\n',
  ],
  [
    'close leaves callers waiting',
    'registry/flights',
    'each.flight.reject(closedError(each.slot.owner, this.#parts.now()));',
    'void each;',
  ],
  [
    'a lifetime counts from the answer',
    'registry/held-token',
    'Math.min(sent.wallMs, now.wallMs - elapsedMs)',
    'now.wallMs',
  ],
  [
    'a date from before the clock was set back stands',
    'registry/held-token',
    'setBackMs > MOST_SAMPLING_ERROR_MS',
    'setBackMs > 1e15',
  ],
  [
    'keys are trimmed',
    'registry/registry',
    '    const slot = this.#slots.get(accessKey);\n',
    '    accessKey = accessKey.trim();\n    const slot = this.#slots.get(accessKey);\n',
  ],
  [
    'access keys are logged',
    'registry/flights',
    'flight.message = { owner: slot.owner, reason };',
    'flight.message = { owner: accessKey, reason };',
  ],
  [
    'messages of sources are kept as they are',
    'failures/refusals',
    "thrown.message.replaceAll(accessKey, '[access key]')",
    'thrown.message',
  ],
  [
    'refreshes begin within pauses',
    'registry/slot',
    'around.underWay || around.paused || pauseOf(slot, now) ?',
    'around.underWay ?',
  ],
  [
    "an owner's pause does not hold back",
    'registry/slot',
    'if (around.paused || pauseOf(slot, now)) return',
    'if (around.paused) return',
  ],
  [
    'what is queued as a pause begins is lost',
    'registry/flights',
    'this.#turns.remove((turn) => this.#refused(turn as OwnerFlight, now));',
    'this.#turns.remove(() => true);',
  ],
  [
    'a logger that throws is heard',
    'diagnostics',
    '    } catch {\n      // There is nowhere left to say so.',
    '    } catch (error) {\n      throw error;',
  ],
];

const MOST_STEPS = 2_000_000;
let missed = 0;
for (const [name, file, from, to] of MUTANTS) {
  if (process.argv[2] && !name.includes(process.argv[2])) continue;
  try {
    const { runWorlds } = await bundled('test/simulation/worlds.ts', [{ file: `src/${file}.ts`, from, to }]);
    const { broken, steps } = await runWorlds(5, (soFar) => soFar.steps < MOST_STEPS);
    if (!broken) missed++;
    const what = broken ? broken.what.replace(/^step \d+: (registry \d+: )?/, '').split('\n')[0] : 'NOT NOTICED';
    console.log(`| ${name} | ${what} | ${steps} |`);
  } catch (error) {
    missed++;
    console.log(`| ${name} | ${error.message.split('\n')[0]} | |`);
  }
}
process.exit(missed > 0 ? 1 : 0);
