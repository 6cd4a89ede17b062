import type { World } from '../state/world.ts';

/** What the routes of the control plane have access to. */
export interface ControlContext {
  readonly world: World;
  readonly url: string;
  begin(): string;
  tokenPlaneListens(): boolean;
}
