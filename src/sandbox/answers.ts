import { type Answer, jsonAnswer } from './http-io.ts';
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
