import type { Scene } from '../scene.ts';
import { batchScenes } from './batches.ts';
import { deadKeyScenes } from './dead-keys.ts';
import { latencyScenes } from './latency.ts';
import { limitScenes } from './limits.ts';
import { loneFailureScenes } from './lone-failures.ts';
import { notJudgedScenes } from './not-judged.ts';
import { oneTenantScenes } from './one-tenant.ts';
import { outageScenes } from './outages.ts';
import { tokenUseScenes } from './token-use.ts';

/** All scenes, by what goes wrong in them. */
export const SCENES: Readonly<Record<string, readonly Scene[]>> = {
  'One tenant out of order': oneTenantScenes,
  'Lone failures': loneFailureScenes,
  'Dead keys': deadKeyScenes,
  Outages: outageScenes,
  Limits: limitScenes,
  Batches: batchScenes,
  'Latency and volume': latencyScenes,
  'Use of tokens': tokenUseScenes,
  'Not judged': notJudgedScenes,
};
