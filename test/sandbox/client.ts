import http from 'node:http';
import net from 'node:net';
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

/** What came over a socket, byte for byte, and how the connection ended. */
export interface RawReply {
  text: string;
  end: 'fin' | 'reset' | 'refused';
}

/** Sends bytes on a new connection and reads all there is until it ends. */
export function raw(url: string, request: string): Promise<RawReply> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let text = '';
    let end: RawReply['end'] = 'fin';
    const socket = net.connect(Number(port), hostname, () => socket.write(request));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      end = error.code === 'ECONNREFUSED' ? 'refused' : 'reset';
    });
    socket.on('close', () => resolve({ text, end }));
  });
}

/** The token request of {@link askToken} as bytes, on a connection that is to be closed after it. */
export function rawTokenRequest(sandbox: Sandbox, accessKey = sandbox.accessKeys[0]): string {
  const { clientId: client_id, clientSecret: client_secret } = sandbox;
  const fields = { grant_type: 'client_credentials', client_id, client_secret, appliance_owner_scope: accessKey };
  const body = JSON.stringify(fields);
  const length = Buffer.byteLength(body);
  const head = `POST /auth/v1/token HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\ncontent-type: application/json\r\n`;
  return `${head}content-length: ${length}\r\n\r\n${body}`;
}
