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
    ['a canary that succeeds proves nothing', '  if (doubt) trust(blame, nowMs);\n', ''],
    [
      'canaries are never asked',
      'blame.doubt = { ...none, failure: error };\n  return true;',
      'blame.doubt = { ...none, failure: error };\n  return false;',
    ],
    [
      'no canary is needed to open',
      'if (canaries.length === 0) return open(blame, error, jitter, nowMs);\n  const none',
      'if (canaries) return open(blame, error, jitter, nowMs);\n  const none',
    ],
    ['two suspects are enough', 'const SUSPECTS_TO_CHECK = 3;', 'const SUSPECTS_TO_CHECK = 2;'],
    ['nine suspects are enough before any success', 'BEFORE_ANY_SUCCESS = 10;', 'BEFORE_ANY_SUCCESS = 9;'],
    ['ten suspects are not enough before any success', 'BEFORE_ANY_SUCCESS = 10;', 'BEFORE_ANY_SUCCESS = 11;'],
    [
      'a success does not clear the suspects',
      'const { canaries, doubt } = blame;\n  blame.suspects = [];\n',
      'const { canaries, doubt } = blame;\n',
    ],
    ['a given scope opens no circuit', 'if (isGiven) return', 'if (isGiven && !blame) return'],
    ['no trial is ever due', 'doubt.isDue = true;', ''],
    [
      'a trial about its owner alone closes nothing',
      "if (scope === 'owner') return trust(",
      'if (scope === null) return trust(',
    ],
    [
      'trials have no end of a pause to wait for',
      'return doubt.isDue && doubt.outstanding === 0',
      'return doubt.outstanding === 0',
    ],
    ['several trials at once', "doubt.outstanding === 0 ? 'trial'", "doubt.outstanding < 3 ? 'trial'"],
  ],
  'failures/limiter': [
    ['a quota is not kept', 'limiter.nextStartMs = nowMs + 1_000 /', 'limiter.nextStartMs = nowMs + 0 /'],
    [
      'the ramp at the start is ignored',
      'const ramp = RAMP.atFirst + issuedCount',
      'const ramp = 10_000 + issuedCount',
    ],
    ['one request too many is in flight', 'if (running >= atOnce) return', 'if (running > atOnce) return'],
  ],
  'failures/pauses': [['Retry-After is not heeded', 'Math.max(askedMs, drawnMs,', 'Math.max(drawnMs,']],
  'failures/reducer': [
    ['retries need no tokens', 'mayRetry && savedTokens >= TOKENS_PER_RETRY ?', 'mayRetry && savedTokens < 1e9 ?'],
    [
      'a failed request is sent again without end',
      'const isFirst = ownerFailures === 0 && !isRetry;',
      'const isFirst = ownerFailures === 0;',
    ],
    ['a retry uses up no budget', 'health.savedTokens -= TOKENS_PER_RETRY;', ''],
    [
      'requests are slow before any latency is known',
      'blame.doubt?.circuit ? SLOW_MS : Number.POSITIVE_INFINITY',
      'blame.doubt?.circuit ? SLOW_MS : 1',
    ],
    ['every request is slow at once', 'return Math.max(SLOW_MS, SLOW_LATENCIES * promptMs);', 'return 1;'],
  ],
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
    [
      'keys are trimmed',
      '    try {\n      // Before the lookup',
      '    accessKey = accessKey.trim();\n    try {\n      // Before the lookup',
    ],
  ],
  'registry/requests/requests': [
    ['callers do not join', 'const requesting = flight !== undefined', 'const requesting = false && flight'],
    ['close leaves callers waiting', 'this.#waiters.reject(flight, closedError(flight.slot.owner, now));', ''],
  ],
  'registry/requests/lifecycle': [
    [
      'no request goes over a new connection',
      'freshConnection: failures >= FAILURES_BEFORE_NEW_CONNECTION || this.scheduler.isTrial(flight)',
      'freshConnection: false',
    ],
    [
      'what is asked again keeps to no rate limit',
      'const mustWait = now.monotonicMs < this.scheduler.health.limiter.nextStartMs &&',
      'const mustWait = !now &&',
    ],
    ['a detached answer is stored', 'if (this.end(flight, now)) {', 'if (this.end(flight, now) || flight) {'],
    ['the end of a request starts no other', '    this.scheduler.startNext(now, message);\n', ''],
  ],
  'registry/requests/scheduler': [
    ['a canary is asked for twice', ' || this.#owners.flightOf(owner)) continue', ') continue'],
    ['paused owners are canaries', '!slot || slot.history.failure ||', '!slot ||'],
    [
      'the pool of slow requests has no bound',
      'const counted = running.length + Math.max(0, slow.length - this.#settings.concurrency);',
      'const counted = running.length;',
    ],
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
      'this.queue.startNext(now.monotonicMs, !mayAny,',
      'this.queue.startNext(now.monotonicMs, false,',
    ],
    [
      'what is queued as a circuit opens is lost',
      '        this.#refuse(flight, refusal(circuit, flight.slot.owner, now), circuit.error);\n',
      '        this.queue.move(flight, undefined);\n',
    ],
  ],
  'registry/owners/slot-cache': [
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
  'registry/owners/slot': [
    [
      'rejections in a row are not remembered',
      'if (rejection) update(slot, { rejection });\n  slot.held = token',
      'slot.held = token',
    ],
    ['a failure drops the token', 'update(slot, { failure });', 'slot.held = undefined;\n  update(slot, { failure });'],
    [
      'refreshes begin within pauses',
      "return mayRequest(slot, now, conditions) ? 'serve-and-refresh' : 'serve';",
      "return conditions.requesting ? 'serve' : 'serve-and-refresh';",
    ],
    [
      "an owner's pause does not hold back",
      'if (conditions.circuit || backoffOf(slot, now)) return',
      'if (conditions.circuit) return',
    ],
  ],
  'registry/owners/held-token': [
    ['a lifetime counts from the answer', 'requestedAtMs: now.wallMs - tookMs', 'requestedAtMs: now.wallMs'],
    ['a date from before the clock was set back stands', 'setBackMs > MAX_READING_ERROR_MS', 'setBackMs > 1e15'],
  ],
  'registry/requests/source-call': [
    [
      'a thrown value that cannot be read is thrown on',
      "  } catch {\n    const message = 'the token source threw a value",
      "  } catch (error) {\n    if (error) throw error;\n    const message = 'the token source threw a value",
    ],
  ],
  'registry/requests/flight': [
    ['an abort leaves its caller waiting', '        reject(signal?.reason);\n', ''],
    [
      'an abort fails all who wait',
      '        reject(signal?.reason);\n',
      '        reject(signal?.reason);\n        this.reject(flight, signal?.reason);\n',
    ],
  ],
};
