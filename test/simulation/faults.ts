/** What can go wrong with a request in a simulated world, and the error that a registry gets for it. */

import { type FailureScope, OwnerTokenError } from '../../src/index.ts';
import type { Random } from '../helpers/random.ts';
import { MARK } from './emissions.ts';

export const FAULTS = [
  'hang',
  'unreached',
  'reset',
  'refused-without-code',
  'refused',
  'invalid-client',
  'rate-limited',
  'rate-limited-for',
  'broken',
  'unusable',
  'redirect',
  'no-grant',
  'foreign-error',
  'strange-error',
  'throws',
  'secret-throws',
  'given-owner',
  'given-client',
  'given-endpoint',
  'same-again',
  'dead-on-arrival',
] as const;

/** `wrong-owner` is there to see that the simulation can fail: no world has it unless told. */
export type Fault = (typeof FAULTS)[number] | 'wrong-owner' | undefined;

const throwing = {
  get: () => {
    throw new Error(MARK);
  },
};

/** Values that throw when they are looked at, or claim to be what they are not. */
export const STRANGE_ERRORS: readonly (() => unknown)[] = [
  () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  },
  () => new Proxy(new OwnerTokenError('rate_limited', 'answered 429'), throwing),
  () => Object.defineProperty(new OwnerTokenError('client_refused', 'answered 401'), 'code', throwing),
  () => Object.defineProperty(new OwnerTokenError('owner_refused', 'answered 400'), 'message', { value: 7 }),
  () => Object.assign(Object.create(null), { code: 'client_refused', failureScope: 'client' }),
  () => Symbol(MARK),
];

/** The scope at which a source puts a failure on purpose. */
export function givenScopeOf(fault: Fault): FailureScope | undefined {
  if (fault === 'given-owner') return 'owner';
  if (fault === 'given-client') return 'client';
  return fault === 'given-endpoint' ? 'endpoint' : undefined;
}

export const timedOut = () => new OwnerTokenError('endpoint_unavailable', 'the token endpoint did not respond in time');

/** The error of the endpoint, or of a user source, for each fault that is one. */
const ERRORS: { readonly [F in NonNullable<Fault>]?: (accessKey: string, random: Random) => unknown } = {
  unreached: () => new OwnerTokenError('endpoint_unavailable', 'no connection'),
  reset: (accessKey) =>
    new OwnerTokenError('endpoint_unavailable', 'the connection broke', { cause: new Error(accessKey) }),
  'refused-without-code': (accessKey) =>
    new OwnerTokenError('owner_refused', `answered 403 to ${accessKey}`, { status: 403 }),
  refused: () => new OwnerTokenError('owner_refused', 'answered 400', { status: 400, oauthError: 'invalid_grant' }),
  'invalid-client': () =>
    new OwnerTokenError('client_refused', 'answered 401', { status: 401, oauthError: 'invalid_client' }),
  'rate-limited': () => new OwnerTokenError('rate_limited', 'answered 429', { status: 429 }),
  'rate-limited-for': (_, random) =>
    new OwnerTokenError('rate_limited', 'answered 429', {
      status: 429,
      retryAfterMs: random.pick([0, -5, 1_000, 2_000, 30_000, 1e12, Number.NaN, Number.POSITIVE_INFINITY]),
    }),
  broken: () => new OwnerTokenError('endpoint_unavailable', 'answered 503', { status: 503 }),
  unusable: () => new OwnerTokenError('invalid_response', 'the answer cannot be used'),
  redirect: () => new OwnerTokenError('redirect_refused', 'answered 302', { status: 302 }),
  'foreign-error': (accessKey, random) =>
    random.pick<unknown>([new Error(`${MARK} ${accessKey}`), accessKey, undefined, { message: accessKey }]),
  'secret-throws': () =>
    new OwnerTokenError('source_failed', 'the client secret could not be read', { cause: new Error(MARK) }),
  'given-owner': () =>
    new OwnerTokenError('endpoint_unavailable', 'this owner has no such shard', { failureScope: 'owner' }),
  'given-client': () => new OwnerTokenError('client_refused', 'the vault is sealed', { failureScope: 'client' }),
  'given-endpoint': () => new OwnerTokenError('endpoint_unavailable', 'maintenance', { failureScope: 'endpoint' }),
};

/** What a source rejects with for a fault; undefined if the response is a token, or none. */
export function failureFor(fault: Fault, accessKey: string, random: Random): { error: unknown } | undefined {
  const errorFor = fault && ERRORS[fault];
  return errorFor && { error: errorFor(accessKey, random) };
}
