import type { SecretFiles } from '../state/world/secret-files.ts';
import type { World } from '../state/world/world.ts';

/** Where the control plane is reached. */
export interface PortalAddress {
  readonly url: string;
  readonly token: string | undefined;
}

/** What the routes of the control plane have access to. */
export interface ControlContext {
  readonly world: World;
  readonly url: string;
  readonly portal: () => PortalAddress;
  readonly files: SecretFiles | undefined;
  tokenPlaneListens(): boolean;
}
