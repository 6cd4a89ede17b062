/** What the API of a random world does with tokens that are good: drawn apart, so that the world itself stays the same. */

import { Random } from '../../helpers/random.ts';
import { type ApiRule, MIN } from '../../world/setting.ts';
import type { Scene } from '../scene.ts';
import { seconds } from './draft.ts';
import { randomWorld } from './index.ts';

/** Of a random number and the age of the token. */
type Refuses = (atMs: number, ageMs: number, random: () => number) => boolean;

/** The world of a seed, with an API that refuses some calls for no fault of their tokens. */
export function randomApiWorld(seed: number): Scene {
  const world = randomWorld(seed);
  const random = new Random(seed + 7_000);
  const [said, refuses] = drawTrouble(random, world.minutes * MIN);
  return {
    ...world,
    name: `${world.name}; API: ${said}`,
    refusesGoodTokens: true,
    api: () => [...(world.api?.() ?? []), refusesGood(refuses)],
  };
}

/** Refuses a token although it is alive. */
const refusesGood =
  (refuses: Refuses): ApiRule =>
  (call, service) => {
    const { atMs, token } = call;
    return token && service.isAlive(call) && refuses(atMs, atMs - token.issuedMs, service.random) ? 401 : undefined;
  };

function drawTrouble(random: Random, lengthMs: number): [said: string, refuses: Refuses] {
  const share = random.pick([0.005, 0.02, 0.1, 0.3]);
  const fromMs = lengthMs * (0.3 + 0.3 * random.next());
  const untilMs = fromMs + Math.min(lengthMs / 4, random.span(1_000, 10 * MIN));
  const lateMs = random.span(100, 5_000);
  const during = (refuses: Refuses): Refuses => {
    return (atMs, ...rest) => atMs >= fromMs && atMs < untilMs && refuses(atMs, ...rest);
  };
  const lasts = `for ${seconds(untilMs - fromMs)}`;
  switch (random.below(4)) {
    case 0:
      return [`accepts tokens ${lateMs} ms after issue`, (_atMs, ageMs) => ageMs < lateMs];
    case 1:
      return [`refuses all ${lasts}`, during(() => true)];
    case 2:
      return [`refuses ${90 * share + 60} % ${lasts}`, during((_atMs, _ageMs, next) => next() < 0.9 * share + 0.6)];
    default:
      return [`refuses ${100 * share} % always`, (_atMs, _ageMs, next) => next() < share];
  }
}
