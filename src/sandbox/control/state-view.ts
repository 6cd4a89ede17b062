import type { CredentialsView, StateView } from '../api-types.ts';
import { appOf, currentKey, ownerOf } from '../state/actions.ts';
import { NotFound } from '../state/problems.ts';
import type { World } from '../state/world.ts';
import type { ControlContext } from './context.ts';
import { appViews, clockView, ownerViews, tokenView } from './views.ts';

const MAX_REQUESTS = 1000;
const MAX_TOKENS = 2000;

/** All that a page begins with. What changes after `lastEventId` comes over the event stream. */
export function stateView({ world, url, begin }: ControlContext): StateView {
  return {
    url,
    lastEventId: begin(),
    clock: clockView(world),
    summary: world.ledger.summary(),
    requests: world.ledger.entries().slice(-MAX_REQUESTS),
    tokens: [...world.tokens.entries(world.clock.now())].slice(-MAX_TOKENS).map(([, token]) => tokenView(token)),
    faults: world.faults.list(),
    profile: world.profile,
    apps: appViews(world),
    owners: ownerViews(world),
    ...(world.scenario && { scenario: world.scenario.run }),
  };
}

/** What an integration is configured with, for an owner and an app; the first of each unless told. Secrets. */
export function credentialsView(world: World, url: string, ownerId?: string, appId?: string): CredentialsView {
  const app = appOf(world, appId);
  const [firstOwner] = world.directory.owners.keys();
  const owner = ownerOf(world, ownerId ?? firstOwner ?? '');
  const key = currentKey(world, owner.id, app.id);
  if (!key) throw new NotFound('this owner has no access key for this app');
  const clientSecret = app.secrets[0]?.value ?? '';
  return { baseUrl: url, clientId: app.clientId, clientSecret, owner: owner.id, accessKey: key.value };
}
