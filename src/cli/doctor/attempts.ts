/** Which shape of the token request the doctor tries next, and which refusal tells most. Pure. */

import type { OwnerTokenError } from '../../index.ts';
import { type Credentials, splitAtOrigin } from '../environment.ts';
import { ENCODINGS, type Encoding, type RequestShape } from '../request-shape.ts';

/** One way to ask for a token. */
export interface Attempt {
  readonly credentials: Credentials;
  readonly encoding: Encoding;
}

/** An attempt that was refused. */
export interface Refusal extends Attempt {
  readonly error: OwnerTokenError;
}

/**
 * The first attempt, or the one after these refusals; undefined if a refusal concerns the owner or the service's state, or nothing
 * is left to try. An address without a token endpoint is tried once more as a complete token URL.
 */
export function nextAttempt(
  credentials: Credentials,
  given: RequestShape,
  refusals: readonly Refusal[],
): Attempt | undefined {
  const last = refusals.at(-1);
  const first = given.encoding ?? 'json';
  if (!last) return { credentials, encoding: first };
  if (isNoEndpoint(last.error)) {
    const split = last.credentials === credentials ? asTokenUrl(credentials) : undefined;
    return split && { credentials: split, encoding: first };
  }
  if (given.encoding !== undefined || !mayExpectOther(last.error)) return undefined;
  const encoding = ENCODINGS[ENCODINGS.indexOf(last.encoding) + 1];
  return encoding && { credentials: last.credentials, encoding };
}

const isNoEndpoint = ({ status }: Pick<OwnerTokenError, 'status'>): boolean => status === 404 || status === 405;

function asTokenUrl(credentials: Credentials): Credentials | undefined {
  const split = credentials.tokenPath === undefined ? splitAtOrigin(credentials.baseUrl) : undefined;
  return split && { ...credentials, ...split };
}

/** The codes of a service that has read the request. */
const HAS_READ: readonly (string | undefined)[] = [
  ...['invalid_grant', 'invalid_scope', 'access_denied', 'unauthorized_client'],
  ...['temporarily_unavailable', 'server_error', 'slow_down'],
];

/** Whether a service that refuses in this way may expect another encoding. Some answer 500 to what they cannot parse. */
function mayExpectOther({ status = 0, oauthError }: OwnerTokenError): boolean {
  const isRefusal = (status >= 400 && status < 500 && ![407, 408, 421, 425, 429].includes(status)) || status === 500;
  return isRefusal && !HAS_READ.includes(oauthError);
}

/** The refusal by the service that understood most of its request; the first one of equals. */
export function mostTelling<R extends Refusal>(refusals: readonly R[]): R {
  return refusals.reduce((best, next) => (weightOf(next.error) > weightOf(best.error) ? next : best));
}

function weightOf({ status, oauthError }: OwnerTokenError): number {
  if (HAS_READ.includes(oauthError)) return 3;
  if (oauthError === 'invalid_client') return 2;
  const isUnread = status === 415 || status === 500 || isNoEndpoint({ status });
  return isUnread || oauthError === 'invalid_request' || oauthError === 'unsupported_grant_type' ? 0 : 1;
}

const WORDS: Readonly<Record<Encoding, string>> = { json: 'JSON', form: 'a form', basic: 'HTTP Basic' };

/** What an attempt sends, in words. */
export const wordsFor = ({ encoding }: Pick<Attempt, 'encoding'>): string => WORDS[encoding];

/** ` HTTP Basic was tried as well: 415.` for each refusal but the one that is reported. */
export function othersIn(refusals: readonly Refusal[], reported: Refusal): string {
  const others = refusals.filter((each) => each !== reported);
  const texts = others.map(({ error, ...attempt }) => {
    const place = attempt.credentials === reported.credentials ? '' : ' at the other address';
    return `${wordsFor(attempt)}${place} (${error.oauthError ?? error.status ?? 'no answer'})`;
  });
  return texts.length === 0 ? '' : ` Tried as well: ${texts.join(', ')}.`;
}
