import { type Answer, jsonAnswer } from './http-io.ts';
import type { LedgerKind } from './ledger.ts';
import type { Profile } from './profile.ts';
import type { Refusal } from './token-request.ts';

/** RFC 6749 §5.1 asks for both on every answer that carries a token. */
const NO_STORE = { 'cache-control': 'no-store', pragma: 'no-cache' };

/** The answer that carries a token. */
export function tokenAnswer(_profile: Profile, token: string, lifetimeSeconds: number): Answer {
  return jsonAnswer(200, { access_token: token, token_type: 'Bearer', expires_in: lifetimeSeconds }, NO_STORE);
}

/** The answer that says why there is none. */
export function refusalAnswer(_profile: Profile, refusal: Refusal): Answer {
  const { status, error, description, field, hints, headers } = refusal;
  const body = { error, error_description: description, ...(field && { field }), ...hints };
  return jsonAnswer(status, body, { ...NO_STORE, ...headers });
}

/** An error of the service itself, as it might look: the body of a fault that was given none. */
export function errorBodyFor(kind: LedgerKind, status: number): Answer {
  if (status < 400) return { status, headers: {}, body: '' };
  if (status >= 500) {
    const body = `<html><head><title>${status}</title></head><body><h1>${status}</h1></body></html>`;
    return { status, headers: { 'content-type': 'text/html' }, body };
  }
  if (kind === 'echo') {
    const challenge: Record<string, string> =
      status === 401 ? { 'www-authenticate': 'Bearer error="invalid_token"' } : {};
    return jsonAnswer(status, { error: status === 401 ? 'invalid_token' : 'request_refused' }, challenge);
  }
  const names: Record<number, string> = { 400: 'invalid_request', 401: 'invalid_client', 403: 'access_denied' };
  return jsonAnswer(status, { error: names[status] ?? 'request_refused' });
}
