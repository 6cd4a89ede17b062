import { currentKeys } from '../state/actions.ts';
import type { App } from '../state/directory.ts';
import type { SecretFiles } from '../state/secret-files.ts';
import type { World } from '../state/world.ts';
import type { CredentialsView } from './shapes.ts';

/** Where the control plane is reached. */
export interface PortalAddress {
  readonly url: string;
  readonly token: string | undefined;
}

/** More would exceed what a shell passes to a command. */
const MAX_KEYS = 100;

/** The settings of an integration as the text of an `.env` file: the variables of `token` and `doctor`, and more. */
export function environmentOf(
  world: World,
  app: App,
  credentials: Pick<CredentialsView, 'baseUrl' | 'clientId' | 'clientSecret' | 'accessKey'>,
  portal: PortalAddress,
  files: SecretFiles | undefined,
): string {
  const { baseUrl, clientId, clientSecret, accessKey } = credentials;
  const keys = [...currentKeys(world, app.id).values()].map(({ value }) => value);
  const lines = [
    `OTR_BASE_URL=${baseUrl}`,
    `OTR_CLIENT_ID=${clientId}`,
    `OTR_CLIENT_SECRET=${clientSecret}`,
    files && `OTR_CLIENT_SECRET_FILE=${quoted(files.clientSecret)}`,
    `OTR_ACCESS_KEY=${accessKey}`,
    keys.length <= MAX_KEYS && `OTR_ACCESS_KEYS=${keys.join(',')}`,
    files && `OTR_ACCESS_KEYS_FILE=${quoted(files.accessKeys)}`,
    `PORTAL_URL=${portal.url}`,
    portal.token !== undefined && `PORTAL_TOKEN=${portal.token}`,
  ];
  return `${lines.filter(Boolean).join('\n')}\n`;
}

/** For `sh` and for readers of `.env` files alike. */
const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path}'`);
