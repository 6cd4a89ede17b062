import { once } from 'node:events';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './loopback-certificate.ts';

const ISSUED = { access_token: 'issued', token_type: 'Bearer', expires_in: 60 };

/**
 * A token service behind TLS, which demands a client certificate if it is mutual. Anything but a POST is a call of its API,
 * and needs the token. One certificate plays the CA, the service and the client.
 */
export async function startTlsService({ mutual }: { mutual: boolean }) {
  /** Of each request: whether its client has shown a good certificate. */
  const clients: boolean[] = [];
  const identity = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE, ca: LOOPBACK_CERTIFICATE };
  const server = https.createServer(
    { ...identity, requestCert: mutual, rejectUnauthorized: mutual },
    (request, response) => {
      clients.push((request.socket as TLSSocket).authorized);
      const isIn = request.method === 'POST' || request.headers.authorization === 'Bearer issued';
      request.resume().on('end', () => response.writeHead(isIn ? 200 : 401).end(JSON.stringify(ISSUED)));
    },
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    clients,
    host,
    baseUrl: `https://${host}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
