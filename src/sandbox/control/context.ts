import type { World } from '../state/world.ts';

/** What every route of the control plane works on. */
export interface ControlContext {
  readonly world: World;
  readonly url: string;
  begin(): string;
  tokenPlaneListens(): boolean;
}
