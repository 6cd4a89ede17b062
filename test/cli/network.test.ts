/** `token` and `doctor` in a corporate network: a private CA, mutual TLS and a proxy, over real sockets. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { ConnectProxy } from '../helpers/connect-proxy.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../helpers/loopback-certificate.ts';
import { ROOT } from '../helpers/source-files.ts';
import { runCommand } from '../helpers/terminal.ts';

const CANARIES = { OTR_CLIENT_ID: 'canary-id', OTR_CLIENT_SECRET: 'canary-secret', OTR_ACCESS_KEY: 'canary-key' };
const folder = mkdtempSync(join(tmpdir(), 'network-flags-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

const CA = ['--ca', file('ca.pem', LOOPBACK_CERTIFICATE)];
const CLIENT = ['--cert', file('client.pem', LOOPBACK_CERTIFICATE), '--key', file('client.key', LOOPBACK_KEY)];

/** A token service with a resource, behind TLS that asks for a client certificate if it is mutual. */
async function startService(mutual: boolean) {
  const tls = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE, ca: LOOPBACK_CERTIFICATE };
  const server = createServer({ ...tls, requestCert: mutual, rejectUnauthorized: mutual }, (request, response) => {
    const isIn = request.method === 'POST' || request.headers.authorization === 'Bearer issued';
    response.writeHead(isIn ? 200 : 401).end('{"access_token":"issued","token_type":"Bearer","expires_in":60}');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    env: { ...CANARIES, OTR_BASE_URL: url },
    probe: ['--probe-url', `${url}/me`],
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe.each(['token', 'doctor'])('%s', (command) => {
  it('trusts a private CA with --ca, and only then', async () => {
    await using service = await startService(false);
    expect((await runCommand([command], service.env)).code).toBe(1);
    expect((await runCommand([command, ...CA], service.env)).code).toBe(0);
  });

  it('presents a client certificate with --cert and --key', async () => {
    await using service = await startService(true);
    const refused = await runCommand([command, ...CA], service.env);
    expect(refused.code).toBe(1);
    expect(refused.out + refused.err).toContain('Does it require a client certificate (--cert and --key)?');
    expect((await runCommand([command, ...CA, ...CLIENT], service.env)).code).toBe(0);
  });

  it.each([
    [['--ca', join(folder, 'none.pem')], '--ca: the file cannot be read (ENOENT)'],
    [['--ca', file('text', 'canary')], '--ca: expected a PEM file'],
    [['--cert', file('c.pem', LOOPBACK_CERTIFICATE)], '--cert and --key: give both, or neither'],
    [
      ['--cert', file('bad.pem', '-----BEGIN CERTIFICATE-----\ncanary'), '--key', file('k', LOOPBACK_KEY)],
      'no usable certificate or key',
    ],
  ])('explains why it refuses %j', async (args, expected) => {
    const { code, err } = await runCommand([command, ...args], {
      ...CANARIES,
      OTR_BASE_URL: 'https://example.invalid',
    });
    expect(code).toBe(2);
    expect(err).toContain(expected);
    expect(err).not.toContain('canary');
  });
});

it('the probe of doctor uses the same CA and client certificate', async () => {
  await using service = await startService(true);
  const { code, out } = await runCommand(['doctor', '--json', ...CA, ...CLIENT, ...service.probe], service.env);
  expect(code).toBe(0);
  expect(JSON.parse(out).checks).toContainEqual(expect.objectContaining({ check: 'probe', status: 'ok' }));
});

const supportsProxy = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');

describe('a proxy', () => {
  const env = { ...CANARIES, OTR_BASE_URL: 'https://service.invalid', HTTPS_PROXY: 'http://canary@127.0.0.1:1' };

  it.runIf(!supportsProxy)('that this Node cannot use is a warning', async () => {
    const { err } = await runCommand(['token'], env);
    expect(err).toMatch(/^warning: HTTPS_PROXY is ignored: this is Node \d+\S+, and Node supports proxies from 22\.21/);
    expect(err).not.toContain('canary');
  });

  describe.runIf(supportsProxy)('that this Node can use', () => {
    // Written with a dot, the name is that of the certificate, but not of this machine, for which no proxy is used.
    const beyond = ({ env: { OTR_BASE_URL = '' } }: { env: Record<string, string> }) => {
      const { port } = new URL(OTR_BASE_URL);
      return { ...CANARIES, OTR_BASE_URL: `https://localhost.:${port}`, target: `localhost.:${port}` };
    };

    it.each([
      ['alone', false, CA],
      ['and a client certificate', true, [...CA, ...CLIENT]],
    ])('is used by token and doctor: %s', async (_, mutual, flags) => {
      await using service = await startService(mutual);
      await using proxy = await ConnectProxy.start('http', 'user:canary');
      const { target, ...credentials } = beyond(service);
      const HTTPS_PROXY = proxy.url.replace('://', '://user:canary@');
      for (const command of ['token', 'doctor']) {
        const { code, out, err } = await runCommand([command, ...flags], { ...credentials, HTTPS_PROXY });
        expect({ command, code, out: code === 0 ? '' : out, err }).toEqual({ command, code: 0, out: '', err: '' });
      }
      expect(new Set(proxy.targets)).toEqual(new Set([target]));
      const withoutPassword = await runCommand(['token', ...flags], { ...credentials, HTTPS_PROXY: proxy.url });
      expect(withoutPassword.code).toBe(1);
      expect(withoutPassword.out + withoutPassword.err).not.toContain('canary');
    });

    describe('over https', () => {
      const { getCACertificates, setDefaultCACertificates } = tls as unknown as {
        getCACertificates(type: 'default'): string[];
        setDefaultCACertificates(certificates: string[]): void;
      };
      const certificates = supportsProxy ? getCACertificates('default') : [];
      afterEach(() => setDefaultCACertificates(certificates));

      it.each(['token', 'doctor'])(
        '%s trusts the private CA of a proxy over https with --ca, and only then',
        async (command) => {
          await using service = await startService(false);
          await using proxy = await ConnectProxy.start('https');
          const { target, ...credentials } = beyond(service);
          const environment = { ...credentials, HTTPS_PROXY: proxy.url };
          expect((await runCommand([command], environment)).code).toBe(1);
          expect(proxy.targets).toEqual([]);
          const { code, out, err } = await runCommand([command, ...CA], environment);
          expect({ code, out: code === 0 ? '' : out, err }).toEqual({ code: 0, out: '', err: '' });
          expect(new Set(proxy.targets)).toEqual(new Set([target]));
        },
      );
    });

    // Node reads the variable when it starts.
    it.each(['http', 'https'] as const)('is used over %s, with the CA in NODE_EXTRA_CA_CERTS', async (scheme) => {
      await using service = await startService(false);
      await using proxy = await ConnectProxy.start(scheme);
      const { target, ...credentials } = beyond(service);
      const env = { ...credentials, HTTPS_PROXY: proxy.url, NODE_EXTRA_CA_CERTS: CA[1] };
      const code = `
        const { run } = await import(${JSON.stringify(join(ROOT, 'src/cli/doctor/doctor.ts'))});
        const { env, stdout: out, stderr: err } = process;
        process.exitCode = await run(['--json'], { env, out, err, signal: new AbortController().signal });
      `;
      const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '--eval', code], { env });
      const output = (await child.stdout.setEncoding('utf8').toArray()).join('');
      expect(JSON.parse(output)).toMatchObject({ ok: true });
      expect(new Set(proxy.targets)).toEqual(new Set([target]));
    });

    it('is not used for hosts in NO_PROXY', async () => {
      await using service = await startService(false);
      await using proxy = await ConnectProxy.start();
      const { target: _, ...credentials } = beyond(service);
      await runCommand(['token', ...CA], { ...credentials, HTTPS_PROXY: proxy.url, NO_PROXY: 'localhost.' });
      expect(proxy.targets).toEqual([]);
    });
  });

  it('is not mentioned for a service on this machine', async () => {
    const { err } = await runCommand(['token'], { ...env, OTR_BASE_URL: 'https://127.0.0.1:1' });
    expect(err).not.toContain('HTTPS_PROXY');
  });
});
