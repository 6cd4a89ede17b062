import http from 'node:http';
import type { Sandbox } from '../../src/sandbox/index.ts';

export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
  json: any;
}

export interface Call {
  method?: string;
  headers?: http.OutgoingHttpHeaders;
  body?: string | Buffer;
  agent?: http.Agent;
}

/** One request on a connection of its own, with nothing added by a clever client. Rejects when the socket fails. */
export function call(url: string, { method = 'GET', headers = {}, body, agent }: Call = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const req = http.request(url, { method, headers, agent: agent ?? false }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('error', reject);
      res.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text, json: parsed(text) });
      });
    });
    req.on('error', reject);
    req.end(body);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The token request of the documentation, with any field replaced or (undefined) left out. */
export function askToken(
  sandbox: Sandbox,
  accessKey = sandbox.accessKeys[0],
  changes: object = {},
  agent?: http.Agent,
) {
  const fields = {
    grant_type: 'client_credentials',
    client_id: sandbox.clientId,
    client_secret: sandbox.clientSecret,
    appliance_owner_scope: accessKey,
    ...changes,
  };
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify(fields);
  return call(`${sandbox.url}/auth/v1/token`, { method: 'POST', headers, body, ...(agent && { agent }) });
}

export async function tokenFor(sandbox: Sandbox, accessKey = sandbox.accessKeys[0]): Promise<string> {
  return (await askToken(sandbox, accessKey)).json.access_token;
}

export function echo(sandbox: Sandbox, token: string, headers: http.OutgoingHttpHeaders = {}): Promise<Reply> {
  return call(`${sandbox.url}/echo`, { headers: { authorization: `Bearer ${token}`, ...headers } });
}
