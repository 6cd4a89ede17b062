import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConnectProxy } from './connect-proxy.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './loopback-certificate.ts';

/**
 * A token service behind mutual TLS, a proxy behind TLS, and the environment variables of an integration that reaches the
 * service through the proxy. One certificate plays every part.
 */
export async function startCorporateNetwork() {
  const folder = mkdtempSync(join(tmpdir(), 'otr-network-'));
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const identity = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE, ca: LOOPBACK_CERTIFICATE };
  const server = https.createServer({ ...identity, requestCert: true }, (request, response) => {
    request.resume().on('end', () => response.end(JSON.stringify({ access_token: 'issued', expires_in: 60 })));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const proxy = await ConnectProxy.start('https');
  return {
    env: {
      OTR_BASE_URL: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      HTTPS_PROXY: proxy.url,
      CA_FILE: write('ca.pem', LOOPBACK_CERTIFICATE),
      CLIENT_CERT_FILE: write('client.pem', LOOPBACK_CERTIFICATE),
      CLIENT_KEY_FILE: write('client.key', LOOPBACK_KEY),
    },
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}
