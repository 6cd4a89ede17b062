import { DEFAULT_PROFILE, ODD, type OddShape, type Profile, SETTINGS } from './profile.ts';
import { fieldOf, type Schema } from './schema.ts';

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
  /** What the sandbox does. */
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

/** A setting with its value, in the words of the portal's form. */
function settingWord(schema: Schema, value: string | number | boolean): string {
  const { label, words } = fieldOf(schema).facts;
  return `${label}: ${words?.[`${value}`] ?? (typeof value === 'boolean' ? (value ? 'yes' : 'no') : value)}.`;
}

function statementOf(name: keyof Profile, profile: Profile): string {
  if (name !== 'odd') return settingWord(SETTINGS[name], profile[name]);
  if (profile.shape !== 'odd') return 'A successful answer has no further deviations.';
  const members = Object.entries(ODD) as [keyof OddShape, Schema][];
  return members.map(([member, schema]) => settingWord(schema, profile.odd[member])).join(' ');
}

/** The facts with these settings in force. */
export function factsOf(profile: Profile): Fact[] {
  return [
    documented('A token is requested with POST at {base_url}/auth/v1/token.'),
    documented('The request is a JSON object, sent as application/json.'),
    documented('grant_type, client_id, client_secret and appliance_owner_scope are all required, each a string.'),
    documented('grant_type must be client_credentials.'),
    documented('appliance_owner_scope is the access key between the integrator and one appliance owner.'),
    documented('A token is valid for one appliance owner: the one that the access key names.'),
    ...(Object.keys(SETTINGS) as (keyof Profile)[]).map((name) => assumed(name, statementOf(name, profile))),
    assumed(
      undefined,
      'An unknown client id or wrong secret gets 401 invalid_client; a disabled client 400 unauthorized_client.',
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
