import type { OwnerTokenError, OwnerTokenErrorCode } from '../index.ts';

/** The next step for each code that a command can meet. */
const ADVICE: Readonly<Partial<Record<OwnerTokenErrorCode, string>>> = {
  owner_refused:
    'The service accepts the client but refuses this owner. Is OTR_ACCESS_KEY current, and for this service?',
  client_refused: 'The service refuses the client. Check OTR_CLIENT_ID and OTR_CLIENT_SECRET.',
  rate_limited: 'Too many requests. Try again later.',
  endpoint_unavailable: 'No usable response was received. Is OTR_BASE_URL right, and can this machine reach it?',
  invalid_response: 'The response holds no token. Does OTR_BASE_URL point to the token service?',
  redirect_refused: 'Secrets are never sent to a redirect target. Set OTR_BASE_URL to the final address.',
  invalid_access_key: 'Set OTR_ACCESS_KEY to the access key of one owner, from the administration portal.',
};

/** One or two sentences about what to do next. */
export function adviceFor(error: OwnerTokenError): string {
  return ADVICE[error.code] ?? (error.retryable ? 'Try again later.' : 'It will fail again unless something changes.');
}
