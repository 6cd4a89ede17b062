import type { LedgerKind } from '../state/ledger/ledger-entry.ts';
import type { Profile } from '../state/world/profile.ts';
import { type Answer, jsonAnswer } from './http-io.ts';
import { malformedAnswer } from './malformed-answers.ts';
import type { Refusal, TokenRequestFields } from './token-request.ts';

/** RFC 6749 §5.1 requires both on every answer that carries a token. */
const NO_STORE = { 'cache-control': 'no-store', pragma: 'no-cache' };
const TOKEN_HEADERS = { 'content-type': 'application/json', ...NO_STORE };

/**
 * A token response in the profile's shape. `usable`: whether a careful client can read the token from it.
 *
 * @param turn number of this answer; the shape `hostile` cycles through its bodies by it.
 */
export function tokenAnswer(profile: Profile, token: string, turn: number): { answer: Answer; usable: boolean } {
  const { shape, lifetimeSeconds } = profile;
  const usual = { access_token: token, token_type: 'Bearer', expires_in: lifetimeSeconds };
  switch (shape) {
    case 'rfc6749':
      return { answer: tokenJson(usual), usable: true };
    case 'minimal':
      return { answer: tokenJson({ access_token: token }), usable: true };
    case 'odd':
      return { answer: tokenJson(oddBody(profile, token)), usable: true };
    case 'hostile':
      return malformedAnswer(usual, turn);
  }
}

const tokenJson = (body: object): Answer => ({ status: 200, headers: TOKEN_HEADERS, body: JSON.stringify(body) });

function oddBody({ odd, lifetimeSeconds }: Profile, token: string): object {
  const lifetimes = { number: lifetimeSeconds, string: `${lifetimeSeconds}`, milliseconds: lifetimeSeconds * 1000 };
  const lifetime = lifetimes[odd.lifetimeAs];
  const body = odd.camelCase
    ? { accessToken: token, tokenType: 'bearer', expiresIn: lifetime }
    : { access_token: token, token_type: 'bearer', expires_in: lifetime };
  return odd.wrapped ? { data: body } : body;
}

/** An error response in the profile's form. Only `echoing` repeats the request. */
export function refusalAnswer(profile: Profile, refusal: Refusal, sent: TokenRequestFields = {}): Answer {
  const { status, error, description, field, hints } = refusal;
  const headers = { ...NO_STORE, ...refusal.headers };
  const usual = { error, error_description: description, ...(field && { field }) };
  switch (profile.errorForm) {
    case 'rfc6749':
      return jsonAnswer(status, { ...usual, ...hints }, headers);
    case 'problem': {
      const problem = { type: 'about:blank', title: error, status, detail: description };
      return jsonAnswer(status, problem, { ...headers, 'content-type': 'application/problem+json' });
    }
    case 'text':
      return { status, headers: { 'content-type': 'text/plain', ...headers }, body: description };
    case 'html':
      return { status, headers: { 'content-type': 'text/html', ...headers }, body: htmlPage(status) };
    case 'empty':
      return { status, headers, body: '' };
    case 'echoing':
      return jsonAnswer(status, { ...usual, request: sent }, headers);
  }
}

/** A plausible error response of the service: the default body of a `status` fault. */
export function errorBodyFor(kind: LedgerKind, status: number): Answer {
  if (status < 400) return { status, headers: {}, body: '' };
  if (status >= 500) return { status, headers: { 'content-type': 'text/html' }, body: htmlPage(status) };
  if (kind === 'echo') {
    const challenge: Record<string, string> =
      status === 401 ? { 'www-authenticate': 'Bearer error="invalid_token"' } : {};
    return jsonAnswer(status, { error: status === 401 ? 'invalid_token' : 'request_refused' }, challenge);
  }
  const names: Record<number, string> = { 400: 'invalid_request', 401: 'invalid_client', 403: 'access_denied' };
  return jsonAnswer(status, { error: names[status] ?? 'request_refused' });
}

const htmlPage = (status: number): string =>
  `<html><head><title>${status}</title></head><body><h1>${status}</h1></body></html>`;
