/** One access token per appliance owner. */

export type { OwnerFetch, OwnerFetchOptions } from './calling/owner-fetch.ts';
export type { Clock } from './clock.ts';
export type {
  LookupMessage,
  LookupOutcome,
  PauseMessage,
  RejectionMessage,
  RequestMessage,
} from './diagnostics.ts';
export type { EndpointFailure } from './endpoint/classify-failure.ts';
export type { TokenEndpointOptions } from './endpoint/options.ts';
export { TokenEndpoint } from './endpoint/token-endpoint.ts';
export {
  ERROR_CODES,
  type FailureScope,
  isOwnerTokenError,
  OwnerTokenError,
  type OwnerTokenErrorCode,
  type OwnerTokenErrorOptions,
  type ScrubbedCause,
} from './errors.ts';
export {
  type LearnedLifetime,
  type LearnedLifetimeOptions,
  type LearnedLifetimeSnapshot,
  type LearnedLifetimeStats,
  learnedLifetime,
} from './expiry/learned-lifetime.ts';
export type { ExpiryPolicy, TokenAge } from './expiry/lifetime.ts';
export {
  type ExpiresInOptions,
  expiresIn,
  firstKnown,
  fixedLifetime,
  jwtExp,
  untilRejected,
} from './expiry/policies.ts';
export type { PauseRange } from './failures/backoff.ts';
export type { PauseRanges } from './failures/failure-scopes.ts';
export type { Level, Logger } from './logger.ts';
export type { OwnerTokenRegistryOptions } from './registry/options.ts';
export { OwnerTokenRegistry } from './registry/registry.ts';
export type { Phase } from './registry/slot.ts';
export type { OwnerState, PauseStat, RegistryStats } from './registry/stats.ts';
export type { WarmUpOptions, WarmUpReport } from './registry/warm-up.ts';
export {
  AccessToken,
  type IssuedToken,
  type RequestPermit,
  type RequestReason,
  type TokenRequest,
  type TokenSource,
} from './token.ts';
