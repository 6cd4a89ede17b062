import type { AccessKeyView, AppView, ClockView, OwnerView, TokenView } from '../api-types.ts';
import type { AccessKey, App, Owner } from '../state/directory.ts';
import type { Secrets } from '../state/secrets.ts';
import type { IssuedToken } from '../state/tokens.ts';
import type { World } from '../state/world.ts';

/** How the world is told to the outside: ids and fingerprints, no secrets. */

export function clockView({ clock }: World): ClockView {
  return { nowMs: clock.now(), frozen: clock.frozen };
}

export function tokenView(token: IssuedToken): TokenView {
  const { fingerprint, accessKey, issuedAtMs, expiresAtMs, revokedAtMs } = token;
  const { ownerId: owner, appId: app } = accessKey;
  return { fingerprint, owner, app, issuedAtMs, expiresAtMs, ...(revokedAtMs !== undefined && { revokedAtMs }) };
}

export function appView(app: App, secrets: Secrets): AppView {
  const { id, name, enabled, clientId } = app;
  return {
    id,
    name,
    enabled,
    clientId,
    secrets: app.secrets.map(({ value, goodUntilMs }) => ({
      fingerprint: secrets.fingerprint(value),
      ...(goodUntilMs !== undefined && { goodUntilMs }),
    })),
  };
}

export function appViews({ directory, secrets }: World): AppView[] {
  return [...directory.apps.values()].map((app) => appView(app, secrets));
}

export function ownerView(owner: Owner, keys: AccessKey[]): OwnerView {
  const { id, name, enabled } = owner;
  return { id, name, enabled, accessKeys: keys.map(accessKeyView) };
}

export function ownerViews({ directory }: World): OwnerView[] {
  const keys = new Map<string, AccessKey[]>();
  for (const key of directory.accessKeys.values()) {
    const ofOwner = keys.get(key.ownerId);
    if (ofOwner) ofOwner.push(key);
    else keys.set(key.ownerId, [key]);
  }
  return [...directory.owners.values()].map((owner) => ownerView(owner, keys.get(owner.id) ?? []));
}

function accessKeyView({ id, appId: app, fingerprint, enabled, revoked }: AccessKey): AccessKeyView {
  return { id, app, fingerprint, enabled, revoked };
}
