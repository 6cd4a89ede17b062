/** What goes wrong: one to four things at once. */

import { deadKeys, during, outage, parallelLimit, quota, sometimes, windowQuota } from '../../world/rules.ts';
import { type Answer, MIN, SEC } from '../../world/setting.ts';
import { DEAD, DOWN, LONE } from './answers.ts';
import { allowMs, callsPerSecond, type Draft, drawMoment, seconds, spreadStarts } from './draft.ts';

/** A tenth of the plain baseline's requests is a fair bound for an outage only if they are many. */
const MANY_REQUESTS = 800;
/** With 32 at once and a time limit of 10 s. */
const HANGING_PER_SECOND = 3;
const RECOVERY_MS = 30 * SEC;
/** An owner pauses for as long as it failed, and not longer than this. */
const MOST_OWNER_PAUSE_MS = 5 * MIN;
/** For parallel limits where the latency varies. */
const SLOWEST_MS = 5_000;

type Trouble = (draft: Draft) => void;

export function drawTroubles(draft: Draft): void {
  const { random } = draft;
  const often: readonly Trouble[] = [deadOwners, deadOwners, trickle, partialFailure, failingShard, down, down, limit];
  const drawn = new Set<Trouble>();
  for (let n = 1 + random.below(4); n > 0; n--) drawn.add(random.pick(often));
  // The rule that comes first decides.
  const order: readonly Trouble[] = [down, deadOwners, trickle, partialFailure, failingShard, limit];
  for (const trouble of order) if (drawn.has(trouble)) trouble(draft);
}

function down(draft: Draft): void {
  const { random } = draft;
  const [what, answer] = random.pick(DOWN);
  const longMs = random.span(5 * MIN, 10 * MIN);
  const isLong = random.chance(0.6) && leastRequestsOfPlain(draft, longMs, answer) >= MANY_REQUESTS;
  const lengthMs = isLong ? longMs : random.span(5 * SEC, 2 * MIN);
  const isAtStart = random.chance(0.15);
  const fromMs = isAtStart ? 0 : drawMoment(draft);
  const toMs = fromMs + lengthMs;
  const retryAfterS = drawRetryAfter(draft, answer, lengthMs);
  const isSpread = spreadStarts(draft);
  // Who obeys a `Retry-After` asks for nobody meanwhile.
  const countsMeanwhile = retryAfterS === undefined && (isSpread || isAtStart);
  draft.uncounted.push([countsMeanwhile ? toMs : fromMs, toMs + Math.max(RECOVERY_MS, (retryAfterS ?? 0) * SEC)]);
  const headers = { ...answer.headers, ...(retryAfterS !== undefined && { 'retry-after': String(retryAfterS) }) };
  draft.failures.push(during([fromMs, toMs], outage({ ...answer, headers })));
  draft.minutes = Math.max(draft.minutes, Math.ceil(toMs / MIN) + 5);
  if (isLong) draft.longOutage = true;
  // What was refreshed early must not hide a slow recovery.
  const countsAfterwards = isLong && random.chance(0.5);
  if (countsAfterwards) draft.uncounted.push([0, toMs]);
  const start = isAtStart ? 'starts into an ' : '';
  const retryAfter = retryAfterS === undefined ? '' : `, Retry-After ${retryAfterS}`;
  const afterwards = countsAfterwards ? ', afterwards' : '';
  draft.said.push(`${start}outage of ${seconds(lengthMs)} (${what}${retryAfter})${afterwards}`);
}

/** Short, true, or far too long. */
function drawRetryAfter({ random }: Draft, { status }: Answer, lengthMs: number): number | undefined {
  if ((status !== 503 && status !== 429) || random.chance(0.5)) return undefined;
  return random.pick([random.span(2, 30), Math.ceil(lengthMs / SEC), 1_800]);
}

/** How many requests the plain baseline makes in an outage: all owners ask at each call once their tokens have ended. */
function leastRequestsOfPlain({ tenants, tokenLifeS }: Draft, lengthMs: number, { ms = 0 }: Answer): number {
  const emptyMs = Math.max(0, lengthMs - SEC * tokenLifeS);
  const requests = tenants.reduce((sum, { perSecond = 0, count = 0, everyMs, pattern }) => {
    const known = pattern || !everyMs ? 0 : (count * emptyMs) / everyMs;
    return sum + perSecond * (lengthMs / SEC) + known;
  }, 0);
  return ms < MIN ? requests : Math.min(HANGING_PER_SECOND * (lengthMs / SEC), requests);
}

/** Keys that never worked, new ones or polled ones, or that are revoked. */
function deadOwners(draft: Draft): void {
  const { random, tenants, failures, said } = draft;
  const [what, answer] = random.pick(DEAD);
  const rule = deadKeys('dead', answer);
  if (random.chance(0.25)) {
    const perSecond = random.span(10, 500) / 100;
    tenants.push({ name: 'dead', perSecond, ill: true });
    failures.push(rule);
    said.push(`${perSecond} dead newcomers a second (${what})`);
    return;
  }
  const count = random.span(1, 300);
  // Only a few are polled each second.
  const everyMs = random.span(Math.max(200, 100 * count), 2 * MIN);
  const group = { name: 'dead', count, everyMs };
  if (random.chance(0.3)) {
    const revokedMs = drawMoment(draft);
    // Their tokens must end in this world, or only those who refresh early would notice.
    spreadStarts(draft);
    draft.tenants.push({ ...group, illFromMs: revokedMs, illUntilMs: Number.POSITIVE_INFINITY });
    failures.push(during([revokedMs, Number.POSITIVE_INFINITY], rule));
    said.push(`${count} keys revoked (${what})`);
  } else {
    tenants.push({ ...group, ill: true });
    failures.push(rule);
    said.push(`${count} dead keys (${what})`);
  }
}

function trickle({ random, failures, said }: Draft): void {
  const [what, answer] = random.pick(LONE);
  const share = random.span(30, 500) / 10_000;
  failures.push(sometimes(share, answer));
  said.push(`${(100 * share).toFixed(1)} % of requests get ${what}`);
}

function partialFailure(draft: Draft): void {
  const { random, failures, said } = draft;
  const [what, answer] = random.pick(LONE);
  const share = random.span(10, 50) / 100;
  const fromMs = drawMoment(draft);
  const toMs = fromMs + random.span(20 * SEC, 5 * MIN);
  failures.push(during([fromMs, toMs], sometimes(share, answer)));
  said.push(`for ${seconds(toMs - fromMs)} ${Math.round(100 * share)} % get ${what}`);
}

/** Some of the owners, beside the others. */
function failingShard(draft: Draft): void {
  const { random, tenants, failures, said } = draft;
  const [what, answer] = random.pick(DEAD);
  const lengthMs = random.span(20 * SEC, 10 * MIN);
  const fromMs = drawMoment(draft);
  const toMs = fromMs + lengthMs;
  const retryAfterMs = SEC * Number(answer.headers?.['retry-after'] ?? 0);
  const pauseMs = Math.max(RECOVERY_MS, Math.min(MOST_OWNER_PAUSE_MS, lengthMs)) + retryAfterMs;
  const [count, everyMs] = [random.span(5, 80), random.span(5 * SEC, 2 * MIN)];
  tenants.push({ name: 'shard', count, everyMs, illFromMs: fromMs, illUntilMs: toMs + pauseMs });
  failures.push(during([fromMs, toMs], deadKeys('shard', answer)));
  said.push(`a shard of ${count} fails for ${seconds(lengthMs)} (${what})`);
}

/** A limit that newcomers exceed, or one that has room for all but a burst. */
function limit(draft: Draft): void {
  const { random, tenants, limits, said, latencyMs, uncounted } = draft;
  const demand = tenants[0]?.perSecond;
  if (demand && uncounted.length === 0 && random.chance(0.6)) {
    limitBelowDemand(draft, demand);
    return;
  }
  const perSecond = 2 + Math.ceil(callsPerSecond(draft) * (1.3 + 2 * random.next()));
  const inParallel = random.chance(0.3);
  const status = random.pick([429, 503]);
  if (inParallel) {
    const slowestMs = typeof latencyMs === 'number' ? latencyMs : SLOWEST_MS;
    const most = Math.ceil(4 + 3 * perSecond * (slowestMs / SEC));
    limits.push(() => parallelLimit(most, status));
    said.push(`at most ${most} at once (${status})`);
  } else {
    limits.push(() => quota({ perSecond, status }));
    said.push(`at most ${perSecond} a second (${status})`);
  }
  const [{ burstMs = MIN, count = 0 } = {}] = tenants;
  if (burstMs < MIN) allowMs(draft, 2 * SEC * (count / perSecond));
}

function limitBelowDemand(draft: Draft, demand: number): void {
  const { random, limits, said } = draft;
  const perSecond = Math.max(1, demand * (0.3 + 0.6 * random.next()));
  draft.ideal = Math.min(100, (100 * perSecond) / demand);
  said.push(`${perSecond.toFixed(1)} a second given`);
  if (random.chance(0.4)) {
    limits.push(() => windowQuota({ count: Math.ceil(60 * perSecond) }));
    draft.minutes = Math.max(4, draft.minutes);
    said.push('counted by the minute');
  } else if (random.chance(0.3)) {
    limits.push(() => quota({ perSecond, retryAfterS: 1 }));
    said.push('Retry-After 1');
  } else limits.push(() => quota({ perSecond }));
}
