/** The rules of `failures/` and `registry/`, and how each is taken out: which source text is replaced, and by what. */

const FAILURES = 'src/failures';
const REGISTRY = 'src/registry';

export const RULES = [
  rule(
    'the start ramp',
    `${FAILURES}/room.ts`,
    'return Math.min(size, RAMP.atFirst + issued',
    'return Math.max(size, RAMP.atFirst + issued',
  ),
  rule('room beyond 32', `${FAILURES}/room.ts`, 'Math.min(most, Math.ceil(size * STEP))', 'size'),
  rule('a step is taken back early', `${FAILURES}/room.ts`, 'isStep && room.answers >= HARMS.answers', 'false'),
  rule(
    'a step is taken back',
    `${FAILURES}/room.ts`,
    'else if (isStep && perMs < HELPS * best.perMs) stepBack',
    'else if (best === room) stepBack',
  ),
  rule(
    'the learned rate',
    `${FAILURES}/pace.ts`,
    'pace.answers >= LEAST_ANSWERS && pace.busyShare',
    'pace.busyShare > 1 && pace.busyShare',
  ),
  rule(
    'the best rate of tokens',
    `${FAILURES}/pace.ts`,
    'Math.max(LEAST_PER_SECOND, OF_ISSUED * bestAt(pace, nowMs))',
    'LEAST_PER_SECOND',
  ),
  rule(
    'a rate that does not help is dropped',
    `${FAILURES}/pace.ts`,
    'else if (hasNotHelped && busyShare < HIGH_SHARE)',
    'else if (busyShare < 0)',
  ),
  rule('two cuts decide', `${FAILURES}/pace.ts`, 'else if (hasNotHelped && busyShare', 'else if (busyShare'),
  rule(
    'only answers to requests since the last cut count',
    `${FAILURES}/pace.ts`,
    'if (sentMs <= pace.cutAtMs) return;',
    '',
  ),
  rule(
    'half of the answers lower the rate at once',
    `${FAILURES}/pace.ts`,
    'pace.answers < enough || nowMs < pace.tolerateUntilMs ? HIGH_SHARE : BUSY_SHARE',
    'pace.answers < enough || nowMs < pace.tolerateUntilMs ? 1 : BUSY_SHARE',
  ),
  rule(
    'a minute after the last cut the rate is forgotten',
    `${FAILURES}/pace.ts`,
    'nowMs - cutAtMs > FORGET_AFTER_MS ?',
    'nowMs - cutAtMs > 1e15 ?',
  ),
  rule(
    '503s count as 429s where they are load',
    `${FAILURES}/pace.ts`,
    'pace.loadUntilMs = nowMs + LOAD.withinMs',
    'void 0',
  ),
  rule('503s do not always count as 429s', `${FAILURES}/pace.ts`, 'busy === 503 && nowMs >= pace.loadUntilMs', 'false'),
  rule('busy answers count by distinct owners', `${FAILURES}/pace.ts`, 'else if (owner !== pace.lastBusy)', 'else'),
  rule(
    'slow requests leave their place',
    `${FAILURES}/reducer.ts`,
    'latencyMs === undefined ? Number.POSITIVE_INFINITY :',
    'SLOW_MS > 0 ? Number.POSITIVE_INFINITY :',
  ),
  rule(
    'slow is relative to the usual latency',
    `${FAILURES}/reducer.ts`,
    'Math.max(SLOW_MS, SLOW_LATENCIES * latencyMs)',
    'SLOW_MS',
  ),
  rule(
    'the usual latency is an average',
    `${FAILURES}/reducer.ts`,
    '(event.tookMs - latencyMs) / LATENCIES_AVERAGED',
    'event.tookMs - latencyMs',
  ),
  rule('retries', `${FAILURES}/reducer.ts`, 'if (!isTransient || retries', 'if (retries >= 0 || retries'),
  rule('the retry budget', `${FAILURES}/reducer.ts`, 'health.savedTokens -= TOKENS_PER_RETRY;', ''),
  rule('more retries while paced', `${FAILURES}/reducer.ts`, '? MAX_PACED_RETRIES : 1', '? 1 : 1'),
  rule('a hang is not retried', `${FAILURES}/reducer.ts`, 'error.retryable && tookMs <= SLOW_MS', 'error.retryable'),
  rule(
    'a check that passes clears the share',
    `${FAILURES}/reducer.ts`,
    "if (blame.state.phase === 'checking') pace.busyShare = 0;",
    '',
  ),
  rule(
    'a first Retry-After stops its owner for a minute at most',
    `${FAILURES}/pauses.ts`,
    'count === 1 ? LONGEST_OBEYED_MS : error.retryAfterMs',
    'error.retryAfterMs',
  ),
  rule('a failed refresh is no hurry', `${FAILURES}/pauses.ts`, 'Math.max(drawnMs, refreshAgainMs)', 'drawnMs'),
  rule(
    'a failed refresh waits for a third of what is left at most',
    `${FAILURES}/pauses.ts`,
    'REFRESH_AGAIN.ofLife * leftMs',
    'leftMs',
  ),
  rule(
    'a short first pause after a transient failure',
    `${FAILURES}/pauses.ts`,
    'Math.min(owner.baseMs, TRANSIENT_BASE_MS)',
    'owner.baseMs',
  ),
  rule(
    'transient failures pause their owner for 30 s at most',
    `${FAILURES}/pauses.ts`,
    'Math.min(owner.capMs, Math.max(owner.baseMs, endpoint.capMs))',
    'owner.capMs',
  ),
  rule(
    'short pauses of the endpoint until a token came',
    `${FAILURES}/pauses.ts`,
    "scope === 'endpoint' ? Math.min(count, 2) : count",
    'count',
  ),
  rule(
    'a circuit pauses for longer only after two failed trials',
    `${FAILURES}/pauses.ts`,
    'Math.ceil(count / 2)',
    'count',
  ),
  rule(
    'canaries',
    `${FAILURES}/blame.ts`,
    'blame.canaries.length > 0 ? beginCheck(blame, error) :',
    'blame === undefined ? beginCheck(blame, error) :',
  ),
  rule(
    'trials in turn',
    `${FAILURES}/blame.ts`,
    'canaries.length > 0 && circuit.count % 2 === 1',
    'canaries.length > 0 && circuit.count > 0',
  ),
  rule(
    'canaries as trials of an open circuit',
    `${FAILURES}/blame.ts`,
    'canaries.length > 0 && circuit.count % 2 === 1',
    'canaries.length > 0 && circuit.count < 0',
  ),
  rule(
    'a hanging trial refuses calls until its deadline',
    `${FAILURES}/blame.ts`,
    "if (state.phase === 'open') state.circuit = {",
    "if (state.phase !== 'open') return false; else if (mayAskMore === undefined) state.circuit = {",
  ),
  rule('trust', `${FAILURES}/blame.ts`, 'return nowMs >= trustedUntilMs;', 'return true;'),
  rule(
    'calls wait a second for an open circuit',
    `${FAILURES}/blame-state.ts`,
    'circuit.retryAtMonotonicMs - nowMs > PATIENCE_MS',
    'circuit.retryAtMonotonicMs > nowMs',
  ),
  rule(
    'newest first',
    `${REGISTRY}/queue.ts`,
    'nowMs - first.queuedAtMs > NEWEST_FIRST_AFTER_MS ? last : first',
    'nowMs < 0 ? last : first',
  ),
  rule(
    'lanes',
    `${REGISTRY}/queue.ts`,
    'this.move(entry, undefined);\n    entry.lane = lane;',
    "this.move(entry, undefined);\n    entry.lane = lane === 'trial' ? lane : 'known';",
  ),
  rule(
    'time that stood still does not count',
    `${REGISTRY}/scheduler.ts`,
    'if (stoodStill(lateMs, 0)) this.queue.postpone',
    'if (lateMs < 0) this.queue.postpone',
  ),
  rule(
    'a rejected token is kept for longer each time',
    `${FAILURES}/rejections.ts`,
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
    for (const { 0: number, index } of value.matchAll(/(?<![\w.])\d[\d_]*(?:\.\d+)?(?![\w.])/g)) {
      const member = /(\w+): $/.exec(value.slice(0, index))?.[1];
      const times = (factor) => {
        const other = String(factor * Number(number.replaceAll('_', '')));
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
