/**
 * Proves that the simulation can fail: breaks the core in one way after another, and runs worlds until one notices.
 *
 *   node test/simulation/mutants.mjs [part of a name]
 */

import { bundled } from './bundle.mjs';

// What is left of a world that was found broken may still reject.
process.on('unhandledRejection', () => {});

/** What is broken, in which file, and how. Rewrite an entry that no longer applies. */
const MUTANTS = [
  [
    'late answers are stored',
    'registry/flights',
    '    if (this.#owners.isCurrent(flight)) {\n      succeeded(',
    '    {\n      succeeded(',
  ],
  [
    'expiry by the monotonic clock is ignored',
    'clock',
    'if (Number.isNaN(this.#monotonicOffsetMs)) this.#monotonicOffsetMs',
    'this.#monotonicOffsetMs',
  ],
  [
    'expiry by the wall clock is ignored',
    'clock',
    'const gapMs = wallMs + this.#wallOffsetMs - (monotonicMs + this.#monotonicOffsetMs);',
    'const gapMs = 0; this.#wallOffsetMs = monotonicMs + this.#monotonicOffsetMs - wallMs;',
  ],
  [
    'a token is served a second longer',
    'registry/slot',
    'second < slot.freshUntilSecond',
    'second <= slot.freshUntilSecond',
  ],
  [
    'a trial in flight is not seen',
    'failures/circuit-breaker',
    "if (state.kind === 'open') return undefined;",
    'return undefined;',
  ],
  [
    'a pause does not hold back',
    'failures/circuit-breaker',
    'if (nowMs < pause.retryAtMonotonicMs) return pause;\n',
    '',
  ],
  [
    "newcomers' failures count against all",
    'failures/failure-scopes',
    "standing !== 'proven' && (standing !== 'new' || this.#newestSuccess > 0)",
    "standing === 'unproven' || standing === 'failing'",
  ],
  ['callers are told to come again at once', 'failures/refusals', 'const MIN_WAIT_MS = 100;', 'const MIN_WAIT_MS = 0;'],
  ['the limit does not start at one after a pause', 'failures/concurrency-limit', '    this.#limit = 1;\n', ''],
  [
    'two owners are enough to stop all',
    'failures/circuit-breaker',
    'const SUSPECTS_TO_ESCALATE = 3;',
    'const SUSPECTS_TO_ESCALATE = 2;',
  ],
  ['Retry-After is not heeded', 'failures/backoff', 'retryAfterMsOf(error, range.capMs) ?? ', ''],
  [
    "a failing owner's permit is not released",
    'registry/dispatch',
    '    if (!this.#queue.release(flight)) return;\n',
    "    if (flight.standing === 'failing' || !this.#queue.release(flight)) return;\n",
  ],
  [
    'failing owners have more than their share',
    'registry/request-queue',
    'return !isFailing(standing) || ',
    'return true || ',
  ],
  ['the queue has no bound', 'registry/request-queue', 'return this.queued < this.#maxQueued ||', 'return true ||'],
  ['the queue has no time limit', 'registry/dispatch', 'this.#time.startTimer(() => this.#wake(), waitMs)', '() => {}'],
  [
    'the timer of the queue is not stopped',
    'registry/dispatch',
    '      this.#cancelTimer?.();\n      this.#cancelTimer = undefined;\n      return;',
    '      this.#cancelTimer = undefined;\n      return;',
  ],
  [
    'one request too many is in flight',
    'registry/request-queue',
    'if (this.#startedAtMs.size >= inFlight ||',
    'if (this.#startedAtMs.size > inFlight ||',
  ],
  ['every request is slow at once', 'registry/request-queue', 'nowMs - startedAtMs < slowAfterMs ||', 'false ||'],
  ['the pool of slow requests has no bound', 'registry/request-queue', ' || this.#slow.size >= this.#maxSlow', ''],
  [
    'a failed request is sent again without end',
    'failures/failure-scopes',
    'return resends < MAX_RESENDS && ',
    'return ',
  ],
  [
    'retries need no budget',
    'failures/flow',
    '    if (this.#successesSaved < SUCCESSES_PER_RETRY) return false;\n',
    '',
  ],
  [
    'a quota is not kept',
    'failures/pace',
    '    if (this.#perSecond === Number.POSITIVE_INFINITY) return;\n',
    '    return;\n',
  ],
  [
    'what is to be sent again is lost',
    'registry/dispatch',
    '      this.#queue.putBack(flight, flight.waiting > 0);\n',
    '',
  ],
  ['rejected tokens are not remembered', 'registry/slot', '[fingerprint, ...trouble.denylist]', '[]'],
  [
    'a thrown value that cannot be read is thrown on',
    'registry/source-call',
    "  } catch {\n    const message = 'the token source threw a value",
    "  } catch (error) {\n    if (error) throw error;\n    const message = 'the token source threw a value",
  ],
  [
    'a rejection leaves the token',
    'registry/slot',
    'const trouble = drop(slot);\n  trouble.lastRejected',
    'const trouble = troubleOf(slot);\n  trouble.lastRejected',
  ],
  [
    'a rejection does not detach what was sent',
    'registry/flights',
    "if (flight?.state.phase === 'sent') this.detach(flight);",
    'void flight;',
  ],
  ['a failure drops the token', 'registry/slot', 'troubleOf(slot).failure = failure;', 'drop(slot).failure = failure;'],
  [
    'callers do not join',
    'registry/registry',
    'requesting: flight !== undefined',
    'requesting: false && flight !== undefined',
  ],
  ['an abort leaves its caller waiting', 'registry/waiters', '      waiter.reject(signal.reason);\n', ''],
  [
    'an abort fails all who wait',
    'registry/waiters',
    '      waiter.reject(signal.reason);\n',
    '      flight.reject(signal.reason);\n      waiter.reject(signal.reason);\n',
  ],
  [
    'close leaves callers waiting',
    'registry/flights',
    '      this.#reject(flight, closedError(flight.slot.owner, this.#time.now()));\n',
    '',
  ],
  [
    'a lifetime counts from the answer',
    'registry/held-token',
    'requestedAtMs: now.wallMs - tookMs',
    'requestedAtMs: now.wallMs',
  ],
  [
    'a date from before the clock was set back stands',
    'registry/held-token',
    'setBackMs > MAX_READING_ERROR_MS',
    'setBackMs > 1e15',
  ],
  [
    'keys are trimmed',
    'registry/registry',
    '    const slot = this.#owners.use(accessKey);\n',
    '    accessKey = accessKey.trim();\n    const slot = this.#owners.use(accessKey);\n',
  ],
  [
    'access keys are logged',
    'registry/flights',
    'newRequest(flight.slot, reason',
    'newRequest({ owner: flight.accessKey }, reason',
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
    'around.requesting || around.circuitPause || backoffOf(slot, now) ?',
    'around.requesting ?',
  ],
  [
    "an owner's pause does not hold back",
    'registry/slot',
    'if (around.circuitPause || backoffOf(slot, now)) return',
    'if (around.circuitPause) return',
  ],
  [
    'what is queued as a circuit opens is lost',
    'registry/flights',
    '    this.#end(flight, error);\n    this.#reject(flight, error);',
    '    this.#end(flight, error);',
  ],
  [
    'a logger that throws is heard',
    'logger',
    '    } catch {\n      // A logger must not fail',
    '    } catch (error) {\n      throw error;\n      // A logger must not fail',
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
