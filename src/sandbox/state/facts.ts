import type { Profile } from './profile.ts';

/**
 * What the sandbox does, and on what grounds: `documented` is in the service's documentation, `assumed` is ours. Pages
 * and docs show these labels, so that nobody takes an assumption for the service's word.
 */
export interface Fact {
  readonly basis: 'documented' | 'assumed';
  readonly statement: string;
  /** The setting that changes an assumption. */
  readonly setting?: keyof Profile;
}

const documented = (statement: string): Fact => ({ basis: 'documented', statement });
const assumed = (setting: keyof Profile | undefined, statement: string): Fact => ({
  basis: 'assumed',
  statement,
  ...(setting && { setting }),
});

export const FACTS: readonly Fact[] = Object.freeze([
  documented('A token is requested with POST at {base_url}/auth/v1/token.'),
  documented('The request is a JSON object, sent as application/json.'),
  documented('grant_type, client_id, client_secret and appliance_owner_scope are all required, each a string.'),
  documented('grant_type must be client_credentials.'),
  documented('appliance_owner_scope is the access key between the integrator and one appliance owner.'),
  documented('A token is good for one appliance owner: the one that the access key names.'),
  assumed('shape', 'The fields of a successful answer are those of RFC 6749.'),
  assumed('odd', 'Where they are not: how the lifetime is written, and how the fields are named and wrapped.'),
  assumed('tokenFormat', 'A token is opaque.'),
  assumed('lifetimeSeconds', 'A token is good for an hour.'),
  assumed('revokePrevious', 'A new token leaves the earlier ones of its owner alone.'),
  assumed('replicationLagMs', 'A new token is accepted at once.'),
  assumed('errorForm', 'An error has the form of RFC 6749; and a field is named, never quoted.'),
  assumed('revokedKey', 'A revoked access key gets 400 invalid_grant.'),
  assumed('revokedKeyEndsTokens', 'The tokens of a revoked access key end with it.'),
  assumed(
    undefined,
    'An unknown client id or wrong secret gets 401 invalid_client; a disabled app 400 unauthorized_client.',
  ),
  assumed(undefined, 'A token is presented as Authorization: Bearer; without a live one a resource answers 401.'),
  assumed(undefined, 'There is no limit on requests; a body may be at most 16 KiB.'),
]);
