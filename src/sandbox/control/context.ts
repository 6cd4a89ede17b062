import type { SecretFiles } from '../state/secret-files.ts';
import type { World } from '../state/world.ts';
import type { PortalAddress } from './environment.ts';

/** What the routes of the control plane have access to. */
export interface ControlContext {
  readonly world: World;
  readonly url: string;
  readonly portal: () => PortalAddress;
  readonly files: SecretFiles | undefined;
  begin(): string;
  tokenPlaneListens(): boolean;
}
