/** The token request that a team writes itself beside a general cache: global `fetch`, ten seconds, no retry. */

export async function requestToken({ tokenUrl, clientId, clientSecret }, accessKey) {
  const response = await fetch(tokenUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret,
      appliance_owner_scope: accessKey,
    }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw Object.assign(new Error(`the token endpoint answered ${response.status}`), { status: response.status });
  }
  const { access_token: token, expires_in: expiresIn } = await response.json();
  if (typeof token !== 'string' || token === '') throw new Error('the token endpoint answered without a token');
  return { token, lifetimeMs: lifetimeMsOf(expiresIn) };
}

/** What most code does with `expires_in`: a number of seconds, less ten; five minutes without a usable one. */
export function lifetimeMsOf(expiresIn) {
  const seconds = Number(expiresIn);
  return seconds > 0 ? Math.max(1_000, seconds * 1_000 - 10_000) : 300_000;
}
