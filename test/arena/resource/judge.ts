/**
 * The rules: no fewer calls are served than by the best of the three baselines, nor later after a fault, and neither the token
 * service nor the API gets more requests than from `renew`. Each allowance is for chance, or for what must cost.
 */

import { MIN, SEC } from '../../world/setting.ts';
import type { ApiPlayed } from './play.ts';
import type { ApiScene } from './scene.ts';

/** Percentage points of the calls that chance may cost. */
const SLACK_POINTS = 1;
/** Owners may be back so much later than with the best baseline, and one interval between calls. */
const SLACK_BACK_MS = 10 * SEC;
const LONGEST_INTERVAL = 1.5;
/**
 * Where only a newer token helps, a client that asks ever less often notices the end after up to as long again as the fault
 * lasted; on average, half of that.
 */
const OF_WAIT = 0.5;
/** In a long outage of the API, the share of `renew`'s token requests that must do, and how many of each owner come on top. */
const OF_OUTAGE = 0.1;
const TRIALS = 4;
/** Tokens that are refreshed ahead of their end are used for this share of their life at least. */
const LEAST_USED = 0.6;
const SLACK_REQUESTS = 20;
const SLACK_CALLS = 1.02;

/** @param baselines `renew` among them. @returns what is worse than with them, as sentences; empty if the scene holds. */
export function judgeApi(run: ApiPlayed, scene: ApiScene, baselines: readonly ApiPlayed[]): string[] {
  const { minutes, owners, tokenLifeS, everyMs, fault, longOutage } = scene;
  const renew = baselines.find(({ subject }) => subject === 'renew') as ApiPlayed;
  const best = baselines.reduce((a, b) => (b.servedPercent > a.servedPercent ? b : a));
  const lastedMs = fault ? fault[1] - fault[0] : 0;
  const waitMs = scene.onlyNewerHelps ? lastedMs : 0;
  const worse: string[] = [];

  const points = scene.slackPoints ?? Math.max(SLACK_POINTS, (100 * OF_WAIT * waitMs) / (minutes * MIN));
  if (run.servedPercent < best.servedPercent - points) {
    const { refused, failed } = run;
    const lost = `refused ${refused}, failed ${failed}`;
    worse.push(`${percent(run)} % served (${lost}); ${best.subject}: ${percent(best)} %`);
  }
  if (fault) {
    const soonest = Math.min(...baselines.map(({ backMs }) => backMs));
    const mostMs = soonest + Math.max(SLACK_BACK_MS, waitMs) + LONGEST_INTERVAL * everyMs;
    if (run.backMs > mostMs) {
      worse.push(`the last owner is served ${seconds(run.backMs)} after the fault, at most ${seconds(mostMs)}`);
    }
  }
  const refreshes = (ms: number) => (owners * ms) / (LEAST_USED * tokenLifeS * SEC);
  const early = refreshes(minutes * MIN) * (1 - LEAST_USED) + SLACK_REQUESTS;
  atMost('token requests', run.tokenRequests, renew.tokenRequests + early);
  if (longOutage) {
    const few = OF_OUTAGE * renew.inFault + refreshes(lastedMs) + TRIALS * owners;
    atMost('token requests during the outage', run.inFault, Math.min(few, renew.inFault + early));
  }
  // A refused call may be made once more, and so may one for which `renew` got no token.
  const mostCalls = Math.max(renew.apiCalls + renew.failed, run.made + run.calls - run.served);
  atMost('calls of the API', run.apiCalls, SLACK_CALLS * mostCalls + SLACK_REQUESTS);
  return worse;

  function atMost(what: string, count: number, limit: number): void {
    if (count > limit) worse.push(`${count} ${what}, at most ${Math.round(limit)}`);
  }
}

const percent = ({ servedPercent }: ApiPlayed) => servedPercent.toFixed(1);
const seconds = (ms: number) => `${(ms / SEC).toFixed(1)} s`;
