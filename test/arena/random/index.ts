/**
 * Scenes drawn from a seed: what may go wrong in production, in combinations that nobody chose. Nothing here is tuned to an
 * implementation. Times and numbers are drawn on a logarithmic scale, because those of services differ by orders of magnitude.
 */

import { Random } from '../../helpers/random.ts';
import { revokeAll } from '../../world/api-rules.ts';
import type { Scene } from '../scene.ts';
import { drawClientele } from './clientele.ts';
import { type Draft, drawMoment } from './draft.ts';
import { drawLatency } from './latency.ts';
import { drawTroubles } from './troubles.ts';

/** The world of a seed. */
export function randomWorld(seed: number): Scene {
  const random = new Random(seed);
  const draft: Draft = {
    random,
    said: [],
    tokenLifeS: random.span(30, 3_600),
    minutes: 0,
    tenants: [],
    latencyMs: 0,
    lateMs: 2_000,
    failures: [],
    limits: [],
    uncounted: [],
  };
  drawClientele(draft);
  drawLatency(draft);
  drawTroubles(draft);
  drawTokenUse(draft);
  const { random: _random, said, failures, limits, ...scene } = draft;
  return {
    ...scene,
    name: `world ${seed}: ${said.join('; ')}; tokens of ${scene.tokenLifeS} s`,
    rules: () => [...failures, ...limits.map((make) => make())],
  };
}

/** In one world in five, calls use their token, and tokens are revoked. */
function drawTokenUse(draft: Draft): void {
  if (draft.ideal !== undefined) return;
  const use = draft.random.next();
  if (use < 0.1) {
    draft.revokesPrevious = true;
    draft.api = () => [];
    draft.said.push('each token revokes the one before');
  } else if (use < 0.2) {
    const forgottenMs = drawMoment(draft);
    draft.api = () => [revokeAll(forgottenMs)];
    draft.said.push('all tokens revoked at once');
  }
}
