import { currentKeys } from '../state/world/actions.ts';
import type { ControlContext } from './context.ts';

/** More would exceed what a shell passes to a command. */
const MAX_KEYS = 100;

/**
 * The settings of an integration as the text of an `.env` file: the variables of `token` and `doctor`, and more.
 *
 * @param accessKey by default that of the first owner.
 * @param shown what stands for a secret.
 */
export function environmentOf(
  { world, url, portal, files }: ControlContext,
  accessKey?: string,
  shown = (secret: string) => secret,
): string {
  const keys = [...currentKeys(world).values()].map(({ value }) => value);
  const { url: portalUrl, token } = portal();
  const { clientId, secrets } = world.directory.client;
  const lines = [
    `OTR_BASE_URL=${url}`,
    `OTR_CLIENT_ID=${shown(clientId)}`,
    `OTR_CLIENT_SECRET=${shown(secrets[0]?.value ?? '')}`,
    files && `OTR_CLIENT_SECRET_FILE=${quoted(files.clientSecret)}`,
    `OTR_ACCESS_KEY=${shown(accessKey ?? keys[0] ?? '')}`,
    keys.length <= MAX_KEYS && `OTR_ACCESS_KEYS=${shown(keys.join(','))}`,
    files && `OTR_ACCESS_KEYS_FILE=${quoted(files.accessKeys)}`,
    `PORTAL_URL=${portalUrl}`,
    token !== undefined && `PORTAL_TOKEN=${shown(token)}`,
  ];
  return `${lines.filter(Boolean).join('\n')}\n`;
}

/** For `sh` and for readers of `.env` files alike. */
const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path}'`);
