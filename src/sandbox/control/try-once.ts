import http from 'node:http';
import type { CredentialsView, TryView } from './shapes.ts';

/** The timeout, by the machine's clock, and how much of an answer is shown. */
const TIMEOUT_MS = 5000;
const SHOWN_CHARACTERS = 2000;
const MAX_BYTES = 65_536;

/** Sends one real token request, and one call to the echo resource with its token, for a page's "try it" button. */
export async function tryOnce(credentials: CredentialsView): Promise<TryView> {
  const { baseUrl, clientId, clientSecret, accessKey } = credentials;
  const fields = {
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    appliance_owner_scope: accessKey,
  };
  const headers = { 'content-type': 'application/json' };
  try {
    const reply = await exchange(`${baseUrl}/auth/v1/token`, 'POST', headers, JSON.stringify(fields));
    const token = tokenIn(reply.body);
    const body = masked(reply.body, [token ?? '', clientSecret, accessKey]).slice(0, SHOWN_CHARACTERS);
    if (token === undefined) return { status: reply.status, body };
    const echo = await exchange(`${baseUrl}/echo`, 'GET', { authorization: `Bearer ${token}` });
    const echoOwner = /"owner":"([\w-]+)"/.exec(echo.body)?.[1];
    return { status: reply.status, body, echoStatus: echo.status, ...(echoOwner !== undefined && { echoOwner }) };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return { socketError: typeof code === 'string' ? code : 'timeout', body: '' };
  }
}

function exchange(url: string, method: string, headers: http.OutgoingHttpHeaders, sent?: string) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const req = http.request(url, { method, headers, agent: false, signal }, (res) => {
      let body = '';
      res.setEncoding('utf8');
      res.on('data', (chunk: string) => {
        if (body.length < MAX_BYTES) body += chunk;
        else res.destroy();
      });
      res.on('error', reject);
      res.on('close', () => resolve({ status: res.statusCode ?? 0, body }));
    });
    req.on('error', reject);
    req.end(sent);
  });
}

/** The token, in any shape of the profile; undefined if there is none that a header can carry. */
function tokenIn(body: string): string | undefined {
  return /"access_?[tT]oken":"([\x21\x23-\x5b\x5d-\x7e]{1,4000})"/.exec(body)?.[1];
}

function masked(body: string, secrets: string[]): string {
  let shown = body;
  for (const secret of secrets) if (secret !== '') shown = shown.replaceAll(secret, '•••');
  return shown.replace(/sbx_[\w-]{16,}/g, '•••');
}
