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
      'const gapMs = wallMs + this.#wallOffsetMs - (readMs + this.#monotonicOffsetMs);',
      'const gapMs = 0; this.#wallOffsetMs = readMs + this.#monotonicOffsetMs - wallMs;',
    ],
  ],
  'failures/blame': [
    ['a canary that succeeds proves nothing', '  else trust(blame, nowMs);\n', ''],
    [
      'canaries are never asked',
      'failedCanaries: 0, failure };\n  return true;',
      'failedCanaries: 0, failure };\n  return false;',
    ],
    ['no canary is needed to open', 'blame.canaries.length > 0 ? beginCheck(', 'blame === null ? beginCheck('],
    ['two suspects are enough', 'const SUSPECTS_TO_CHECK = 3;', 'const SUSPECTS_TO_CHECK = 2;'],
    ['nine suspects are enough before any success', 'BEFORE_ANY_SUCCESS = 10;', 'BEFORE_ANY_SUCCESS = 9;'],
    ['ten suspects are not enough before any success', 'BEFORE_ANY_SUCCESS = 10;', 'BEFORE_ANY_SUCCESS = 11;'],
    ['a success does not clear the suspects', 'state.suspects.length = 0;', ';'],
    ['a given scope opens no circuit', 'if (isGiven) return', 'if (isGiven && !blame) return'],
    ['no trial is ever due', 'state.isDue = true;', ''],
    [
      'a trial about its owner alone closes nothing',
      "if (scope === 'owner') return trust(",
      'if (scope === null) return trust(',
    ],
  ],
  'failures/blame-state': [
    ['trials have no end of a pause to wait for', 'state.isDue && state.outstanding === 0', 'state.outstanding === 0'],
    ['several trials at once', "state.outstanding === 0 ? 'trial'", "state.outstanding < 3 ? 'trial'"],
  ],
  'failures/pace': [['a quota is not kept', 'nowMs + intervalMs', 'nowMs']],
  'failures/pauses': [['Retry-After is not heeded', 'askedMs ?? Math.max', 'Math.max']],
  'failures/reducer': [
    ['retries need no tokens', ' || savedTokens < TOKENS_PER_RETRY)', ')'],
    ['a failed request is sent again without end', 'retries >= most || ', ''],
    ['a retry uses up no budget', 'health.savedTokens -= TOKENS_PER_RETRY;', ''],
    [
      'requests are slow before any latency is known',
      'Number.POSITIVE_INFINITY : Math.max(SLOW_MS',
      '1 : Math.max(SLOW_MS',
    ],
    ['every request is slow at once', 'Math.max(SLOW_MS, SLOW_LATENCIES * latencyMs)', '1'],
  ],
  'failures/room': [['the ramp at the start is ignored', 'RAMP.atFirst + issued', '10_000 + issued']],
  'failures/refusals': [
    ['callers are told to come again at once', 'const MIN_WAIT_MS = 100;', 'const MIN_WAIT_MS = 0;'],
    ['messages of sources are kept as they are', "text.replaceAll(accessKey, '[access key]')", 'text'],
  ],
  'failures/rejections': [
    [
      'a rejection changes nothing',
      "    case undefined:\n      return { kind: 'replacing', streak: undefined, firstRejectedAtMs: nowMs, ageMs };\n",
      '    case undefined:\n      return state;\n',
    ],
    [
      'an accepted call restores nothing',
      "return { ...state, kind: 'kept', streak: undefined, untilMs: nowMs };",
      'return state;',
    ],
  ],
  'reporting/diagnostics': [
    [
      'a logger that throws is heard',
      '    } catch {\n      // A logger must not fail',
      '    } catch (error) {\n      throw error;\n      // A logger must not fail',
    ],
  ],
  'registry/registry': [
    ['callers do not join', 'const requesting = flight !== undefined', 'const requesting = false && flight'],
    [
      'keys are trimmed',
      '    try {\n      // Before the lookup',
      '    accessKey = accessKey.trim();\n    try {\n      // Before the lookup',
    ],
  ],
  'registry/request-outcomes': [
    ['a detached answer is stored', 'if (this.end(flight, now)) {', 'if (this.end(flight, now) || flight) {'],
    ['the end of a request starts no other', '    this.#scheduler.react(now, message);\n', ''],
  ],
  'registry/requests': [
    [
      'no request goes over a new connection',
      'freshConnection: failures >= FAILURES_BEFORE_NEW_CONNECTION || this.scheduler.isTrial(flight)',
      'freshConnection: false',
    ],
    ['what is asked again keeps to no pace', 'paceAllows(this.scheduler.health.pace, now.monotonicMs) ||', 'now ||'],
    ['close leaves callers waiting', 'this.#waiters.reject(flight, closedError(flight.slot.owner, now));', ''],
  ],
  'registry/scheduler': [
    [
      'the pool of slow requests has no bound',
      'running.length + Math.max(0, slow.length - concurrency)',
      'running.length',
    ],
    ['one request too many is in flight', 'return counted < roomAt', 'return counted <= roomAt'],
    [
      'the queue has no bound',
      'if (this.queue.waiting < this.#settings.maxQueued) return true;',
      'if (this.queue) return true;',
    ],
    ['maxQueueMs is ignored', '      this.#refuse(flight, this.#overdue(flight, now));\n', '      break;\n'],
    [
      'a retry begins a new wait',
      "    this.queue.move(flight, 'retrying');\n",
      "    this.queue.move(flight, 'retrying');\n    flight.queuedAtMs = this.#time.now().monotonicMs + afterMs;\n",
    ],
    [
      'the timer of the queue is not stopped',
      '    this.isClosed = true;\n    stopTimer(this.#wakeTimer);',
      '    this.isClosed = true;',
    ],
    ['what is to be sent again too late is lost', 'if (leftMs <= 0) return giveUp();', 'if (leftMs <= 0) return;'],
    [
      'an open circuit holds nothing back',
      'this.queue.startNext(now.monotonicMs, !mayAny)',
      'this.queue.startNext(now.monotonicMs, false)',
    ],
    [
      'what is queued as a circuit opens is lost',
      '        this.#refuse(flight, refusal(circuit, flight.slot.owner, now));\n',
      '        this.queue.move(flight, undefined);\n',
    ],
    ['a canary is asked for twice', ' || this.#owners.flightOf(owner)', ''],
    ['paused owners are canaries', ' || slot.history.failure', ''],
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
    [
      'rejections in a row are not remembered',
      'if (rejection || lastMoments) slot.history',
      'if (lastMoments) slot.history',
    ],
    ['a failure drops the token', 'update(slot, { failure });', 'slot.held = undefined;\n  update(slot, { failure });'],
    [
      'refreshes begin within pauses',
      "return isStopped ? 'serve' : 'serve-and-refresh';",
      "return conditions.requesting ? 'serve' : 'serve-and-refresh';",
    ],
    [
      "an owner's pause does not hold back",
      'if (conditions.circuit || backoffOf(slot, now)) return',
      'if (conditions.circuit) return',
    ],
  ],
  'registry/held-token': [
    ['a lifetime counts from the answer', 'requestedAtMs: now.wallMs - tookMs', 'requestedAtMs: now.wallMs'],
    ['a date from before the clock was set back stands', 'setBackMs > MAX_READING_ERROR_MS', 'setBackMs > 1e15'],
  ],
  'registry/source-call': [
    [
      'a thrown value that cannot be read is thrown on',
      "  } catch {\n    const message = 'the token source threw a value",
      "  } catch (error) {\n    if (error) throw error;\n    const message = 'the token source threw a value",
    ],
  ],
  'registry/waiters': [
    ['an abort leaves its caller waiting', '    waiter.reject(waiter.signal?.reason);\n', ''],
    [
      'an abort fails all who wait',
      '    waiter.reject(waiter.signal?.reason);\n',
      '    callers.reject(waiter.signal?.reason);\n    waiter.reject(waiter.signal?.reason);\n',
    ],
  ],
};
