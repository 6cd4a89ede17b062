import type { AccessKey } from '../state/world/directory.ts';
import type { Profile } from '../state/world/profile.ts';
import type { World } from '../state/world/world.ts';
import type { Refusal, TokenRequestFields } from './token-request.ts';

/**
 * The refusal for a token request, if it must be refused. Checks the client first, so that an unknown client learns
 * nothing about owners: unknown client id, wrong secret, disabled client. Then the access key: unknown, revoked
 * (answered as the profile says), disabled, and its owner disabled.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function refusalOf(
  { directory, profile, clock }: World,
  { client_id, client_secret = '' }: TokenRequestFields,
  accessKey: AccessKey | undefined,
): Refusal | undefined {
  const { client, owners } = directory;
  if (client_id !== client.clientId) return invalidClient('client_id', 'is unknown');
  if (!directory.acceptsSecret(client_secret, clock.now())) {
    return invalidClient('client_secret', 'is not the secret of this client');
  }
  if (!client.enabled) {
    return { status: 400, error: 'unauthorized_client', description: 'the client is disabled', field: 'client_id' };
  }
  if (!accessKey) return invalidGrant('is not a known access key');
  if (accessKey.revoked) return revokedKey(profile);
  if (!accessKey.enabled) return invalidGrant('is a disabled access key');
  if (!owners.get(accessKey.ownerId)?.enabled) return invalidGrant('belongs to a disabled owner');
  return undefined;
}

function invalidClient(field: string, problem: string): Refusal {
  return { status: 401, error: 'invalid_client', description: `${field} ${problem}`, field };
}

function invalidGrant(problem: string): Refusal {
  const field = 'appliance_owner_scope';
  return { status: 400, error: 'invalid_grant', description: `${field} ${problem}`, field };
}

function revokedKey(profile: Profile): Refusal | undefined {
  const field = 'appliance_owner_scope';
  const description = `${field} is a revoked access key`;
  switch (profile.revokedKey) {
    case 'invalid_grant':
      return { status: 400, error: 'invalid_grant', description, field };
    case 'access_denied':
      return { status: 403, error: 'access_denied', description, field };
    case 'not_found':
      return { status: 404, error: 'not_found', description, field };
    case 'invalid_client':
      return { status: 401, error: 'invalid_client', description, field };
    case 'token':
      return undefined;
  }
}
