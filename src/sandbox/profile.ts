/**
 * Everything that the service's documentation is silent about, as settings. The defaults are assumptions, the likeliest
 * ones; the other values are there so that an integration can be shown not to depend on them.
 */
export interface Profile {
  /**
   * The fields of a successful answer. `rfc6749`: `access_token`, `token_type`, `expires_in`. `minimal`: the first
   * alone. `odd`: as {@link Profile.odd} says. `hostile`: a different unusable or dangerous body each time.
   */
  shape: 'rfc6749' | 'minimal' | 'odd' | 'hostile';
  odd: { lifetimeAs: 'number' | 'string' | 'milliseconds'; camelCase: boolean; wrapped: boolean };
  tokenFormat: 'opaque' | 'jwt';
  /** Seconds that a token is good for. */
  lifetimeSeconds: number;
  /** Whether a new token ends the one that its owner was given last. */
  revokePrevious: boolean;
  /** How long the resources refuse a new token, because they do not know it yet. */
  replicationLagMs: number;
  /** The body of an error. `echoing` quotes the whole request, secrets and all, as careless services do. */
  errorForm: 'rfc6749' | 'problem' | 'text' | 'html' | 'empty' | 'echoing';
  /** What a request with a revoked access key gets. `token`: one that no resource accepts. */
  revokedKey: 'invalid_grant' | 'access_denied' | 'not_found' | 'invalid_client' | 'token';
  /** Whether the tokens of a revoked access key end with it. */
  revokedKeyEndsTokens: boolean;
}

export const DEFAULT_PROFILE: Readonly<Profile> = Object.freeze({
  shape: 'rfc6749',
  odd: Object.freeze({ lifetimeAs: 'string', camelCase: true, wrapped: true }),
  tokenFormat: 'opaque',
  lifetimeSeconds: 3600,
  revokePrevious: false,
  replicationLagMs: 0,
  errorForm: 'rfc6749',
  revokedKey: 'invalid_grant',
  revokedKeyEndsTokens: true,
});
