/**
 * A token service that is far away: a connection to it takes a second. Its queue of new connections is full when the first callers
 * come, so that their SYNs are dropped, and the kernel repeats them a second later.
 */

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { connect } from 'node:net';

const FULL_MS = 600;

const digest = (key) => createHash('sha256').update(key).digest('hex').slice(0, 16);

function accessKeyOf(text) {
  const fields = text.startsWith('{') ? JSON.parse(text) : Object.fromEntries(new URLSearchParams(text));
  return fields.appliance_owner_scope ?? decodeURIComponent(fields.scope);
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const token = `tk.${digest(accessKeyOf(Buffer.concat(chunks).toString()))}.0`;
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 3_600 }));
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  const { port } = server.address();
  process.send(port, () => {
    for (let n = 0; n < 6; n++) connect(port, '127.0.0.1').on('error', () => {});
    // They are made in the ticks that follow, and accepted only when this process runs again.
    process.nextTick(() =>
      process.nextTick(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_MS)),
    );
  });
});
process.on('disconnect', () => process.exit());
