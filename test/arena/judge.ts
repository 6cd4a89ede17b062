/**
 * The rules: no healthy tenant is served less or later than with a baseline, and the service gets fewer unwanted requests
 * than from the plain one. Each allowance is for chance, or for what respecting the service must cost.
 */

import type { Played } from './play.ts';
import type { Scene } from './scene.ts';

/** Percentage points of calls in time that chance may cost. Better than 99.5 % is never too bad. */
const SLACK_POINTS = 1;
const GOOD_PERCENT = 99.5;
/** Where the API refuses good tokens: tokens that are refreshed ahead of their end meet that more often. */
const SLACK_POINTS_AT_401 = 2;
/** The share of the owners that may go unserved by chance. */
const SLACK_OWNERS = 0.005;
/**
 * Above a limit the plain baseline is served all that the limit allows, because it asks for too much. A client that keeps
 * to the limit finds it by trying, and may give up a tenth of what it allows; who is served is a matter of luck.
 */
const OF_IDEAL = 0.9;
const SLACK_OWNERS_BY_LUCK = 0.05;
/** A 99th percentile up to this is never too long: nobody notices. Nor is one up to 1.5 times the baseline's. */
const GOOD_P99_MS = 2_000;
const P99_FACTOR = 1.5;
/** A percentile hides the few who wait longest: nobody may wait longer than this, or than twice as long as with the baseline. */
const GOOD_WORST_MS = 5_000;
const WORST_FACTOR = 2;
/** In a long outage, the share of the plain baseline's requests that must do to notice its end. */
const OF_OUTAGE = 0.1;
/** A limit is found by exceeding it: the share of the requests that may be spent on that. */
const PROBES = 0.02;
/** A call may try once more, for ten tokens once; that may hit dead keys. */
const RETRIES = 0.1;
/** What chance may add to the unwanted requests. */
const SLACK_REQUESTS = { outage: 20, limit: 50, dead: 20 };

/**
 * Compares a run with the baselines' runs of the same scene and seed.
 *
 * @param plain with whom the service's requests are compared, and the tenants' calls.
 * @param others with whom only the tenants' calls are compared.
 * @returns what is worse, as sentences; empty if the scene holds, or is not judged.
 */
export function judge(run: Played, scene: Scene, plain: Played, others: readonly Played[] = []): string[] {
  if (scene.informative) return [];
  const worse = [plain, ...others].flatMap((baseline) => harm(run, baseline, scene));
  const { least = 0 } = scene;
  if (run.inTime < least) worse.push(`${run.inTime.toFixed(1)} % in time, at least ${least} %`);
  if (run.pending > 0) worse.push(`${run.pending} calls never ended`);
  // A call that cannot be served fails as soon as with plain: somebody waits for it.
  const illMs = Math.max(GOOD_P99_MS, scene.lateMs ?? 0, P99_FACTOR * plain.illP99Ms);
  if (run.illP99Ms > illMs && !scene.batchMayWait) {
    const [late, theirs] = [run.illP99Ms, plain.illP99Ms].map(Math.round);
    worse.push(`ill calls fail after ${late} ms (p99); plain: ${theirs} ms`);
  }
  if (run.locked > plain.locked) worse.push(`${run.locked} owners locked out after the fault; plain: ${plain.locked}`);
  const most = {
    outage: (scene.mostInOutage ?? (scene.longOutage ? OF_OUTAGE : 1)) * plain.outage,
    limit: scene.mostOverLimit === undefined ? plain.limit + PROBES * plain.sent : scene.mostOverLimit * run.sent,
    dead: Math.max(plain.dead, RETRIES * plain.sent),
  };
  for (const kind of ['outage', 'limit', 'dead'] as const) {
    const allowed = Math.round(most[kind]) + SLACK_REQUESTS[kind];
    if (run[kind] <= allowed) continue;
    worse.push(`${run[kind]} unwanted requests (${kind}), at most ${allowed}; plain: ${plain[kind]}`);
  }
  return worse;
}

/** How tenants fare worse than with this baseline. */
function harm(run: Played, baseline: Played, scene: Scene): string[] {
  const { ideal, lateMs = 0, refusesGoodTokens } = scene;
  const { subject, owners, never, p99Ms } = baseline;
  const worse = [];
  const { slackPoints: points = refusesGoodTokens ? SLACK_POINTS_AT_401 : SLACK_POINTS } = scene;
  const wanted = ideal === undefined ? baseline.inTime - points : OF_IDEAL * Math.min(ideal, baseline.inTime);
  if (run.inTime < Math.min(GOOD_PERCENT, wanted)) {
    const { inTime, late, refused } = run;
    const lost = `late ${late}, refused ${refused}`;
    worse.push(`${inTime.toFixed(1)} % in time (${lost}); ${subject}: ${baseline.inTime.toFixed(1)} %`);
  }
  const isLuck = ideal !== undefined || refusesGoodTokens;
  const slackOwners = Math.ceil((isLuck ? SLACK_OWNERS_BY_LUCK : SLACK_OWNERS) * owners);
  if (run.never > never + slackOwners) {
    worse.push(`${run.never} of ${owners} owners never served in time; ${subject}: ${never}`);
  }
  // Above a limit some calls must wait or be refused: the share in time says it all.
  if (ideal !== undefined) return worse;
  const worstMs = waitOf(run, baseline, 1);
  const mostWorstMs = Math.max(GOOD_WORST_MS, lateMs, WORST_FACTOR * waitOf(baseline, baseline, 1));
  // Plain exceeds a limit, and so makes nobody wait for it.
  if (baseline.limit === 0 && worstMs > mostWorstMs) {
    worse.push(`a call took ${Math.round(worstMs)} ms, at most ${Math.round(mostWorstMs)} (${subject})`);
  }
  const waitMs = waitOf(run, baseline, 0.99);
  const mostMs = Math.max(GOOD_P99_MS, lateMs, P99_FACTOR * p99Ms);
  if (waitMs > mostMs) {
    const [waited, most, theirs] = [waitMs, mostMs, p99Ms].map(Math.round);
    worse.push(`p99 ${waited} ms, at most ${most}; ${subject}: ${theirs} ms`);
  }
  return worse;
}

/** How long that share of as many calls as the baseline served took: more calls served, later, are not worse. */
function waitOf({ waitsMs }: Played, baseline: Played, share: number): number {
  const rank = Math.floor(share * Math.min(baseline.waitsMs.length, waitsMs.length));
  return waitsMs[Math.min(rank, Math.min(baseline.waitsMs.length, waitsMs.length) - 1)] ?? 0;
}

/** Marks a run that is worse than plain's. */
export const WORSE = ' ✗';

/** What the table of docs/internals/arena.md says of a run. */
export function cellOf(played: Played, scene: Scene, plainly: Played): string {
  const unwanted = played.outage + played.limit + played.dead;
  const mark = judge(played, scene, plainly).length > 0 ? WORSE : '';
  return `${played.inTime.toFixed(1)} %, ${unwanted.toLocaleString('en')}${mark}`;
}
