import corpus from '../corpus.json' with { type: 'json' };
import type { Target } from '../target.ts';
import { controlPlane } from './control-plane.ts';
import { errorBodies } from './error-bodies.ts';
import { jwts } from './jwts.ts';
import { liveViewRequests } from './live-view.ts';
import { redisRecords } from './redis-records.ts';
import { retryAfters } from './retry-after.ts';
import { tokenResponses, wireResponses } from './token-responses.ts';

export const TARGETS = [
  tokenResponses,
  wireResponses,
  errorBodies,
  retryAfters,
  jwts,
  redisRecords,
  controlPlane,
  liveViewRequests,
] as unknown as readonly Target<unknown>[];

/** Inputs that once showed a defect. */
export const CORPUS: readonly { target: string; was: string; input: unknown }[] = corpus;
