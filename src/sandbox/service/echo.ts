import type { LedgerEntry, Outcome } from '../state/ledger/ledger-entry.ts';
import type { TokenState } from '../state/world/tokens.ts';
import { type Answer, jsonAnswer } from './http-io.ts';

/** The header that names the owner, by id, for whom the caller means to act. */
export const EXPECTED_OWNER = 'x-expected-owner';

/** The token of an `Authorization: Bearer` header. That tokens are presented this way (RFC 6750) is an assumption. */
export function bearerOf(authorization: string | undefined): string | undefined {
  return /^bearer +([\x21-\x7e]+)$/i.exec(authorization ?? '')?.[1];
}

interface EchoResult {
  readonly answer: Answer;
  readonly outcome: Outcome;
  readonly facts: Partial<LedgerEntry>;
}

/**
 * The protected resource's answer: 401 without a live token, otherwise 200 with the token's owner, flagged when the
 * caller expected another.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6750#section-3 RFC 6750 §3}
 */
export function echo(
  state: TokenState | 'absent',
  owner: string | undefined,
  expected: string | undefined,
): EchoResult {
  if (state !== 'live' || owner === undefined) return unauthorized(state);
  if (expected === undefined || expected === owner) {
    return { answer: jsonAnswer(200, { owner }), outcome: 'accepted', facts: { status: 200 } };
  }
  const answer = jsonAnswer(200, { owner, wrongOwner: true });
  return { answer, outcome: 'wrong_owner', facts: { status: 200, error: 'wrong_owner' } };
}

function unauthorized(state: TokenState | 'absent'): EchoResult {
  if (state === 'absent') {
    const answer = jsonAnswer(401, { error: 'unauthorized' }, { 'www-authenticate': 'Bearer realm="sandbox"' });
    return { answer, outcome: 'rejected', facts: { status: 401, error: 'no_token' } };
  }
  const challenge = { 'www-authenticate': 'Bearer realm="sandbox", error="invalid_token"' };
  const answer = jsonAnswer(401, { error: 'invalid_token' }, challenge);
  return { answer, outcome: 'rejected', facts: { status: 401, error: `token_${state}` } };
}
