/**
 * What may be wrong with the machine that the client runs on, and with a service that keeps tokens: drawn apart, so that the world
 * itself stays the same.
 */

import { Random } from '../../helpers/random.ts';
import { HOUR, MIN, SEC, type Span } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { seconds } from './draft.ts';
import { randomWorld } from './index.ts';

const DAY = 24 * HOUR;

/** The world of a seed, with clocks that differ, a process that stands still, or tokens that are repeated to their end. */
export function randomMachineWorld(seed: number): Scene {
  const world = randomWorld(seed);
  const random = new Random(seed + 8_000);
  const first = random.below(3);
  const has = (trouble: number) => trouble === first || random.chance(0.3);
  const said: string[] = [];
  let scene = world;
  if (has(0)) {
    const clockAheadMs = random.span(MIN, DAY) * random.pick([1, -1]);
    scene = { ...scene, clockAheadMs };
    said.push(`the service's clock is ${seconds(clockAheadMs)} ahead`);
  }
  if (has(1)) {
    const standstills = drawStandstills(random, world.minutes * MIN);
    scene = { ...scene, standstills };
    said.push(...standstills.map(([fromMs, toMs]) => `the process stands still for ${seconds(toMs - fromMs)}`));
  }
  // A service that repeats tokens which it has revoked would serve nobody.
  if (has(2) && !world.api) {
    scene = { ...scene, repeatsTokens: true, api: () => [] };
    said.push('each token is repeated to its end');
  }
  return { ...scene, name: `${world.name}; ${said.join(', ')}` };
}

function drawStandstills(random: Random, lengthMs: number): readonly Span[] {
  return Array.from({ length: 1 + random.below(3) }, (_, index) => {
    const fromMs = Math.round((lengthMs * (index + 0.2 + 0.6 * random.next())) / 3);
    return [fromMs, fromMs + random.span(2 * SEC, Math.min(2 * MIN, lengthMs / 15))];
  });
}
