/** The world as the control plane shows it: ids and fingerprints, no secrets. */

import { groupedBy } from '../state/ledger/grouped-by.ts';
import type { AccessKey, Owner } from '../state/world/directory.ts';
import type { IssuedToken } from '../state/world/tokens.ts';
import type { World } from '../state/world/world.ts';
import type { AccessKeyView, ClientView, ClockView, FiguresView, OwnerView, TokenView } from './shapes.ts';

export function clockView({ clock }: World): ClockView {
  return { nowMs: clock.now(), frozen: clock.frozen };
}

export function tokenView(token: IssuedToken): TokenView {
  const { fingerprint, accessKey, issuedAtMs, expiresAtMs, revokedAtMs } = token;
  const owner = accessKey.ownerId;
  return { fingerprint, owner, issuedAtMs, expiresAtMs, ...(revokedAtMs !== undefined && { revokedAtMs }) };
}

export function clientView({ directory, secrets }: World): ClientView {
  const { clientId, enabled, secrets: given } = directory.client;
  return {
    clientId,
    enabled,
    secrets: given.map(({ value, validUntilMs }) => ({
      fingerprint: secrets.fingerprint(value),
      ...(validUntilMs !== undefined && { validUntilMs }),
    })),
  };
}

export function figuresView({ ledger, tokens, clock, directory }: World): FiguresView {
  return {
    total: ledger.count(),
    tokenRequests: ledger.count({ kind: 'token' }),
    wasted: ledger.wasted,
    inFlight: ledger.tokensInFlight,
    owners: directory.owners.size,
    ownersAsked: ledger.ownersAsked,
    ownersCovered: tokens.ownersCovered(clock.now()),
  };
}

/** These owners with their access keys and counts. */
export function ownerViews(world: World, owners: Iterable<Owner> = world.directory.owners.values()): OwnerView[] {
  const keys = groupedBy(world.directory.accessKeys.values(), ({ ownerId }) => ownerId);
  const covered = world.tokens.coveredOwners(world.clock.now());
  return [...owners].map(({ id, name, enabled }) => {
    const coveredUntilMs = covered.get(id);
    return {
      id,
      name,
      enabled,
      accessKeys: (keys.get(id) ?? []).map(accessKeyView),
      tokenRequests: world.ledger.count({ kind: 'token', owner: id }),
      ...(coveredUntilMs !== undefined && { coveredUntilMs }),
    };
  });
}

function accessKeyView({ id, fingerprint, enabled, revoked }: AccessKey): AccessKeyView {
  return { id, fingerprint, enabled, revoked };
}
