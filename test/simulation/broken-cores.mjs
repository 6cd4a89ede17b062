/**
 * The ways in which the simulation breaks the core: by file of `src`, what is then wrong, which source text is replaced,
 * and by what.
 */
export const BROKEN_CORES = {
  clock: [
    [
      'expiry by the monotonic clock is ignored',
      'if (Number.isNaN(this.#monotonicOffsetMs)) this.#monotonicOffsetMs',
      'this.#monotonicOffsetMs',
    ],
    [
      'expiry by the wall clock is ignored',
      'const gapMs = wallMs + this.#wallOffsetMs - (monotonicMs + this.#monotonicOffsetMs);',
      'const gapMs = 0; this.#wallOffsetMs = monotonicMs + this.#monotonicOffsetMs - wallMs;',
    ],
  ],
  'failures/backoff': [['Retry-After is not heeded', 'retryAfterMsOf(error, range.capMs) ?? ', '']],
  'failures/circuit-breaker': [
    ['a trial in flight is not seen', "if (state.kind === 'open') return undefined;", 'return undefined;'],
    ['a pause does not hold back', 'if (nowMs < pause.retryAtMonotonicMs) return pause;\n', ''],
    ['two owners are enough to stop all', 'const SUSPECTS_TO_ESCALATE = 3;', 'const SUSPECTS_TO_ESCALATE = 2;'],
  ],
  'failures/concurrency-limit': [['the limit does not start at one after a pause', '    this.#limit = 1;\n', '']],
  'failures/failure-scopes': [
    [
      "newcomers' failures count against all",
      "standing !== 'proven' && (standing !== 'new' || this.#newestSuccess > 0)",
      "standing === 'unproven' || standing === 'failing'",
    ],
    ['a failed request is sent again without end', ' && resends < MAX_RESENDS ? 0', ' ? 0'],
  ],
  'failures/flow': [
    ['retries need no budget', '    if (this.#successesSaved < SUCCESSES_PER_RETRY) return false;\n', ''],
  ],
  'failures/pace': [
    ['a quota is not kept', '    if (this.#perSecond === Number.POSITIVE_INFINITY) return;\n', '    return;\n'],
  ],
  'failures/refusals': [
    ['callers are told to come again at once', 'const MIN_WAIT_MS = 100;', 'const MIN_WAIT_MS = 0;'],
    [
      'messages of sources are kept as they are',
      "error.message.replaceAll(accessKey, '[access key]')",
      'error.message',
    ],
  ],
  logger: [
    [
      'a logger that throws is heard',
      '    } catch {\n      // A logger must not fail',
      '    } catch (error) {\n      throw error;\n      // A logger must not fail',
    ],
  ],
  'registry/dispatch': [
    [
      "a failing owner's permit is not released",
      'if (this.#queue.release(flight)) this.startNext();',
      "if (flight.standing !== 'failing' && this.#queue.release(flight)) this.startNext();",
    ],
    ['the queue has no time limit', 'this.#time.startTimer(() => this.#wake(), waitMs)', '() => {}'],
    [
      'the timer of the queue is not stopped',
      '    this.#cancelTimer?.();\n    this.#cancelTimer = undefined;\n',
      '    this.#cancelTimer = undefined;\n',
    ],
    ['what is to be sent again is lost', '      this.#queue.putBack(flight, flight.waiting > 0);\n', ''],
  ],
  'registry/flights': [
    [
      'late answers are stored',
      '    if (this.#owners.isCurrent(flight)) {\n      recordSuccess(',
      '    {\n      recordSuccess(',
    ],
    [
      'a rejection does not detach what was sent',
      "if (flight?.state.phase === 'sent') this.detach(flight);",
      'void flight;',
    ],
    ['close leaves callers waiting', '    this.#reject(flight, closedError(flight.slot.owner, now));\n', ''],
    ['access keys are logged', 'newRequest(flight.slot, reason', 'newRequest({ owner: flight.accessKey }, reason'],
    [
      'what is queued as a circuit opens is lost',
      '    } else this.#end(flight);\n    this.#reject(flight, error);',
      '    } else this.#end(flight);',
    ],
  ],
  'registry/held-token': [
    ['a lifetime counts from the answer', 'requestedAtMs: now.wallMs - tookMs', 'requestedAtMs: now.wallMs'],
    ['a date from before the clock was set back stands', 'setBackMs > MAX_READING_ERROR_MS', 'setBackMs > 1e15'],
  ],
  'registry/registry': [
    ['callers do not join', 'requesting: flight !== undefined', 'requesting: false && flight !== undefined'],
    [
      'keys are trimmed',
      '    try {\n      // Before the lookup',
      '    accessKey = accessKey.trim();\n    try {\n      // Before the lookup',
    ],
  ],
  'registry/request-queue': [
    ['failing owners have more than their share', 'return !isFailing(standing) || ', 'return true || '],
    ['the queue has no bound', 'return this.queued < this.#maxQueued;', 'return true;'],
    ['one request too many is in flight', 'if (this.permits >= inFlight ||', 'if (this.permits > inFlight ||'],
  ],
  'registry/requests-in-flight': [
    [
      'every request is slow at once',
      'if (!next || slowAtMs(next, slowAfterMs) > nowMs) return undefined;',
      'if (!next) return undefined;',
    ],
  ],
  'registry/slot-cache': [
    [
      'a token is served a second longer',
      'second < (this.#freshUntilSeconds[index] as number)',
      'second <= (this.#freshUntilSeconds[index] as number)',
    ],
    [
      'two owners share an index',
      'this.#freeIndexes.pop() ?? this.#slots.length',
      'this.#freeIndexes[this.#freeIndexes.length - 1] ?? this.#slots.length',
    ],
  ],
  'registry/slot': [
    ['rejected tokens are not remembered', '[fingerprint, ...trouble.denylist]', '[]'],
    [
      'a rejection leaves the token',
      'const trouble = drop(slot);\n  trouble.lastRejected',
      'const trouble = troubleOf(slot);\n  trouble.lastRejected',
    ],
    ['a failure drops the token', 'troubleOf(slot).failure = failure;', 'drop(slot).failure = failure;'],
    [
      'refreshes begin within pauses',
      'around.requesting || around.circuitPause || backoffOf(slot, now) ?',
      'around.requesting ?',
    ],
    [
      "an owner's pause does not hold back",
      'if (around.circuitPause || backoffOf(slot, now)) return',
      'if (around.circuitPause) return',
    ],
  ],
  'registry/source-call': [
    [
      'a thrown value that cannot be read is thrown on',
      "  } catch {\n    const message = 'the token source threw a value",
      "  } catch (error) {\n    if (error) throw error;\n    const message = 'the token source threw a value",
    ],
  ],
  'registry/waiters': [
    ['an abort leaves its caller waiting', '    waiter.reject(waiter.signal.reason);\n', ''],
    [
      'an abort fails all who wait',
      '    waiter.reject(waiter.signal.reason);\n',
      '    flight.reject(waiter.signal.reason);\n    waiter.reject(waiter.signal.reason);\n',
    ],
  ],
};
