/** The groups of tenants that most scenes have. */

import { MIN, SEC, type Span, type TenantGroup } from '../../world/setting.ts';

export const tenants = (count: number, more: Partial<TenantGroup> = {}): TenantGroup => ({
  name: 'tenants',
  count,
  everyMs: 20 * SEC,
  ...more,
});

export const newcomers = (perSecond: number, more: Partial<TenantGroup> = {}): TenantGroup => ({
  name: 'newcomers',
  perSecond,
  ...more,
});

/** Owners that never get a token. */
export const dead = (count: number, more: Partial<TenantGroup> = {}): TenantGroup => ({
  name: 'dead',
  count,
  everyMs: 30 * SEC,
  ill: true,
  ...more,
});

/** The first minute, in which everybody asks for the first time. */
export const START: Span = [0, MIN];

/** Thirty seconds after a full outage. */
export const recovery = (endMs: number): Span => [endMs, endMs + 30 * SEC];
