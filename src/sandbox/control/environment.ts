import { currentKeys, firstApp } from '../state/actions.ts';
import type { App } from '../state/directory.ts';
import type { ControlContext } from './context.ts';

/** More would exceed what a shell passes to a command. */
const MAX_KEYS = 100;

/**
 * The settings of an integration as the text of an `.env` file: the variables of `token` and `doctor`, and more.
 *
 * @param accessKey one of the app's, by default the first.
 * @param shown what stands for a secret.
 */
export function environmentOf(
  { world, url, portal, files }: ControlContext,
  app: App,
  accessKey?: string,
  shown = (secret: string) => secret,
): string {
  const keys = [...currentKeys(world, app.id).values()].map(({ value }) => value);
  const { url: portalUrl, token } = portal();
  const ofFirst = app === firstApp(world) ? files : undefined;
  const lines = [
    `OTR_BASE_URL=${url}`,
    `OTR_CLIENT_ID=${shown(app.clientId)}`,
    `OTR_CLIENT_SECRET=${shown(app.secrets[0]?.value ?? '')}`,
    ofFirst && `OTR_CLIENT_SECRET_FILE=${quoted(ofFirst.clientSecret)}`,
    `OTR_ACCESS_KEY=${shown(accessKey ?? keys[0] ?? '')}`,
    keys.length <= MAX_KEYS && `OTR_ACCESS_KEYS=${shown(keys.join(','))}`,
    ofFirst && `OTR_ACCESS_KEYS_FILE=${quoted(ofFirst.accessKeys)}`,
    `PORTAL_URL=${portalUrl}`,
    token !== undefined && `PORTAL_TOKEN=${shown(token)}`,
  ];
  return `${lines.filter(Boolean).join('\n')}\n`;
}

/** For `sh` and for readers of `.env` files alike. */
const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path}'`);
