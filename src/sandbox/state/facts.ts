import { DEFAULT_PROFILE, type Profile } from './profile.ts';

/**
 * What the sandbox does, and on what basis: `documented` by the service, or `assumed` by us. Pages and docs show these
 * labels, so that nobody mistakes an assumption for the service's behaviour.
 *
 * @example
 * ```ts
 * const assumed = FACTS.filter(({ basis }: Fact) => basis === 'assumed');
 * ```
 */
export interface Fact {
  /** Whether the service documents it. */
  readonly basis: 'documented' | 'assumed';
  /** What the sandbox does, in a sentence. */
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

const SHAPES: Readonly<Record<Profile['shape'], string>> = {
  rfc6749: 'A successful answer has the fields of RFC 6749.',
  minimal: 'A successful answer holds access_token alone.',
  odd: 'A successful answer deviates from RFC 6749.',
  hostile: 'A successful answer is malformed, differently each time.',
};

const REVOKED_KEYS: Readonly<Record<Profile['revokedKey'], string>> = {
  invalid_grant: 'A revoked access key gets 400 invalid_grant.',
  access_denied: 'A revoked access key gets 403 access_denied.',
  not_found: 'A revoked access key gets 404 not_found.',
  invalid_client: 'A revoked access key gets 401 invalid_client.',
  token: 'A revoked access key gets a token that no resource accepts.',
};

const ERROR_FORMS: Readonly<Record<Profile['errorForm'], string>> = {
  rfc6749: 'An error has the form of RFC 6749 and names the field, never its value.',
  problem: 'An error is a problem document (RFC 9457).',
  text: 'An error is plain text.',
  html: 'An error is an HTML page.',
  empty: 'An error has no body.',
  echoing: 'An error quotes the request, secrets included.',
};

function oddWords({ odd }: Profile): string {
  const lifetime = { number: 'seconds', string: 'a string of seconds', milliseconds: 'milliseconds' }[odd.lifetimeAs];
  return `Its lifetime is ${lifetime}${odd.camelCase ? ', its names are in camelCase' : ''}${odd.wrapped ? ', and all of it is wrapped in data' : ''}.`;
}

/** The facts with these settings in force. */
export function factsOf(profile: Profile): Fact[] {
  const { shape, lifetimeSeconds, replicationLagMs } = profile;
  return [
    documented('A token is requested with POST at {base_url}/auth/v1/token.'),
    documented('The request is a JSON object, sent as application/json.'),
    documented('grant_type, client_id, client_secret and appliance_owner_scope are all required, each a string.'),
    documented('grant_type must be client_credentials.'),
    documented('appliance_owner_scope is the access key between the integrator and one appliance owner.'),
    documented('A token is valid for one appliance owner: the one that the access key names.'),
    assumed('acceptForms', `A form gets ${profile.acceptForms ? 'a token, too' : '415'}.`),
    assumed('shape', SHAPES[shape]),
    assumed('odd', shape === 'odd' ? oddWords(profile) : 'A successful answer has no further deviations.'),
    assumed('tokenFormat', profile.tokenFormat === 'jwt' ? 'A token is a JWT.' : 'A token is opaque.'),
    assumed('lifetimeSeconds', `A token is valid for ${lifetimeSeconds} seconds.`),
    assumed(
      'revokePrevious',
      `A new token ${profile.revokePrevious ? 'revokes' : 'does not affect'} the earlier ones of its owner.`,
    ),
    assumed(
      'replicationLagMs',
      `Resources accept a new token ${replicationLagMs > 0 ? `after ${replicationLagMs} ms` : 'at once'}.`,
    ),
    assumed('errorForm', ERROR_FORMS[profile.errorForm]),
    assumed('revokedKey', REVOKED_KEYS[profile.revokedKey]),
    assumed(
      'revokedKeyEndsTokens',
      `The tokens of a revoked access key ${profile.revokedKeyEndsTokens ? 'end with it' : 'stay valid'}.`,
    ),
    assumed(
      undefined,
      'An unknown client id or wrong secret gets 401 invalid_client; a disabled app 400 unauthorized_client.',
    ),
    assumed(undefined, 'A token is presented as Authorization: Bearer; without a live one a resource answers 401.'),
    assumed(undefined, 'Requests are not limited; a body may have at most 16 KiB.'),
  ];
}

/**
 * The facts with the default settings.
 *
 * @example
 * ```ts
 * console.log(FACTS[0]?.statement); // → A token is requested with POST at {base_url}/auth/v1/token.
 * ```
 */
export const FACTS: readonly Fact[] = Object.freeze(factsOf(DEFAULT_PROFILE));
