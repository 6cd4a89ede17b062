/** Requests at the live view, in both of its forms. */

import { once } from 'node:events';
import { createServer, IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import fc from 'fast-check';
import { OwnerTokenRegistry } from '../../../src/index.ts';
import { liveView } from '../../../src/live-view/index.ts';
import { leaksIn, SECRETS } from '../../helpers/canaries.ts';
import { ManualClock } from '../../helpers/manual-clock.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';
import { echoesOf, jsonOf, mostly, mutated, plainTexts, texts } from '../inputs.ts';
import { must, type Target } from '../target.ts';

const STATUSES = [200, 308, 400, 403, 404, 405, 415];
/** Those of Node's own parser, for what is no HTTP. */
const WIRE_STATUSES = [...STATUSES, 408, 413, 417, 431];

const names = ['origin', 'host', 'sec-fetch-site', 'x-forwarded-host', 'cookie', 'accept-encoding'];
const others = fc.oneof(fc.constantFrom('same-origin', 'cross-site', 'null', 'http://host', 'host'), plainTexts);
const headers = fc
  .tuple(
    mostly(fc.constant('application/json'), plainTexts),
    fc.dictionary(fc.constantFrom(...names), others, { maxKeys: 2 }),
  )
  .map(([type, rest]): Record<string, string> => ({ 'content-type': String(type), ...rest }));
const requests = fc.record({
  method: fc.constantFrom('GET', 'GET', 'POST', 'POST', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'QUERY'),
  path: fc.oneof(
    fc.constantFrom('/', '/t', '/t/', '/t/events', '/t/search', '/t/search', '/t/live-view.js', '/t/live-view.css'),
    // An answer may name the path that was asked for.
    mutated(fc.constantFrom('/t/search', '/t/events', '//evil.example/t/', '/t/../../x', '/t/%2e%2e/'), plainTexts),
  ),
  headers,
  body: fc.oneof(
    jsonOf({ text: mostly(texts), accessKey: mostly(echoesOf(SECRETS.accessKey)) }),
    texts,
    fc.nat(120_000).map((length) => `{"text":"${'x'.repeat(length)}"}`),
  ),
  /** Damage to the bytes, where they are sent over a socket. */
  cut: fc.option(fc.record({ at: fc.nat(), put: plainTexts }), { nil: undefined, freq: 2 }),
  /** The form in which another visitor leaves while `authorize` decides. */
  leaver: fc.constantFrom('fetch', 'node'),
});

type Request_ = typeof requests extends fc.Arbitrary<infer T> ? T : never;

function mustBeHarmless(text: string, status: number, allowed: readonly number[]): void {
  must(allowed.includes(status), `it answers with ${status}`);
  must(leaksIn(text).length === 0, 'the answer holds a secret');
  must(!text.includes('\n    at '), 'the answer holds a stack');
}

/** The answer of the `fetch` form; undefined if the platform cannot make this request. */
async function askFetch(fetch: (request: Request) => Promise<Response>, { method, path, headers, body }: Request_) {
  let request: Request;
  try {
    const hasBody = !['GET', 'HEAD'].includes(method);
    request = new Request(`http://host${path}`, { method, headers, ...(hasBody && { body }) });
  } catch {
    return;
  }
  const answer = await fetch(request);
  const isStream = answer.headers.get('content-type') === 'text/event-stream';
  const reader = answer.body?.getReader();
  let text = '';
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    text += Buffer.from(part.value).toString();
    if (isStream) break;
  }
  await reader?.cancel();
  mustBeHarmless(text + JSON.stringify([...answer.headers]), answer.status, STATUSES);
}

function bytesOf({ method, path, headers, body, cut }: Request_): string {
  const lines = Object.entries({
    connection: 'close',
    host: 'host',
    ...headers,
    'content-length': Buffer.byteLength(body),
  });
  const text = `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
  if (!cut) return text;
  const from = cut.at % text.length;
  return text.slice(0, from) + cut.put + text.slice(from);
}

/** What arrives until the server ends the connection, or has begun a stream. The client ends it after its bytes. */
function askNode(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.end(bytes));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (/^content-type: text\/event-stream/im.test(text) && text.includes('data: ')) socket.destroy();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
}

type Authorize = (request: IncomingMessage | Request) => Promise<boolean>;

/** Opens a page that leaves while `authorize` decides. Resolves when that has been decided. */
function leaveEarly(
  form: Request_['leaver'],
  fetch: (request: Request) => Promise<Response>,
  port: number,
  decideBy: (authorize: Authorize) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const client = new AbortController();
    const socket = form === 'node' ? connect(port, '127.0.0.1') : undefined;
    decideBy(async (request) => {
      const left = request instanceof IncomingMessage ? once(request.socket, 'close') : undefined;
      client.abort();
      socket?.destroy();
      await left;
      setImmediate(resolve);
      return true;
    });
    socket?.write('GET /t/events HTTP/1.1\r\nhost: host\r\n\r\n');
    if (!socket) void fetch(new Request('http://host/t/events', { signal: client.signal }));
  });
}

export const liveViewRequests: Target<Request_> = {
  name: 'live view',
  inputs: requests,
  async open() {
    const clock = new ManualClock();
    const source = new ScriptedSource((call) => call.succeed({ token: SECRETS.token, response: { expires_in: 3600 } }));
    const registry = new OwnerTokenRegistry({ source, clock, ownerLabel: () => 'customer' });
    await registry.getToken(SECRETS.accessKey);
    const allow: Authorize = async () => true;
    let decide = allow;
    const view = liveView(registry, { clock, authorize: (request) => decide(request), accessKeySearch: true });
    const server = createServer(view.node).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    return {
      async check(input) {
        await askFetch(view.fetch, input);
        const text = await askNode(port, bytesOf(input));
        const status = /^HTTP\/1\.1 (\d{3})/.exec(text)?.[1];
        if (status !== undefined) mustBeHarmless(text, Number(status), WIRE_STATUSES);
        await leaveEarly(input.leaver, view.fetch, port, (authorize) => {
          decide = authorize;
        });
        decide = allow;
        const later = await view.fetch(new Request('http://host/t/events'));
        await later.body?.cancel();
        must(later.status === 200, 'no place is left for another page');
      },
      async close() {
        server.closeAllConnections();
        server.close();
        await registry.close();
      },
    };
  },
};
