import { OptionCheck } from '../../option-check.ts';

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

/** The legal values of each enumerated setting, for validation and for the portal. */
export const PROFILE_VALUES = {
  shape: ['rfc6749', 'minimal', 'odd', 'hostile'],
  tokenFormat: ['opaque', 'jwt'],
  errorForm: ['rfc6749', 'problem', 'text', 'html', 'empty', 'echoing'],
  revokedKey: ['invalid_grant', 'access_denied', 'not_found', 'invalid_client', 'token'],
  lifetimeAs: ['number', 'string', 'milliseconds'],
} as const;

const TEN_YEARS_S = 10 * 365.25 * 86_400;

/** A profile with these changes. Throws `invalid_options` for unknown names and invalid values. */
export function changedProfile(profile: Profile, changes: ProfileChanges): Profile {
  const check = new OptionCheck<Profile>('profile', changes as Profile, Object.keys(DEFAULT_PROFILE));
  checkProfile(check);
  check.done();
  return { ...profile, ...structuredClone(changes), odd: { ...profile.odd, ...changes.odd } };
}

/** Checks a profile, by itself or nested in other options. */
export function checkProfile(check: OptionCheck<Profile>): void {
  const oneOf = (values: readonly string[]) => (value: unknown) => values.includes(value as string);
  for (const name of ['shape', 'tokenFormat', 'errorForm', 'revokedKey'] as const) {
    check.when(name, oneOf(PROFILE_VALUES[name]), `one of ${PROFILE_VALUES[name].join(', ')}`);
  }
  for (const name of ['revokePrevious', 'revokedKeyEndsTokens'] as const) check.when(name, isBoolean, 'true or false');
  check.when('lifetimeSeconds', isLifetime, 'seconds, from 0.001 to ten years');
  check.integer('replicationLagMs', 0, 86_400_000);
  const odd = check.nested<OddShape>('odd', ['lifetimeAs', 'camelCase', 'wrapped']);
  odd?.when('lifetimeAs', oneOf(PROFILE_VALUES.lifetimeAs), `one of ${PROFILE_VALUES.lifetimeAs.join(', ')}`);
  odd?.when('camelCase', isBoolean, 'true or false');
  odd?.when('wrapped', isBoolean, 'true or false');
}

const isBoolean = (value: unknown): boolean => typeof value === 'boolean';

export const isLifetime = (value: unknown): boolean =>
  typeof value === 'number' && value >= 0.001 && value <= TEN_YEARS_S;
