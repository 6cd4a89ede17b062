/** Who calls, how often, and for how long. */

import { MIN, SEC, type TenantGroup } from '../../world/setting.ts';
import { allowMs, callsPerSecond, type Draft, requestsPerSecond, seconds } from './draft.ts';

/** A world takes about a second: what it may cost. */
const MOST_CALLS = 40_000;
const MOST_REQUESTS = 10_000;
/** Fewer calls would show more of chance than of what is compared. */
const LEAST_CALLS = 3_000;
const MOST_SECONDS = 2_700;

export function drawClientele(draft: Draft): void {
  const { random } = draft;
  const kind = random.pick(['known', 'known', 'tiers', 'newcomers', 'both', 'cold start', 'batch', 'few'] as const);
  const count = random.span(40, 600);
  /** The share of the time in which they call. */
  let active = 1;
  switch (kind) {
    case 'known':
    case 'both':
      add(draft, { count, everyMs: random.span(3 * SEC, 3 * MIN) });
      break;
    case 'tiers':
      // A few tenants make most of the calls.
      add(draft, { name: 'large', count: Math.ceil(count / 20), everyMs: random.span(SEC, 5 * SEC) });
      add(draft, { name: 'middle', count: Math.ceil(count / 4), everyMs: random.span(20 * SEC, MIN) });
      add(draft, { name: 'small', count, everyMs: random.span(2 * MIN, 15 * MIN) });
      break;
    case 'cold start': {
      const everyMs = random.span(20 * SEC, 2 * MIN);
      add(draft, { count: 5 * count, everyMs, burstMs: random.span(SEC, 30 * SEC) });
      allowMs(draft, 15 * SEC); // Whoever makes 32 requests at once needs as long.
      break;
    }
    case 'batch': {
      const [periodMs, activeMs] = [random.span(2 * MIN, 10 * MIN), random.span(30 * SEC, 2 * MIN)];
      const pattern = (ms: number) => ms % periodMs < activeMs;
      active = Math.min(1, activeMs / periodMs);
      add(draft, { count, everyMs: random.span(3 * SEC, 30 * SEC), pattern });
      draft.said.push(`for ${seconds(activeMs)} of each ${seconds(periodMs)}`);
      break;
    }
    case 'few':
      add(draft, { count: random.span(3, 30), everyMs: random.span(SEC, 10 * SEC) });
      break;
    case 'newcomers':
      break;
  }
  if (kind === 'newcomers') addNewcomers(draft, random.span(10, 4_000) / 100);
  if (kind === 'both') addNewcomers(draft, random.span(10, 500) / 100);
  draft.minutes = drawMinutes(draft, active);
}

function drawMinutes(draft: Draft, active: number): number {
  const calls = callsPerSecond(draft) * active;
  const most = Math.min(MOST_CALLS / calls, MOST_REQUESTS / requestsPerSecond(draft), MOST_SECONDS);
  const wanted = Math.max(LEAST_CALLS / calls, draft.random.span(6, 30) * 60);
  return Math.ceil(Math.min(most, wanted) / 60) + 2;
}

function add({ tenants, said }: Draft, { name = 'tenants', ...group }: Partial<TenantGroup>): void {
  tenants.push({ name, ...group });
  const { count, everyMs = 0, burstMs } = group;
  const burst = burstMs === undefined ? '' : ` and first within ${seconds(burstMs)}`;
  said.push(`${count} ${name} every ${seconds(everyMs)}${burst}`);
}

function addNewcomers({ tenants, said }: Draft, perSecond: number): void {
  tenants.push({ name: 'newcomers', perSecond });
  said.push(`${perSecond} newcomers a second`);
}
