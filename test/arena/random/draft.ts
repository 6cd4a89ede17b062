/** A world that is being drawn. */

import type { Random } from '../../helpers/random.ts';
import { MIN, type Rule, SEC, type Span, type TenantGroup } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';

export interface Draft {
  readonly random: Random;
  /** What the world is made of, for its name. */
  readonly said: string[];
  minutes: number;
  tokenLifeS: number;
  tenants: TenantGroup[];
  latencyMs: NonNullable<Scene['latencyMs']>;
  lateMs: number;
  revokesPrevious?: true;
  api?: NonNullable<Scene['api']>;
  /** Rules in the order in which they decide; those that keep count come last. */
  readonly failures: Rule[];
  readonly limits: (() => Rule)[];
  readonly uncounted: Span[];
  ideal?: number;
  longOutage?: true;
}

/** A time in the middle of the world. */
export const drawMoment = ({ random, minutes }: Draft): number =>
  Math.round(minutes * MIN * (0.3 + 0.3 * random.next()));

/** Calls may take as long as this. */
export function allowMs(draft: Draft, ms: number): void {
  draft.lateMs = Math.round(Math.max(draft.lateMs, ms));
}

/** The requests a second if no tenant had a token. */
export function callsPerSecond({ tenants }: Draft): number {
  return tenants.reduce((sum, { perSecond = 0, count = 0, everyMs }) => {
    return sum + perSecond + (everyMs === undefined ? 0 : (count * SEC) / everyMs);
  }, 0);
}

/** What tokens leave of them. */
export function requestsPerSecond({ tenants, tokenLifeS }: Draft): number {
  return tenants.reduce((sum, { perSecond = 0, count = 0, everyMs = 1 }) => {
    return sum + perSecond + (count * SEC) / Math.max(everyMs, tokenLifeS * SEC);
  }, 0);
}

/**
 * Tenants ask for their first token at any time within a token's life, and tokens end several times in the world. If all ended
 * at once, only luck would decide who has renewed them just before an outage.
 *
 * @returns whether that could be done: not for tenants that start together, or call in batches.
 */
export function spreadStarts(draft: Draft): boolean {
  draft.tokenLifeS = Math.min(draft.tokenLifeS, Math.round((draft.minutes * MIN) / 4 / SEC));
  if (draft.tenants.some(({ pattern, burstMs }) => pattern ?? burstMs)) return false;
  const burstMs = draft.tokenLifeS * SEC;
  draft.tenants = draft.tenants.map((group) => (group.count ? { ...group, burstMs } : group));
  return true;
}

export const seconds = (ms: number) => `${Math.round(ms / SEC)} s`;
