/** One access token per appliance owner. */

export type { OwnerFetch, OwnerFetchOptions } from './calling/owner-fetch.ts';
export type { Clock } from './clock.ts';
export { decoratedSource } from './decorated-source.ts';
export type { EndpointFailure } from './endpoint/classify-failure.ts';
export type { TokenEndpointOptions } from './endpoint/options.ts';
export { TokenEndpoint } from './endpoint/token-endpoint.ts';
export {
  basicAuthRequest,
  formRequest,
  jsonRequest,
  type RequestShapeOptions,
  type TokenRequestCredentials,
  type TokenRequestParts,
  type TokenRequestShape,
} from './endpoint/token-request.ts';
export {
  ERROR_CODES,
  type FailureScope,
  isOwnerTokenError,
  OwnerTokenError,
  type OwnerTokenErrorCode,
  type OwnerTokenErrorOptions,
} from './errors/owner-token-error.ts';
export type { ScrubbedCause } from './errors/scrubbed-cause.ts';
export { type LearnedLifetime, type LearnedLifetimeOptions, learnedLifetime } from './expiry/learned-lifetime.ts';
export type { ExpiryPolicy, StatedLifetime, TokenAge } from './expiry/lifetime.ts';
export {
  type ExpiresInOptions,
  expiresIn,
  firstKnown,
  fixedLifetime,
  jwtExp,
  untilRejected,
} from './expiry/policies.ts';
export type { PaceStat } from './failures/limiter.ts';
export type { PauseRange, PauseRanges } from './failures/pauses.ts';
export type { OwnerTokenRegistryOptions } from './registry/options.ts';
export type { Phase } from './registry/owners/slot.ts';
export { OwnerTokenRegistry } from './registry/registry.ts';
export type {
  KnownOwner,
  OwnerFailure,
  OwnerReport,
  OwnerState,
  OwnersOptions,
} from './registry/reports.ts';
export type { PauseStat, PauseStats, RegistryStats } from './registry/stats.ts';
export type { WarmUpFailure, WarmUpOptions, WarmUpReport } from './registry/warm-up.ts';
export type {
  LookupMessage,
  LookupOutcome,
  PauseMessage,
  RejectionMessage,
  RequestMessage,
} from './reporting/channel-messages.ts';
export type { Level, LogFunction, Logger } from './reporting/logger.ts';
export { AccessToken, type AccessTokenFields, type TokenFields } from './token.ts';
export type { IssuedToken, NewsSource, RequestReason, SourceNews, TokenRequest, TokenSource } from './token-source.ts';
