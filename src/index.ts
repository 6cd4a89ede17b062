/** One access token per appliance owner. */

export type { Clock } from './clock.ts';
export type {
  Level,
  Logger,
  LookupMessage,
  LookupOutcome,
  PauseMessage,
  RejectionMessage,
  RequestMessage,
} from './diagnostics.ts';
export type { EndpointFailure } from './endpoint-failures.ts';
export type { TokenEndpointOptions } from './endpoint-options.ts';
export {
  ERROR_CODES,
  type FailureScope,
  OwnerTokenError,
  type OwnerTokenErrorCode,
  type OwnerTokenErrorOptions,
  type ScrubbedCause,
} from './errors.ts';
export {
  type ExpiresInOptions,
  type ExpiryPolicy,
  expiresIn,
  firstKnown,
  fixedLifetime,
  jwtExp,
  type TokenAge,
  untilRejected,
} from './expiry.ts';
export type { PauseRange } from './gate.ts';
export {
  type LearnedLifetime,
  type LearnedLifetimeOptions,
  type LearnedLifetimeSnapshot,
  type LearnedLifetimeStats,
  learnedLifetime,
} from './learned-lifetime.ts';
export type { OwnerFetch, OwnerFetchOptions } from './owner-fetch.ts';
export { OwnerTokenRegistry } from './registry.ts';
export type { OwnerTokenRegistryOptions } from './registry-options.ts';
export type { OwnerState, PauseStat, RegistryStats } from './report.ts';
export { AccessToken, type RequestReason, type TokenGrant, type TokenRequest, type TokenSource } from './token.ts';
export { TokenEndpoint } from './token-endpoint.ts';
export type { WarmUpOptions, WarmUpReport } from './warm-up.ts';
