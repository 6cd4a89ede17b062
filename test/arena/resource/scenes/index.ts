import type { ApiScene } from '../scene.ts';
import { bothPlanesScenes } from './both-planes.ts';
import { deadTokenScenes } from './dead-tokens.ts';
import { lateTokenScenes } from './late-tokens.ts';
import { refusingApiScenes } from './refusing-api.ts';
import { routeAndOwnerScenes } from './routes-and-owners.ts';

/** All scenes in which the API misbehaves, by what goes wrong in them. */
export const API_SCENES: Readonly<Record<string, readonly ApiScene[]>> = {
  'Tokens accepted late': lateTokenScenes,
  'An API that refuses': refusingApiScenes,
  'Routes and owners': routeAndOwnerScenes,
  'Tokens that die': deadTokenScenes,
  'Both planes': bothPlanesScenes,
};
