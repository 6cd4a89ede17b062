import type * as v from 'valibot';
import { between, boolean, checked, field, integer, maybe, object, oneOf, type Schema } from './schema.ts';

/**
 * Settings for everything that the service does not document. The defaults are the most likely assumptions; the other values
 * serve to test that an integration does not depend on them.
 *
 * @example
 * ```ts
 * const { lifetimeSeconds, shape }: Profile = sandbox.profile;
 * console.log(lifetimeSeconds, shape); // → 3600 rfc6749
 * ```
 */
export interface Profile {
  /** Whether a token request may also be a form, with client id and secret in it or in HTTP Basic (RFC 6749 §2.3.1). */
  acceptForms: boolean;
  /**
   * The fields of a successful answer. `rfc6749`: `access_token`, `token_type`, `expires_in`. `minimal`: only
   * the first. `odd`: see {@link Profile.odd}. `hostile`: cycles through unusable or dangerous bodies.
   */
  shape: 'rfc6749' | 'minimal' | 'odd' | 'hostile';
  /** How the shape `odd` differs from RFC 6749. */
  odd: OddShape;
  /** Whether a token is a random string or a JWT. */
  tokenFormat: 'opaque' | 'jwt';
  /** Lifetime of a token in seconds: from 0.001 to ten years. */
  lifetimeSeconds: number;
  /** Whether a new token revokes its owner's previous one. */
  revokePrevious: boolean;
  /** How long resources refuse a new token because it has not reached them yet: up to a day. */
  replicationLagMs: number;
  /** The body of an error. `echoing` quotes the request, secrets included, as careless services do. */
  errorForm: 'rfc6749' | 'problem' | 'text' | 'html' | 'empty' | 'echoing';
  /** What a request with a revoked access key gets. `token`: one that no resource accepts. */
  revokedKey: 'invalid_grant' | 'access_denied' | 'not_found' | 'invalid_client' | 'token';
  /** Whether the tokens of a revoked access key end with it. */
  revokedKeyEndsTokens: boolean;
}

/**
 * How the shape `odd` differs from RFC 6749.
 *
 * @example
 * ```ts
 * const odd: OddShape = { lifetimeAs: 'milliseconds', camelCase: true, wrapped: false };
 * sandbox.setProfile({ shape: 'odd', odd });
 * ```
 */
export interface OddShape {
  /** The lifetime of an hour as `3600`, `"3600"`, or `3600000`. */
  lifetimeAs: 'number' | 'string' | 'milliseconds';
  /** `accessToken` instead of `access_token`, and so on. */
  camelCase: boolean;
  /** Wraps the whole body in `data`. */
  wrapped: boolean;
}

/**
 * Any part of a profile.
 *
 * @example
 * ```ts
 * const changes: ProfileChanges = { revokePrevious: true, replicationLagMs: 200 };
 * sandbox.setProfile(changes);
 * ```
 */
export interface ProfileChanges extends Partial<Omit<Profile, 'odd'>> {
  /** Any part of the odd shape. */
  odd?: Partial<OddShape>;
}

export const DEFAULT_PROFILE: Readonly<Profile> = Object.freeze({
  acceptForms: false,
  shape: 'rfc6749',
  odd: Object.freeze({ lifetimeAs: 'string', camelCase: true, wrapped: true } as const),
  tokenFormat: 'opaque',
  lifetimeSeconds: 3600,
  revokePrevious: false,
  replicationLagMs: 0,
  errorForm: 'rfc6749',
  revokedKey: 'invalid_grant',
  revokedKeyEndsTokens: true,
});

/** The schema of a setting with a fixed choice. `words`: by value. */
const choice = <const Word extends string>(label: string, words: Readonly<Record<Word, string>>) =>
  field(oneOf(Object.keys(words) as Word[]), { label, words });

export const LIFETIME = between(0.001, 10 * 365.25 * 86_400, 'seconds, from 0.001 to ten years');

export const ODD = {
  lifetimeAs: choice('Lifetime as', {
    number: 'Number of seconds',
    string: 'String of seconds',
    milliseconds: 'Number of milliseconds',
  }),
  camelCase: field(boolean, { label: 'Names in camelCase' }),
  wrapped: field(boolean, { label: 'Wrapped in data' }),
};

/** The settings with what the portal's form shows for them. */
export const SETTINGS = {
  acceptForms: field(boolean, { label: 'Forms and HTTP Basic are accepted too' }),
  shape: choice('Response fields', {
    rfc6749: 'As RFC 6749',
    minimal: 'Minimal: token alone',
    odd: 'Odd: different from RFC 6749',
    hostile: 'Hostile: malformed, in turn',
  }),
  odd: object(ODD),
  tokenFormat: choice('Token format', { opaque: 'Opaque', jwt: 'JWT' }),
  lifetimeSeconds: field(LIFETIME, { label: 'Lifetime in seconds' }),
  replicationLagMs: field(integer(0, 86_400_000), { label: 'Replication lag in milliseconds' }),
  revokePrevious: field(boolean, { label: 'A new token revokes the previous one' }),
  errorForm: choice('Error format', {
    rfc6749: 'RFC 6749',
    problem: 'Problem details',
    text: 'Plain text',
    html: 'HTML',
    empty: 'Empty body',
    echoing: 'Quotes the request, secrets included',
  }),
  revokedKey: choice('A revoked access key gets', {
    invalid_grant: '400 invalid_grant',
    access_denied: '403 access_denied',
    not_found: '404 not_found',
    invalid_client: '401 invalid_client',
    token: 'A token that no resource accepts',
  }),
  revokedKeyEndsTokens: field(boolean, { label: 'Revoking an access key ends its tokens' }),
};

/** The members of an object, each of which may be absent. */
const partial = <const Entries extends Record<string, Schema>>(entries: Entries) =>
  object(
    Object.fromEntries(Object.entries(entries).map(([name, schema]) => [name, maybe(schema)])) as {
      [Name in keyof Entries]: v.ExactOptionalSchema<Entries[Name], undefined>;
    },
  );

export const PROFILE_CHANGES = partial({ ...SETTINGS, odd: partial(ODD) });

/** A profile with these changes. Throws `invalid_options` for unknown names and invalid values. */
export function changedProfile(profile: Profile, given: ProfileChanges): Profile {
  const changes = checked('profile', PROFILE_CHANGES, given);
  return { ...profile, ...changes, odd: { ...profile.odd, ...changes.odd } };
}
