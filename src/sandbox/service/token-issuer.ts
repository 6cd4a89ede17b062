import type { AccessKey, App, Directory } from '../state/directory.ts';
import type { Profile } from '../state/profile.ts';
import type { Refusal, TokenRequestFields } from './token-request.ts';

/** Whom a token request is about, as far as its fields are known; what is wrong with them is another question. */
export interface Parties {
  readonly app: App | undefined;
  readonly accessKey: AccessKey | undefined;
}

export function partiesOf(directory: Directory, fields: TokenRequestFields): Parties {
  return {
    app: fields.client_id === undefined ? undefined : directory.findApp(fields.client_id),
    accessKey:
      fields.appliance_owner_scope === undefined ? undefined : directory.findAccessKey(fields.appliance_owner_scope),
  };
}

/**
 * Whether these parties may have a token: the refusal if not. The client is asked first, as nothing about owners is told
 * to one that is not known: unknown client id, wrong secret, disabled app. Then the access key: unknown, of another app,
 * disabled, revoked (what that gets is a profile), and its owner disabled.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-5.2 RFC 6749 §5.2}
 */
export function refuseParties(
  { app, accessKey }: Parties,
  secretIsGood: boolean,
  directory: Directory,
  profile: Profile,
): Refusal | undefined {
  if (!app) return invalidClient('client_id', 'is not known');
  if (!secretIsGood) return invalidClient('client_secret', 'is not the secret of this app');
  if (!app.enabled) {
    return { status: 400, error: 'unauthorized_client', description: 'the app is disabled', field: 'client_id' };
  }
  if (!accessKey) return invalidGrant('is not a known access key');
  if (accessKey.appId !== app.id) return invalidGrant('is the access key of another app');
  if (accessKey.revoked) return revokedKey(profile);
  if (!accessKey.enabled) return invalidGrant('is an access key that is disabled');
  if (!directory.owners.get(accessKey.ownerId)?.enabled) return invalidGrant('is of an owner who is disabled');
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
  const description = `${field} is an access key that was revoked`;
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
