/** The recipes of `docs/networking.md`: a proxy, a private CA and a client certificate, alone and combined. */

import { spawn } from 'node:child_process';
import https from 'node:https';
import { join } from 'node:path';
import { HttpsProxyAgent } from 'https-proxy-agent';
import { Agent, ProxyAgent, fetch as undiciFetch } from 'undici';
import { describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint, type TokenEndpointOptions } from '../../src/index.ts';
import { ConnectProxy } from '../helpers/connect-proxy.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../helpers/loopback-certificate.ts';
import { errorOf } from '../helpers/registries.ts';
import { ROOT } from '../helpers/source-files.ts';
import { startTlsService } from '../helpers/tls-service.ts';

const CREDENTIALS = { clientId: 'app', clientSecret: 'canary-client-secret' };
/** One certificate plays the CA, the service and the client. */
const CA = { ca: LOOPBACK_CERTIFICATE };
const CLIENT = { cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY };

type Transport = Pick<TokenEndpointOptions, 'agent' | 'fetch'>;

const viaUndici = (dispatcher: Agent | ProxyAgent): Transport => ({
  fetch: ((url: string, init: object) => undiciFetch(url, { ...init, dispatcher })) as unknown as typeof fetch,
});

async function tokenOver(baseUrl: string, transport: Transport): Promise<string> {
  await using registry = new OwnerTokenRegistry({
    source: new TokenEndpoint({ baseUrl, ...CREDENTIALS, ...transport }),
  });
  const token = await registry.getToken('owner').catch((error: { code: string }) => error.code);
  return typeof token === 'string' ? token : token.value;
}

describe('without a proxy', () => {
  const transports: Record<string, Transport> = {
    agent: { agent: new https.Agent({ keepAlive: true, ...CA, ...CLIENT }) },
    'fetch of undici': viaUndici(new Agent({ connect: { ...CA, ...CLIENT } })),
  };
  for (const [name, transport] of Object.entries(transports)) {
    it(`${name} trusts a private CA and presents a client certificate`, async () => {
      await using service = await startTlsService({ mutual: true });
      expect(await tokenOver(service.baseUrl, transport)).toBe('issued');
      expect(service.clients).toEqual([true]);
    });
  }

  it('a private CA is enough unless the service demands a client certificate', async () => {
    await using open = await startTlsService({ mutual: false });
    await using mutual = await startTlsService({ mutual: true });
    const agent = new https.Agent({ keepAlive: true, ...CA });
    expect(await tokenOver(open.baseUrl, { agent })).toBe('issued');
    expect(await tokenOver(open.baseUrl, {})).toBe('endpoint_unavailable');
    expect(await tokenOver(mutual.baseUrl, { agent })).toBe('endpoint_unavailable');
  });
});

describe('behind a proxy', () => {
  const transports: Record<string, (proxy: string) => Transport> = {
    'https-proxy-agent': (proxy) => {
      const agent = new HttpsProxyAgent(proxy, { keepAlive: true, ...CA });
      Object.assign(agent.options, CA, CLIENT);
      return { agent };
    },
    // The server name, because undici would take the proxy's IP address for it, which Node 26 refuses.
    'ProxyAgent of undici': (uri) =>
      viaUndici(
        new ProxyAgent({ uri, proxyTls: { ...CA, servername: 'localhost' }, requestTls: { ...CA, ...CLIENT } }),
      ),
  };
  it('https-proxy-agent sends two requests through one tunnel', async () => {
    await using service = await startTlsService({ mutual: false });
    await using proxy = await ConnectProxy.start('http');
    const agent = new HttpsProxyAgent(proxy.url, { keepAlive: true, ...CA });
    Object.assign(agent.options, CA);
    expect(await tokenOver(service.baseUrl, { agent })).toBe('issued');
    expect(await tokenOver(service.baseUrl, { agent })).toBe('issued');
    expect(proxy.targets).toEqual([service.host]);
  });

  for (const [name, transportTo] of Object.entries(transports)) {
    for (const scheme of ['http', 'https'] as const) {
      for (const mutual of [false, true]) {
        it(`${name} tunnels through a proxy over ${scheme} to a service with ${mutual ? 'mutual TLS' : 'a private CA'}`, async () => {
          await using service = await startTlsService({ mutual });
          await using proxy = await ConnectProxy.start(scheme);
          const transport = transportTo(proxy.url);
          expect(await tokenOver(service.baseUrl, transport)).toBe('issued');
          expect(await tokenOver(service.baseUrl, transport)).toBe('issued');
          expect(service.clients).toEqual([mutual, mutual]);
          expect(new Set(proxy.targets)).toEqual(new Set([service.host]));
        });
      }
    }

    it(`${name} authenticates to a proxy, and fails without credentials`, async () => {
      await using service = await startTlsService({ mutual: false });
      await using proxy = await ConnectProxy.start('http', 'user:password');
      const withPassword = proxy.url.replace('://', '://user:password@');
      expect(await tokenOver(service.baseUrl, transportTo(withPassword))).toBe('issued');
      const endpoint = new TokenEndpoint({ baseUrl: service.baseUrl, ...CREDENTIALS, ...transportTo(proxy.url) });
      expect(await errorOf(endpoint.requestToken('owner'))).toMatchObject({
        code: 'endpoint_unavailable',
        status: 407,
        message: expect.stringMatching(/proxy.*407/),
      });
      expect(service.clients).toHaveLength(1);
    });
  }
});

describe("Node's environment proxy", () => {
  const supported = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');
  const code = `
    import { OwnerTokenRegistry, TokenEndpoint } from ${JSON.stringify(join(ROOT, 'src/index.ts'))};
    const source = new TokenEndpoint({ baseUrl: process.env.BASE_URL, clientId: 'app', clientSecret: 'secret' });
    const registry = new OwnerTokenRegistry({ source });
    console.log((await registry.getToken('owner')).value);
    await registry.close();
  `;

  it.runIf(supported)('is used by the default agent, except for hosts in NO_PROXY', async () => {
    await using service = await startTlsService({ mutual: false });
    await using proxy = await ConnectProxy.start();
    const tokenFrom = async (more: NodeJS.ProcessEnv) => {
      const env = { ...process.env, BASE_URL: service.baseUrl, NODE_TLS_REJECT_UNAUTHORIZED: '0', ...more };
      const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '--eval', code], { env });
      const output = (await child.stdout.setEncoding('utf8').toArray()).join('');
      return output.trim();
    };
    expect(await tokenFrom({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: proxy.url })).toBe('issued');
    expect(proxy.targets).toEqual([service.host]);
    expect(await tokenFrom({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: proxy.url, NO_PROXY: '127.0.0.1' })).toBe('issued');
    expect(await tokenFrom({ HTTPS_PROXY: proxy.url })).toBe('issued');
    expect(proxy.targets).toHaveLength(1);
  });
});
