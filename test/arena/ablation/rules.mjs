/** The rules of `failures/` and `registry/`, and how each is taken out: which source text is replaced, and by what. */

const LIMITER = 'src/failures/limiter.ts';
const REDUCER = 'src/failures/reducer.ts';
const PAUSES = 'src/failures/pauses.ts';
const BLAME = 'src/failures/blame.ts';
const REQUESTS = 'src/registry/requests/requests.ts';
const LIFECYCLE = 'src/registry/requests/lifecycle.ts';
const FLIGHT = 'src/registry/requests/flight.ts';
const SCHEDULER = 'src/registry/requests/scheduler.ts';
const QUEUE = 'src/registry/requests/queue.ts';
const HELD = 'src/registry/owners/held-token.ts';
const RECENT = 'src/registry/owners/recent-tokens.ts';

export const RULES = [
  rule('the start ramp', LIMITER, 'return running < ramp ?', 'return running >= 0 ?'),
  rule(
    'all of `concurrency` until the first answer',
    LIMITER,
    'atOnce = most, issuedCount',
    'atOnce = AT_ONCE, issuedCount',
  ),
  rule('more than 32 at once', LIMITER, 'else limiter.atOnce = Math.min(most, atOnce + 1 / ANSWERS_PER_RAISE);', ''),
  rule(
    'the return to 32 at once',
    LIMITER,
    'if (atOnce > AT_ONCE && limiter.fullMs',
    'if (atOnce < 0 && limiter.fullMs',
  ),
  rule(
    'answers to more than 32 at once do not set the usual latency',
    LIMITER,
    'running <= AT_ONCE || before === undefined',
    'running > 0 || before === undefined',
  ),
  rule(
    'the learned rate',
    LIMITER,
    'limiter.answers >= LEAST_ANSWERS && limiter.busyShare > BUSY_SHARE',
    'limiter.busyShare > 1',
  ),
  rule('only answers to requests since the last cut count', LIMITER, 'if (sentMs <= limiter.cutAtMs) return;', ''),
  rule('the learned rate rises', LIMITER, 'limiter.perSecond * RAISE_PER_SECOND ** seconds', 'limiter.perSecond'),
  rule('the learned rate returns after a cut', LIMITER, 'sentPerSecond * KEPT_SHARE', '0'),
  rule(
    'a minute after the last cut the rate is forgotten',
    LIMITER,
    'nowMs - cutAtMs > FORGET_AFTER_MS ?',
    'nowMs - cutAtMs > 1e15 ?',
  ),
  rule('503s count as 429s where they are load', LIMITER, 'limiter.loadUntilMs = nowMs + LOAD_MS', 'void 0'),
  rule('503s do not always count as 429s', LIMITER, 'busy === 503 && nowMs >= limiter.loadUntilMs', 'false'),
  rule(
    'slow requests leave their place',
    REDUCER,
    'return Math.max(SLOW_MS, SLOW_LATENCIES * promptMs);',
    'return Number.POSITIVE_INFINITY;',
  ),
  rule(
    'slow is relative to the usual latency',
    REDUCER,
    'return Math.max(SLOW_MS, SLOW_LATENCIES * promptMs);',
    'return SLOW_MS;',
  ),
  rule(
    'slow while a circuit is open, before any latency is known',
    REDUCER,
    'return blame.doubt?.circuit ? SLOW_MS : Number',
    'return Number',
  ),
  rule('slow answers do not set what is slow', REDUCER, 'if (!isSlow) health.promptMs', 'health.promptMs'),
  rule('the usual latency is an average', REDUCER, 'promptMs + (tookMs - promptMs) / LATENCIES_AVERAGED', 'tookMs'),
  rule('retries', REDUCER, 'const mayRetry = isNeeded &&', 'const mayRetry = savedTokens < 0 && isNeeded &&'),
  rule('the retry budget', REDUCER, 'health.savedTokens -= TOKENS_PER_RETRY;', ''),
  rule('a hang is not retried', REDUCER, ' && tookMs <= SLOW_MS;', ';'),
  rule("an owner's third 429 in a row is its own", REDUCER, 'if (ownerFailures >= OWN_AFTER) return undefined;', ''),
  rule('a failure during an open circuit gets its scope', REDUCER, "(doubt?.circuit?.scope ?? 'owner')", "'owner'"),
  rule("a caller's failed trial pauses its owner", REDUCER, 'isShared && !(isTrial && isNeeded)', 'isShared'),
  rule(
    'refusals of the client that others do not share pause like a dead key',
    REDUCER,
    'const isAlone = newestSuccess > firstNumber',
    'const isAlone = newestSuccess < 0',
  ),
  rule(
    'an owner that was readmitted lately shortens such pauses',
    REDUCER,
    ' && nowMs - readmittedAtMs > ranges.owner.capMs;',
    ';',
  ),
  rule(
    'a first Retry-After stops its owner for a minute at most',
    PAUSES,
    'count === 1 ? Math.min(retryAfterMs, LONGEST_OBEYED_MS) : retryAfterMs',
    'retryAfterMs',
  ),
  rule(
    'a Retry-After stops everybody for a minute at most',
    PAUSES,
    'Math.min(failure.retryAfterMs ?? 0, LONGEST_OBEYED_MS)',
    'failure.retryAfterMs ?? 0',
  ),
  rule('a failed refresh is no hurry', PAUSES, 'drawnMs, refreshAgainMs)', 'drawnMs)'),
  rule('a failed refresh waits for a third of what is left at most', PAUSES, 'REFRESH_AGAIN.ofLife * leftMs', 'leftMs'),
  rule(
    'a short first pause after a transient failure',
    PAUSES,
    'baseMs: Math.min(baseMs, TRANSIENT_BASE_MS),',
    'baseMs,',
  ),
  rule(
    'transient failures pause their owner for 30 s at most',
    PAUSES,
    'capMs: Math.min(capMs, Math.max(baseMs, ranges[scope].capMs)),',
    'capMs,',
  ),
  rule('a circuit pauses for longer only after two failed trials', PAUSES, 'Math.ceil(count / 2)', 'count'),
  rule(
    'canaries',
    BLAME,
    'if (canaries.length === 0) return open(blame, error, jitter, nowMs);\n  const none',
    'if (canaries) return open(blame, error, jitter, nowMs);\n  const none',
  ),
  rule("callers' trials", BLAME, 'circuit !== undefined && circuit.count % 2 === 0', 'circuit === null'),
  rule(
    'canaries as trials of an open circuit',
    BLAME,
    'circuit !== undefined && circuit.count % 2 === 0',
    'circuit !== undefined',
  ),
  rule(
    'a trial that hangs counts as failed',
    BLAME,
    'return trialFailed(blame, doubt, { error: doubt.failure, jitter: event.jitter }, nowMs);',
    'return !doubt.circuit && mayAskMore(doubt);',
  ),
  rule('before any success pauses stay at a second', BLAME, 'canaries.length > 0 ? capMs :', 'canaries ? capMs :'),
  rule('trust', BLAME, 'if (nowMs < trustedUntilMs) return SUSPECTS_DESPITE_TRUST;', ''),
  rule(
    'calls wait a second for an open circuit',
    BLAME,
    'circuit.retryAtMonotonicMs - nowMs > PATIENCE_MS',
    'circuit.retryAtMonotonicMs > nowMs',
  ),
  rule(
    'newest first',
    QUEUE,
    'nowMs - first.queuedAtMs > NEWEST_FIRST_AFTER_MS ? last : first',
    'nowMs < 0 ? last : first',
  ),
  rule(
    'owners that had a token go first',
    QUEUE,
    "['canary', 'known', 'new', 'refresh', 'failing'];",
    "['canary', 'new', 'known', 'refresh', 'failing'];",
  ),
  rule(
    'owners that fail go last',
    QUEUE,
    "['canary', 'known', 'new', 'refresh', 'failing'];",
    "['canary', 'failing', 'known', 'new', 'refresh'];",
  ),
  rule(
    'refreshes go after calls',
    QUEUE,
    "['canary', 'known', 'new', 'refresh', 'failing'];",
    "['canary', 'refresh', 'known', 'new', 'failing'];",
  ),
  rule(
    'trials of owners that never had a token go first',
    SCHEDULER,
    "mayNext === 'trial' ? TRIAL_LANES : LANES",
    'LANES',
  ),
  rule(
    'time that stood still does not count',
    SCHEDULER,
    'if (stoodStill(lateMs, 0)) this.queue.postpone',
    'if (lateMs < 0) this.queue.postpone',
  ),
  rule('the second after a standstill does not count', QUEUE, 'atMs + ms + AFTER_STANDSTILL_MS', 'atMs + ms'),
  rule('a re-issued token is not refreshed near its end', HELD, 'shareLeft < MIN_SHARE_LEFT ?', 'shareLeft < 0 ?'),
  rule('a refresh makes room in a full queue', SCHEDULER, 'this.queue.lists.refresh.first ?? flight', 'flight'),
  rule('the keys of a warm-up go after callers', REQUESTS, "caller.isWarmUp ? 'refresh' : undefined", 'undefined'),
  rule('the keys of a warm-up are not retried', LIFECYCLE, '!flight.isWarmUp && lane', 'lane'),
  rule(
    'a queued call gets the rejected token within a row of rejections',
    FLIGHT,
    'return isInStreak(slot) || this.#isRateLimited(now);',
    'return this.#isRateLimited(now);',
  ),
  rule(
    'a queued call gets the rejected token while a rate limits requests',
    FLIGHT,
    'return isInStreak(slot) || this.#isRateLimited(now);',
    'return isInStreak(slot);',
  ),
  rule('after two failures a new connection', LIFECYCLE, 'failures >= FAILURES_BEFORE_NEW_CONNECTION ||', ''),
  rule(
    'trials go over a new connection',
    LIFECYCLE,
    'failures >= FAILURES_BEFORE_NEW_CONNECTION || this.scheduler.isTrial(flight)',
    'failures >= FAILURES_BEFORE_NEW_CONNECTION',
  ),
  rule(
    "after a mix-up the other owner's token is replaced",
    LIFECYCLE,
    'if (mixedUp) this.#owners.replace(mixedUp, now.monotonicMs);',
    '',
  ),
  rule(
    "another owner's token is asked for once more",
    RECENT,
    'if (isRepeated || !issued ||',
    'if (issued || !issued ||',
  ),
  rule(
    'a token that three owners have is not asked for again',
    RECENT,
    ' || issued.owners.length === 3 || isOf',
    ' || isOf',
  ),
  rule(
    'a rejected token is kept for longer each time',
    'src/failures/rejections.ts',
    'doubled(count, FIRST_KEPT_MS',
    'doubled(1, FIRST_KEPT_MS',
  ),
];

function rule(name, file, from, to) {
  return { name, patches: [{ file, from, to }] };
}

/** Each number in the constants of a source file, half and double. */
export function constantsOf(file, source) {
  const found = [];
  for (const [text, name, value] of source.matchAll(
    /^(?:export )?const ([A-Z_]+)(?:: \w+)? = ([^;\n]*\d[^;\n]*);$/gm,
  )) {
    for (const { 0: number, index } of value.matchAll(/(?<![\w.])\d[\d_]*(?:\.\d+)?(?: \/ \d+)?(?![\w.])/g)) {
      const member = /(\w+): $/.exec(value.slice(0, index))?.[1];
      const times = (factor) => {
        const other = number.replace(/^[\d_.]+/, (digits) => String(factor * Number(digits.replaceAll('_', ''))));
        const before = text.slice(0, text.indexOf(value)) + value.slice(0, index);
        return { file, from: text, to: `${before}${other}${value.slice(index + number.length)};` };
      };
      found.push({
        name: `\`${member ? `${name}.${member}` : name}\``,
        value: number,
        halved: times(0.5),
        doubled: times(2),
      });
    }
  }
  return found;
}
