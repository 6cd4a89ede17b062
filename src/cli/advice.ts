import type { OwnerTokenError, OwnerTokenErrorCode } from '../index.ts';

/** What somebody at a terminal can do about a failure. Codes that no command can meet are left out. */
const ADVICE: Readonly<Partial<Record<OwnerTokenErrorCode, string>>> = {
  owner_refused: 'The service knows the client but not this owner. Is OTR_ACCESS_KEY current, and of this service?',
  client_refused: 'The service refused the client. Are OTR_CLIENT_ID and OTR_CLIENT_SECRET right, and current?',
  rate_limited: 'The service asks to be left alone for a while. Try again later.',
  endpoint_unavailable: 'No usable answer came. Is OTR_BASE_URL right, and can this machine reach it?',
  invalid_response: 'The service answered, but not with a token. Does OTR_BASE_URL lead to the token service?',
  redirect_refused: 'Secrets are never sent along a redirect. Set OTR_BASE_URL to where the service really is.',
  insecure_url: 'Secrets go over https, and over plain http only to this machine. Use an https address.',
  invalid_options: 'Correct what is listed above; each is read from the environment.',
  invalid_access_key: 'Set OTR_ACCESS_KEY to the access key of one owner, as the administration portal gave it.',
};

/** One sentence or two about what to do next. */
export function adviceFor(error: OwnerTokenError): string {
  return ADVICE[error.code] ?? (error.retryable ? 'Try again later.' : 'Nothing is gained by trying again unchanged.');
}
