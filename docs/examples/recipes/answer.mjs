import { isOwnerTokenError } from 'owner-token-registry';

/** Calls the API with `registry.ownerFetch(accessKey)`, and passes its response on. If there is none, the answer says why. */
export async function answerOf(call, url, warn) {
  try {
    // Longer than the endpoint's `timeoutMs` (10 s), so that a slow token service fails with an error that says so.
    const response = await call(url, { signal: AbortSignal.timeout(15_000) });
    // A 401 of yours would log your caller out.
    if (response.status === 401) return jsonAnswer(502, { error: 'api_unauthorized' });
    const headers = { 'content-type': response.headers.get('content-type') ?? 'text/plain' };
    return { status: response.status, headers, body: await response.text() };
  } catch (error) {
    // The registry logs a failed token request itself, once for all calls that get this error.
    if (!isOwnerTokenError(error) || error.failureScope === undefined) warn(error);
    return answerTo(error);
  }
}

export function answerTo(error) {
  // The token service or the API did not respond in time.
  if (error instanceof Error && error.name === 'TimeoutError') return jsonAnswer(504, { error: 'timeout' });
  // The API cannot be reached: `fetch` rejects with errors of its own.
  if (!isOwnerTokenError(error)) return jsonAnswer(502, { error: 'api_unreachable' });
  if (!error.retryable) return jsonAnswer(502, { error: error.code });
  // The service's rate limit becomes a 503 too: 429 would blame your caller.
  const waitMs = (error.retryAtMs ?? Date.now() + 1_000) - Date.now();
  const headers = { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1_000))) };
  return jsonAnswer(503, { error: error.code }, headers);
}

export function jsonAnswer(status, body, headers = {}) {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
}
