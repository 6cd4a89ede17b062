import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConnectProxy } from './connect-proxy.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './loopback-certificate.ts';
import { startTlsService } from './tls-service.ts';

/**
 * A token service behind mutual TLS, a proxy behind TLS, and the environment variables of an integration that reaches the
 * service through the proxy.
 */
export async function startCorporateNetwork() {
  const folder = mkdtempSync(join(tmpdir(), 'otr-network-'));
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const service = await startTlsService({ mutual: true });
  const proxy = await ConnectProxy.start('https');
  return {
    env: {
      OTR_BASE_URL: service.baseUrl,
      HTTPS_PROXY: proxy.url,
      CA_FILE: write('ca.pem', LOOPBACK_CERTIFICATE),
      CLIENT_CERT_FILE: write('client.pem', LOOPBACK_CERTIFICATE),
      CLIENT_KEY_FILE: write('client.key', LOOPBACK_KEY),
    },
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    },
  };
}
