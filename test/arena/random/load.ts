/**
 * A part of the service that fails, a service that slows down with load, or one that freezes: drawn apart, so that the world itself
 * stays the same.
 */

import { Random } from '../../helpers/random.ts';
import { during, failed, refusal, reset } from '../../world/rules.ts';
import { MIN, type Rule, SEC, type TenantGroup } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { seconds } from './draft.ts';
import { randomWorld } from './index.ts';

/** Owners of a part that fails pause for as long, and not longer than this. */
const MOST_OWNER_PAUSE_MS = 30 * SEC;
/** Begins the names of the groups that are in the part. */
const PART = 'part of ';
const FAILS = [
  ['503', refusal(503)],
  ['503', refusal(503)],
  ['500', failed],
  ['a reset', reset],
] as const;

/** The world of a seed, with one of these troubles. */
export function randomLoadWorld(seed: number): Scene {
  const world = randomWorld(seed);
  const random = new Random(seed + 9_000);
  const [said, trouble] = random.pick([failingPart, failingPart, slowsWithLoad, freezes])(random, world);
  return { ...world, ...trouble, name: `${world.name}; ${said}` };
}

type Trouble = readonly [said: string, scene: Partial<Scene>];

/** A share of the tenants gets no tokens for a while; the others are fine. */
function failingPart(random: Random, { tenants, minutes, rules }: Scene): Trouble {
  const share = random.pick([0.05, 0.2, 0.4, 0.6]);
  const [what, answer] = random.pick(FAILS);
  const fromMs = Math.round(minutes * MIN * (0.3 + 0.3 * random.next()));
  const toMs = fromMs + random.span(20 * SEC, 5 * MIN);
  const split = (group: TenantGroup): readonly TenantGroup[] => {
    const { count, perSecond } = group;
    if (group.ill || group.illFromMs !== undefined) return [group];
    const times = (of: number): Partial<TenantGroup> => ({
      ...(count !== undefined && { count: Math.round(of * count) }),
      ...(perSecond !== undefined && { perSecond: of * perSecond }),
    });
    const ill = { illFromMs: fromMs, illUntilMs: toMs + MOST_OWNER_PAUSE_MS };
    return [
      { ...group, ...times(1 - share) },
      { ...group, ...times(share), ...ill, name: `${PART}${group.name}` },
    ];
  };
  const part: Rule = ({ group }) => (group.name.startsWith(PART) ? { ...answer, unwanted: 'dead' } : undefined);
  return [
    `${100 * share} % of the tenants get ${what} for ${seconds(toMs - fromMs)}`,
    {
      tenants: tenants.flatMap(split),
      rules: () => [during([fromMs, toMs], part), ...(rules?.() ?? [])],
    },
  ];
}

/** Beyond so many requests at once, each makes the others slower. */
function slowsWithLoad(random: Random, { latencyMs = 80, lateMs = 2_000 }: Scene): Trouble {
  const [knee, exponent] = [random.span(24, 100), random.pick([1, 2, 3])];
  return [
    `slows with the ${['load', 'square of the load', 'cube of the load'][exponent - 1]} beyond ${knee} at once`,
    {
      lateMs: Math.max(lateMs, 10 * SEC),
      latencyMs: (request, service) => {
        const ms = typeof latencyMs === 'function' ? latencyMs(request, service) : latencyMs;
        return ms * Math.max(1, service.inFlight / knee) ** exponent;
      },
    },
  ];
}

/** The service answers nobody for a while, and then everybody. */
function freezes(random: Random, { latencyMs = 80, minutes }: Scene): Trouble {
  const fromMs = Math.round(minutes * MIN * (0.3 + 0.3 * random.next()));
  const toMs = fromMs + random.span(2 * SEC, 30 * SEC);
  return [
    `freezes for ${seconds(toMs - fromMs)}`,
    {
      latencyMs: (request, service) => {
        const ms = typeof latencyMs === 'function' ? latencyMs(request, service) : latencyMs;
        return request.atMs >= fromMs && request.atMs < toMs ? toMs - request.atMs + ms : ms;
      },
    },
  ];
}
